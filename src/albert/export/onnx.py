"""Export a model as ONNX, in the folder layout of Hugging Face and transformers.js, and verify the files.

A float32 graph must equal torch on sequences of all lengths, with and without padding; otherwise nothing is
written. An int8 graph cannot be equal: its agreement with float32 is measured on sentences of the package.

Shapes: T tokens, B sequences, L length of the longest.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from albert.errors import InputError, WeightsError
from albert.export.graph import HIDDEN, INPUTS, OUTPUTS, POOLED, VECTOR, build_graph
from albert.files import atomic_dir, read_text, reject_other_content, write_json, write_text
from albert.inference.backends import import_runtime, open_session
from albert.model.albert_model import AlbertModel
from albert.model.heads import HEADS
from albert.model.tokens import Tokens
from albert.pretrained.folder import MODEL_FILES, load_model, load_vocabulary
from albert.pretrained.huggingface import (
    CONFIG_NAME,
    ONNX_INT8_NAME,
    ONNX_NAME,
    TASK_NAME,
    FolderConfig,
    format_config,
)
from albert.pretrained.sentence_transformers import is_normalizing, read_pooling, read_sentence_files
from albert.tasks.catalogue import read_config
from albert.text.folder import save_tokenizer
from albert.text.tokenizer import Tokenizer

TOLERANCE = 1e-4  # of float32 outputs
MIN_COSINE = 0.9  # of int8 hidden states
_POOLINGS = ("mean", "cls", "pooler")
_PRETRAINING = {"mlm", "sop", "nsp"}
_MAX_BYTES = 2**31 - 2**20  # of a protobuf file
_SENTENCES = Path(__file__).parents[1] / "recipes" / "study" / "minimal-pairs.jsonl"
_NUM_SENTENCES = 64
Arrays = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Agreement:
    """How an int8 graph agrees with float32.

    Args:
        mean_cosine: The mean cosine of the hidden states of tokens.
        lowest_cosine: The lowest of these.
        same_predictions: The share of equal predictions by output with classes, such as `logits`.
    """

    mean_cosine: float
    lowest_cosine: float
    same_predictions: Mapping[str, float]


@dataclass(frozen=True)
class OnnxExport:
    """What was written: the folder, the outputs of the graph, sizes in bytes, and the measured differences.

    `max_difference` is the largest of all outputs between float32 and torch, `agreement` that of int8.
    """

    path: Path
    outputs: tuple[str, ...]
    num_layers: int
    num_bytes: int
    max_difference: float
    num_int8_bytes: int | None = None
    agreement: Agreement | None = None


@dataclass(frozen=True)
class _Source:
    """The model to export, and the text vectors that its folder asks for; a model of a task has none."""

    model: AlbertModel
    depth: int
    pooling: str | None
    is_normalized: bool


def export_onnx(
    source: str | Path, *, out: str | Path, depth: int | None = None, int8: bool = False
) -> OnnxExport:
    """Export a model as ONNX and verify it.

    The folder has `onnx/model.onnx` with the encoder, the heads and the pooling, the tokenizer, `config.json`
    and, for a fine-tuned model, `task.json`. `albert.load(out, backend="onnx")` opens it, and so do
    transformers.js and ONNX Runtime itself.

    Args:
        source: A model folder, a run, a released model or a name on the hub.
        out: The folder to write; an earlier export there is replaced.
        depth: The number of layers: by default all, or fewer, or more if the model shares all its layers.
        int8: Also write `onnx/model_quantized.onnx`, with dynamically quantized matrix products.

    Returns:
        The sizes and the measured differences.

    Raises:
        InputError: If the extra `onnx` is missing, or the model cannot be expressed.
        WeightsError: If a graph differs from the model, in which case nothing is written.
    """
    import_runtime()
    out = Path(out)
    reject_other_content(out, {*MODEL_FILES, "onnx"} - {"model.safetensors"}, doing="exporting there")
    loaded = load_model(source)
    folder = loaded.path if loaded.path.is_dir() else loaded.path.parent
    model, tokenizer = loaded.model, load_vocabulary(loaded.path)
    num_layers = len(model.encoder.select_layers(depth))
    _check_heads(model, source=str(source))
    _choose_exit(model, num_layers)
    is_encoder = set(model.heads) <= {*_PRETRAINING, "vector_exits"}
    pooling = (read_pooling(folder) or "mean") if is_encoder else None
    if pooling not in (None, *_POOLINGS):
        raise InputError(
            f"{source}: pools by {pooling}, but only {', '.join(_POOLINGS)} can be exported; change 1_Pooling"
        )
    prepared = _Source(model, num_layers, pooling, is_normalizing(folder))
    with atomic_dir(out) as temporary:
        file = temporary / ONNX_NAME
        outputs = _write_graph(file, prepared, is_int8=False)
        difference = _verify(file, prepared)
        num_int8_bytes = agreement = None
        if int8:
            quantized = temporary / ONNX_INT8_NAME
            _write_graph(quantized, prepared, is_int8=True)
            agreement = _compare_int8(file, quantized, tokenizer)
            num_int8_bytes = quantized.stat().st_size
        _write_companions(temporary, folder, prepared, tokenizer, declared=loaded.folder_config)
        num_bytes = file.stat().st_size
    return OnnxExport(out, outputs, num_layers, num_bytes, difference, num_int8_bytes, agreement)


def _check_heads(model: AlbertModel, *, source: str) -> None:
    if others := sorted(set(model.heads) - {*OUTPUTS, "exits", "vector_exits"}):
        raise InputError(f"{source}: the head {others[0]} cannot be exported; save the model without it")
    names = [name for head in model.heads for name in OUTPUTS.get(head, ())]
    if len(set(names)) < len(names):
        raise InputError(
            f"{source}: several of the heads {', '.join(model.heads)} have the output logits; save them in "
            "separate folders"
        )


def _choose_exit(model: AlbertModel, num_layers: int) -> None:
    """Replace early exits, which a graph cannot take, by the classifier of the last exported layer."""
    if "exits" in model.heads:
        if num_layers < model.config.num_hidden_layers:
            model.heads["classification"] = model.heads["exits"].get_submodule(str(num_layers - 1))
        del model.heads["exits"]


def _write_graph(file: Path, source: _Source, *, is_int8: bool) -> tuple[str, ...]:
    import onnx

    shapes = {
        name: ("batch", *(["length"] if is_by_token else []), *values.shape[1:])
        for name, (values, is_by_token) in _compute_outputs(source, _draw_tokens(source.model, [3])).items()
    }
    proto = build_graph(
        source.model,
        shapes=shapes,
        depth=source.depth,
        pooling=source.pooling,
        is_normalized=source.is_normalized,
        is_int8=is_int8,
    )
    if proto.ByteSize() > _MAX_BYTES:
        raise InputError(
            f"the graph has {proto.ByteSize() / 1e9:.1f} GB, but an ONNX file at most 2 GB; export fewer "
            "layers with --depth"
        )
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(proto.SerializeToString())
    onnx.checker.check_model(str(file))
    return tuple(shapes)


@torch.inference_mode()
def _compute_outputs(source: _Source, tokens: Tokens) -> dict[str, tuple[Tensor, bool]]:
    """Compute with torch what the graph computes: by name the values [T, …] or [B, …], and which of both."""
    model = source.model
    last_TD = model(tokens, depth=source.depth).last_TD
    found = {HIDDEN: (last_TD, True)}
    if model.pooler is not None:
        found[POOLED] = (model.pool(last_TD, tokens), False)
    if source.pooling is not None:
        if source.pooling == "mean":
            vector_BD = model.pool_mean(last_TD, tokens, depth=source.depth)
        else:
            vector_BD = last_TD[tokens.first_B] if source.pooling == "cls" else model.pool(last_TD, tokens)
        norm_B1 = vector_BD.norm(dim=1, keepdim=True)
        found[VECTOR] = (vector_BD / norm_B1 if source.is_normalized else vector_BD, False)
    for name, outputs in OUTPUTS.items():
        if name not in model.heads:
            continue
        head, pool = model.head(name), HEADS[name].pool
        values: tuple[Tensor, ...]
        if name == "mlm":
            values = (model.mlm_logits(last_TD),)
        elif name == "beam_span":
            ends = torch.tensor(tokens.lengths).repeat_interleave(torch.tensor(tokens.lengths)) - 1
            is_second_T = (tokens.segments_T == 1) & (tokens.positions_T < ends)
            allowed_T = is_second_T | (tokens.positions_T == 0)
            logits = head(last_TD, tokens, allowed_T=allowed_T, true_starts_B=None)
            values = (logits.start_T, logits.end_T, logits.unanswerable_B)
        elif pool is not None or HEADS[name].is_pooled:
            values = (head(model.pool(last_TD, tokens) if pool is None else pool(last_TD, tokens)),)
        else:
            logits_T = head(last_TD)
            values = logits_T if isinstance(logits_T, tuple) else (logits_T,)
        is_by_sequence = HEADS[name].is_pooled or pool is not None
        for output, value in zip(outputs, values, strict=True):
            found[output] = (value, not is_by_sequence and output != "unanswerable_logits")
    return found


def _verify(file: Path, source: _Source) -> float:
    """Compare a graph with torch on sequences of many lengths, alone and padded."""
    session = open_session(file, num_threads=torch.get_num_threads())
    largest = 0.0
    longest = source.model.config.max_position_embeddings
    lengths = sorted({min(2**power, longest) for power in range(longest.bit_length() + 1)})
    for length in lengths:
        for rows in ([length], [length, 1 + length // 3]):
            tokens = _draw_tokens(source.model, rows)
            found = _run(session, tokens)
            for name, (values, is_by_token) in _compute_outputs(source, tokens).items():
                own = found[name]
                if is_by_token:
                    own = np.concatenate([each[:size] for each, size in zip(own, rows, strict=True)])
                expected = values.numpy()
                assert own.shape == expected.shape
                with np.errstate(invalid="ignore"):  # minus infinity minus itself
                    differences = np.where(own == expected, 0, np.abs(own - expected))
                difference = float(differences.max())
                if not difference <= TOLERANCE:
                    raise WeightsError(
                        f"{name} of the ONNX graph differs by {difference:.1e} from torch for {length} "
                        f"tokens, more than {TOLERANCE}; nothing was written"
                    )
                largest = max(largest, difference)
    return largest


def _draw_tokens(model: AlbertModel, lengths: list[int]) -> Tokens:
    """Draw sequences whose second half is another segment, if the model has two."""
    generator = np.random.default_rng(sum(lengths))
    ids = [generator.integers(0, model.config.vocab_size, length).tolist() for length in lengths]
    num_segments = model.config.type_vocab_size
    segments = [[min(2 * index // length, num_segments - 1) for index in range(length)] for length in lengths]
    return Tokens.from_lists(ids, segments)


def _run(session: object, tokens: Tokens) -> Arrays:
    """Run a graph on a padded batch."""
    padded = {name: np.zeros((len(tokens.lengths), max(tokens.lengths)), np.int64) for name in INPUTS}
    parts = (tokens.ids_T, torch.ones_like(tokens.ids_T), tokens.segments_T)
    for name, part in zip(INPUTS, parts, strict=True):
        for row, values in zip(padded[name], part.split(tokens.lengths), strict=True):
            row[: len(values)] = values
    names = [output.name for output in session.get_outputs()]  # type: ignore[attr-defined]
    return dict(zip(names, session.run(names, padded), strict=True))  # type: ignore[attr-defined]


def _compare_int8(file: Path, quantized: Path, tokenizer: Tokenizer) -> Agreement:
    """Compare two graphs on sentences; raise a WeightsError if int8 has lost the model."""
    sessions = [open_session(each, num_threads=torch.get_num_threads()) for each in (file, quantized)]
    cosines, equal = [], dict[str, list[NDArray[np.bool_]]]()
    for text in _read_sentences():
        sequence = tokenizer.build_sequence(tokenizer.encode(text))
        tokens = Tokens.from_lists([sequence.ids], [sequence.segments])
        exact, own = (_run(session, tokens) for session in sessions)
        norms = (np.linalg.norm(each[HIDDEN], axis=2) for each in (exact, own))
        cosines.append(((exact[HIDDEN] * own[HIDDEN]).sum(2) / np.multiply(*norms)).ravel())
        for name in exact.keys() - {HIDDEN, POOLED, VECTOR}:
            if exact[name].ndim > 1 and exact[name].shape[-1] > 1:  # not a number
                is_equal = exact[name].argmax(-1) == own[name].argmax(-1)
                equal.setdefault(name, []).append(is_equal.ravel())
    joined = np.concatenate(cosines)
    shares = {name: float(np.concatenate(parts).mean()) for name, parts in sorted(equal.items())}
    if not joined.mean() >= MIN_COSINE:
        raise WeightsError(
            f"int8 has lost the model: the mean cosine of its hidden states with float32 is "
            f"{joined.mean():.3f}, below {MIN_COSINE}; omit --int8. Nothing was written"
        )
    return Agreement(float(joined.mean()), float(joined.min()), shares)


def _read_sentences() -> Iterator[str]:
    for line in read_text(_SENTENCES).splitlines()[:_NUM_SENTENCES]:
        yield json.loads(line)["sentence_good"]


def _write_companions(
    path: Path, folder: Path, source: _Source, tokenizer: Tokenizer, *, declared: FolderConfig
) -> None:
    """Write config.json, the tokenizer, the task and the files of sentence-transformers."""
    config = source.model.config
    depth = source.depth
    fixed = {"num_hidden_layers": depth, "num_hidden_groups": min(config.num_hidden_groups, depth)}
    exported = FolderConfig(
        model=config.model_copy(update=fixed),
        layout=declared.layout,
        labels=declared.labels,
        problem_type=declared.problem_type,
    )
    write_json(path / CONFIG_NAME, format_config(exported, heads=set(source.model.heads)))
    save_tokenizer(tokenizer, path, model_max_length=config.max_position_embeddings)
    task = read_config(folder)
    if task is not None:
        write_json(path / TASK_NAME, task.without_exits().model_dump(mode="json"))
    for name, text in read_sentence_files(folder).items():
        write_text(path / name, text)
