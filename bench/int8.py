"""Compare int8 with float32, with `transformers` and with ONNX Runtime on the CPU, at base width.

`python -m bench.int8 [--width 768] [--layers 12] [--repeats 3] [--threads 2] [--processor-time] [--json]`.
Random weights, real texts in the order of bench/texts.txt. ONNX Runtime runs an export of the model of
`transformers`, also quantized by its `quantize_dynamic`. With `--processor-time`, use one thread: the time in
which other programs run does not count.
"""

import argparse
import copy
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from albert.model.albert_model import build_model
from albert.model.config import build_preset
from albert.model.int8 import quantize_model
from bench.batches import Batch, build_batch, ragged_batch
from bench.timing import median_ratio, summarize, time_interleaved

BATCH_SIZES = (4, 8)  # of sorted texts: candidates for the best batch size
Run = Callable[[list[Batch]], None]


class _Exported(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids_BL: Tensor, mask_BL: Tensor) -> Tensor:
        hidden: Tensor = self.model(input_ids=ids_BL, attention_mask=mask_BL).last_hidden_state
        return hidden


def build_sides(
    width: int, layers: int, folder: Path, *, threads: int
) -> tuple[dict[str, Run], dict[str, int]]:
    """Build a function for each side, and count the bytes of the files of ONNX Runtime."""
    import onnxruntime
    import transformers
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    shape = {"hidden_size": width, "num_attention_heads": width // 64, "intermediate_size": 4 * width}
    config = build_preset("albert-base-v2").model_copy(update={**shape, "num_hidden_layers": layers})
    ours = build_model(config, heads={})
    int8 = quantize_model(copy.deepcopy(ours))
    theirs = transformers.AlbertModel(
        transformers.AlbertConfig(**shape, num_hidden_layers=layers, attn_implementation="sdpa")
    ).eval()
    batch = build_batch([[2, 7, 9, 3], [2, 7, 3]])
    paths = {"ONNX Runtime": folder / "float.onnx", "ONNX Runtime int8": folder / "int8.onnx"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dim = torch.export.Dim.DYNAMIC
        torch.onnx.export(
            _Exported(theirs),
            (batch.ids_BL, batch.mask_BL),
            paths["ONNX Runtime"],
            input_names=["ids", "mask"],
            dynamic_shapes=({0: dim, 1: dim}, {0: dim, 1: dim}),
            external_data=False,
        )
        # Without this, weights behind a Transpose, which are most, would not be quantized.
        prepared = str(folder / "prepared.onnx")
        quant_pre_process(str(paths["ONNX Runtime"]), prepared, skip_symbolic_shape=True)
        target = paths["ONNX Runtime int8"]
        quantize_dynamic(prepared, target, weight_type=QuantType.QInt8, per_channel=True)

    def run_flat(model: nn.Module) -> Run:
        def run(batches: list[Batch]) -> None:
            for batch in batches:
                model(batch.tokens)

        return run

    def run_padded(batches: list[Batch]) -> None:
        for batch in batches:
            theirs(
                input_ids=batch.ids_BL, attention_mask=None if batch.padding_factor == 1 else batch.mask_BL
            )

    def run_session(path: Path) -> Run:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

        def run(batches: list[Batch]) -> None:
            for batch in batches:
                session.run(None, {"ids": batch.ids_BL.numpy(), "mask": batch.mask_BL.numpy()})

        return run

    sides = {"int8": run_flat(int8), "float32": run_flat(ours), "transformers": run_padded}
    sides |= {name: run_session(path) for name, path in paths.items()}
    return sides, {name: path.stat().st_size for name, path in paths.items()}


def measure(
    width: int = 768,
    layers: int = 12,
    repeats: int = 3,
    *,
    threads: int = 2,
    processor_time: bool = False,
) -> dict[str, Any]:
    """Time throughput (all texts) and latency (each of eight sentences alone); ratios are to int8."""
    torch.set_num_threads(threads)
    clock = time.process_time if processor_time else time.perf_counter
    batch = ragged_batch()
    by_length = sorted(batch.split(1), key=lambda each: each.ids_BL.shape[1])
    sentences = by_length[: len(by_length) // 2 : 2][:8]
    found: dict[str, Any] = {
        "real_tokens": int(batch.mask_BL.sum()),
        "padding_factor": batch.padding_factor,
        "sentence_lengths": [each.ids_BL.shape[1] for each in sentences],
    }
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        sides, found["onnx_bytes"] = build_sides(width, layers, Path(folder), threads=threads)
        steps = {name: partial(run, [batch]) for name, run in sides.items()}
        for name in ("transformers", *found["onnx_bytes"]):
            for size in BATCH_SIZES:
                steps[f"{name}, batches of {size}"] = partial(sides[name], batch.split(size))
        found["throughput"] = _summarize(steps, repeats, clock)
        alone = {name: partial(run, sentences) for name, run in sides.items()}
        found["latency_of_all_sentences"] = _summarize(alone, 3 * repeats, clock)
    return found


def _summarize(
    steps: Mapping[str, Callable[[], None]], repeats: int, clock: Callable[[], float]
) -> dict[str, dict[str, Any]]:
    times = time_interleaved(steps, repeats=repeats, clock=clock)
    return {
        name: {"time": str(summarize(each)), "min": min(each), "ratio": median_ratio(each, times["int8"])}
        for name, each in times.items()
    }


def format_results(found: Mapping[str, Any]) -> str:
    """Format the section of the report: the time of each side, and its ratio to int8."""
    factor = found["padding_factor"]
    lines = [
        f"{found['real_tokens']:,} tokens of 32 texts in order of arrival ({factor:.1f} times as many when",
        "padded), and eight sentences of 6 to 31 tokens, one after the other. Random weights of",
        "ALBERT's base width. *Batches of N*: sorted by length. Ratios are to int8.",
        "",
        "| | all texts | ratio | sentences alone | ratio |",
        "|---|---|---|---|---|",
    ]
    alone = found["latency_of_all_sentences"]
    for name, each in found["throughput"].items():
        cells = [name, each["time"], f"{each['ratio']:.2f}×"]
        cells += [alone[name]["time"], f"{alone[name]['ratio']:.2f}×"] if name in alone else ["", ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Print the measurements as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.int8", description=__doc__)
    for name, default in (("width", 768), ("layers", 12), ("repeats", 3), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = vars(parser.parse_args(words))
    as_json = arguments.pop("json")
    found = measure(**arguments)
    print(json.dumps(found, indent=1) if as_json else format_results(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
