"""Compare our ONNX export with an export of `transformers`: sizes, and speed in ONNX Runtime."""

import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

from albert.export.onnx import export_onnx
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig, build_preset
from albert.pretrained.folder import save_model
from albert.pretrained.huggingface import ONNX_INT8_NAME, ONNX_NAME
from albert.text.wordpiece_tokenizer import WordPieceTokenizer
from bench.timing import median_ratio, summarize, time_interleaved

THREADS = 2
REPEATS = 5
BATCHES = ((1, 32), (1, 128), (8, 128))
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_HIDDEN = "last_hidden_state"
# The shape of MiniLM-L6-H384, as BERT.
_MINILM: dict[str, Any] = {
    "embedding_size": 384, "hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536,
    "num_hidden_layers": 6, "sharing": "none", "hidden_act": "gelu",
}  # fmt: skip
MODELS = {"albert-base": build_preset("albert-base-v2"), "MiniLM": ModelConfig(**_MINILM)}


class _HiddenStates(torch.nn.Module):
    """A model of `transformers` with tensors as inputs and output."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> Any:
        return self.model(ids, attention_mask=mask, token_type_ids=types).last_hidden_state


def export_theirs(folder: Path, file: Path, *, has_dynamo: bool) -> None:
    """Export the encoder with torch.onnx.export: by torch.export, or by tracing as usual in optimum."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, attn_implementation="sdpa" if has_dynamo else "eager")
    ids = torch.ones(2, 16, dtype=torch.int64)
    inputs = (ids, torch.ones_like(ids), torch.zeros_like(ids))  # torch.export merges equal objects
    axes = {0: "batch", 1: "length"}
    options: dict[str, Any] = {"dynamic_axes": dict.fromkeys((*INPUTS, _HIDDEN), axes), "dynamo": False}
    if has_dynamo:
        options = {"dynamic_shapes": (axes, axes, axes), "dynamo": True, "external_data": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _HiddenStates(model).eval(),
            inputs,
            str(file),
            input_names=list(INPUTS),
            output_names=[_HIDDEN],
            verbose=False,
            **options,
        )


def open_optimized(file: Path) -> tuple[Any, int]:
    """Open a session, the same for all sides; also return the bytes of the optimized graph."""
    optimized = file.with_suffix(".optimized")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    # Waiting threads of one side would slow down the other.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.optimized_model_filepath = str(optimized)
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(file, options), optimized.stat().st_size


def measure(config: ModelConfig) -> dict[Any, Any]:
    """Measure sizes in bytes and, for each batch, times in seconds; both by side."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = [
            "[PAD]",
            "[UNK]",
            "[CLS]",
            "[SEP]",
            "[MASK]",
            *(f"w{i}" for i in range(5, config.vocab_size)),
        ]
        tokenizer = WordPieceTokenizer("".join(f"{word}\n" for word in words).encode())
        model = build_model(config, heads={}, has_pooler=True)
        save_model(folder / "model", model, tokenizer=tokenizer)
        exported = export_onnx(folder / "model", out=folder / "ours", int8=True)
        files = {
            "ours": folder / "ours" / ONNX_NAME,
            "theirs": folder / "theirs.onnx",
            "traced": folder / "traced.onnx",
            "int8": folder / "ours" / ONNX_INT8_NAME,
        }
        for side in ("theirs", "traced"):
            export_theirs(folder / "model", files[side], has_dynamo=side == "theirs")
        opened = {side: open_optimized(file) for side, file in files.items()}
        found: dict[Any, Any] = {
            "safetensors": (folder / "model" / "model.safetensors").stat().st_size,
            "sizes": {side: (files[side].stat().st_size, opened[side][1]) for side in files},
            "difference": exported.max_difference,
        }
    for shape in BATCHES:
        ids = np.random.default_rng(0).integers(5, config.vocab_size, shape)
        inputs = dict(zip(INPUTS, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))
        states = {side: session.run([_HIDDEN], inputs)[0] for side, (session, _) in opened.items()}
        for side in ("theirs", "traced"):
            np.testing.assert_allclose(states["ours"], states[side], atol=1e-4)
        runs = {
            side: lambda session=session, inputs=inputs: session.run([_HIDDEN], inputs)
            for side, (session, _) in opened.items()
        }
        found[shape] = time_interleaved(runs, repeats=REPEATS, clock=time.process_time)
    return found


def format_section() -> str:
    """Measure all models, and format the tables."""
    lines = [
        "Encoders with random weights in ONNX Runtime: processor time of two threads that do not spin.",
        "*Theirs* is `torch.onnx.export` of the model of `transformers` (torch.export, SDPA), *traced* the",
        "older exporter with eager attention, *int8* our dynamically quantized graph. Sizes: the file, and",
        "after the optimizer of ONNX Runtime. A ratio is the other side's time divided by ours.",
    ]
    for name, config in MODELS.items():
        found = measure(config)
        sizes = {side: [f"{size / 1e6:.1f}" for size in both] for side, both in found["sizes"].items()}
        lines += [
            "",
            f"**{name}**: safetensors {found['safetensors'] / 1e6:.1f} MB; largest difference from torch "
            f"{found['difference']:.1e}",
            "",
            "| | MB, optimized | " + " | ".join(f"{rows} × {length}" for rows, length in BATCHES) + " |",
            "|---|---|" + "---|" * len(BATCHES),
        ]
        for side, (before, after) in sizes.items():
            cells = []
            for shape in BATCHES:
                ratio = median_ratio(found[shape][side], found[shape]["ours"])
                cells.append(f"{summarize(found[shape][side])}, {ratio:.2f}×")
            lines.append(f"| {side} | {before}, {after} | {' | '.join(cells)} |")
    return "\n".join(lines)
