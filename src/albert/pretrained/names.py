"""The table of weight names: ours, those of `transformers` for ALBERT and BERT, and the original TensorFlow's.

{attention} and {ffn} are indices of our blocks; {group} and {inner} are indices of the other layout, which may
repeat one of our blocks. {exit} is the index of an early-exit classifier.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from albert.errors import WeightsError
from albert.model.config import BlockIds, ModelConfig, build_sharing_table
from albert.model.heads import HEADS
from albert.pretrained.huggingface import OUR_KEY, FolderConfig, NameLayout

ModuleType = Literal["linear", "norm", "table", "tensor", "logits", "weight"]
_PREFIXES = {"albert": "albert.", "bert": "bert."}
# Buffers and old names in files of early versions of `transformers`.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
_OLD_NAMES = ((".LayerNorm.gamma", ".LayerNorm.weight"), (".LayerNorm.beta", ".LayerNorm.bias"))
# The supported types; the integers of quantized models have no meaning without their scales.
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_MAP = "encoder.embeddings.map"
# Heads that other layouts call `classifier`, so that a folder can hold only one of them.
SHARED_CLASSIFIERS = ("classification", "token_classification", "choice")


@dataclass(frozen=True)
class Row:
    """A module or tensor in all layouts; the name is empty in a layout that does not have it."""

    module: ModuleType
    ours: str
    albert: str
    bert: str = ""
    tensorflow: str = ""


_GROUP = "albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}"
_LAYER = "bert.encoder.layer.{group}"
_TF_GROUP = "bert/encoder/transformer/group_{group}/inner_group_{inner}"

# fmt: off
ROWS = (
    Row("table", "encoder.embeddings.word", "albert.embeddings.word_embeddings", "bert.embeddings.word_embeddings", "bert/embeddings/word_embeddings"),
    Row("table", "encoder.embeddings.position", "albert.embeddings.position_embeddings", "bert.embeddings.position_embeddings", "bert/embeddings/position_embeddings"),
    Row("table", "encoder.embeddings.segment", "albert.embeddings.token_type_embeddings", "bert.embeddings.token_type_embeddings", "bert/embeddings/token_type_embeddings"),
    Row("norm", "encoder.embeddings.norm", "albert.embeddings.LayerNorm", "bert.embeddings.LayerNorm", "bert/embeddings/LayerNorm"),
    Row("linear", "encoder.embeddings.map", "albert.encoder.embedding_hidden_mapping_in", "", "bert/encoder/embedding_hidden_mapping_in"),
    Row("linear", "encoder.attention.{attention}.query", f"{_GROUP}.attention.query", f"{_LAYER}.attention.self.query", f"{_TF_GROUP}/attention_1/self/query"),
    Row("linear", "encoder.attention.{attention}.key", f"{_GROUP}.attention.key", f"{_LAYER}.attention.self.key", f"{_TF_GROUP}/attention_1/self/key"),
    Row("linear", "encoder.attention.{attention}.value", f"{_GROUP}.attention.value", f"{_LAYER}.attention.self.value", f"{_TF_GROUP}/attention_1/self/value"),
    Row("linear", "encoder.attention.{attention}.output", f"{_GROUP}.attention.dense", f"{_LAYER}.attention.output.dense", f"{_TF_GROUP}/attention_1/output/dense"),
    Row("norm", "encoder.attention.{attention}.norm", f"{_GROUP}.attention.LayerNorm", f"{_LAYER}.attention.output.LayerNorm", f"{_TF_GROUP}/LayerNorm"),
    Row("linear", "encoder.ffn.{ffn}.inner", f"{_GROUP}.ffn", f"{_LAYER}.intermediate.dense", f"{_TF_GROUP}/ffn_1/intermediate/dense"),
    Row("linear", "encoder.ffn.{ffn}.output", f"{_GROUP}.ffn_output", f"{_LAYER}.output.dense", f"{_TF_GROUP}/ffn_1/intermediate/output/dense"),
    Row("norm", "encoder.ffn.{ffn}.norm", f"{_GROUP}.full_layer_layer_norm", f"{_LAYER}.output.LayerNorm", f"{_TF_GROUP}/LayerNorm_1"),
    Row("linear", "pooler", "albert.pooler", "bert.pooler.dense", "bert/pooler/dense"),
    Row("linear", "heads.mlm.dense", "predictions.dense", "cls.predictions.transform.dense", "cls/predictions/transform/dense"),
    Row("norm", "heads.mlm.norm", "predictions.LayerNorm", "cls.predictions.transform.LayerNorm", "cls/predictions/transform/LayerNorm"),
    Row("tensor", "heads.mlm.bias", "predictions.bias", "cls.predictions.bias", "cls/predictions/output_bias"),
    Row("logits", "heads.sop.linear", "sop_classifier.classifier", "sop_classifier.classifier", "cls/seq_relationship"),
    # `transformers` has no class with these heads under these names. The last three have the same name, and
    # `architectures` in config.json distinguishes them.
    Row("logits", "heads.nsp.linear", "nsp_classifier.classifier", "cls.seq_relationship"),
    Row("linear", "heads.span.linear", "qa_outputs", "qa_outputs"),
    Row("linear", "heads.beam_span.start", "start_logits.dense", "start_logits.dense"),
    Row("linear", "heads.beam_span.end_dense", "end_logits.dense_0", "end_logits.dense_0"),
    Row("norm", "heads.beam_span.end_norm", "end_logits.LayerNorm", "end_logits.LayerNorm"),
    Row("linear", "heads.beam_span.end", "end_logits.dense_1", "end_logits.dense_1"),
    Row("linear", "heads.beam_span.answer_dense", "answer_class.dense_0", "answer_class.dense_0"),
    Row("weight", "heads.beam_span.answer", "answer_class.dense_1", "answer_class.dense_1"),
    Row("linear", "heads.exits.{exit}.linear", "exit_classifiers.{exit}", "exit_classifiers.{exit}"),
    Row("linear", "heads.classification.linear", "classifier", "classifier"),
    Row("linear", "heads.token_classification.linear", "classifier", "classifier"),
    Row("linear", "heads.choice.linear", "classifier", "classifier"),
)
# fmt: on
# Heads without a row are in no other library and keep our names.
_OWN_HEADS = tuple(
    f"heads.{head}." for head in HEADS if not any(row.ours.startswith(f"heads.{head}.") for row in ROWS)
)

# Tensors that other layouts store twice. Copies must be equal and are dropped.
COPIES: dict[NameLayout, dict[str, str]] = {
    "albert": {
        "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    },
    "bert": {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    "tensorflow": {},
}

# The suffixes in our, Hugging Face's and TensorFlow's names by module type; TensorFlow's kernels are [in, out].
_SUFFIXES: dict[ModuleType, tuple[tuple[str, str, str], ...]] = {
    "linear": ((".weight", ".weight", "/kernel"), (".bias", ".bias", "/bias")),
    "norm": ((".weight", ".weight", "/gamma"), (".bias", ".bias", "/beta")),
    "table": ((".weight", ".weight", ""),),
    "tensor": (("", "", ""),),
    "logits": ((".weight", ".weight", "/output_weights"), (".bias", ".bias", "/output_bias")),
    "weight": ((".weight", ".weight", ""),),
}


@dataclass(frozen=True)
class NamePair:
    """The names of a tensor in our and in the other layout, where it may be transposed."""

    ours: str
    theirs: str
    is_transposed: bool


def iter_names(config: ModelConfig, layout: NameLayout) -> Iterator[NamePair]:
    """Yield the names of all tensors and heads; a shared tensor may have several in the other layout."""
    for row in ROWS:
        theirs = getattr(row, layout)
        if not theirs:
            continue
        for ours_suffix, hf_suffix, tf_suffix in _SUFFIXES[row.module]:
            suffix = tf_suffix if layout == "tensorflow" else hf_suffix
            for ours_name, theirs_name in _expand(row.ours, theirs, config):
                yield NamePair(ours_name + ours_suffix, theirs_name + suffix, suffix == "/kernel")


def _expand(ours: str, theirs: str, config: ModelConfig) -> Iterator[tuple[str, str]]:
    if "{exit}" in ours:
        for number in range(config.num_hidden_layers - 1):
            yield ours.format(exit=number), theirs.format(exit=number)
    elif "{" in ours:
        for group, inner, ids in _iter_slots(config):
            numbers = {"attention": ids.attention, "ffn": ids.ffn, "group": group, "inner": inner}
            yield ours.format(**numbers), theirs.format(**numbers)
    else:
        yield ours, theirs


def _iter_slots(config: ModelConfig) -> Iterator[tuple[int, int, BlockIds]]:
    """Yield the (group, inner) indices of the other layout and our blocks there."""
    # Each layer is a group there, unless groups of layers share all blocks.
    rows = (
        dict.fromkeys(build_sharing_table(config)) if config.sharing == "all" else build_sharing_table(config)
    )
    for group, blocks in enumerate(rows):
        for inner, ids in enumerate(blocks):
            yield group, inner, ids


def to_ours(tensors: Mapping[str, Tensor], folder: FolderConfig, *, source: str) -> dict[str, Tensor]:
    """Rename tensors to our names; raise a WeightsError if one is unknown, not finite, or differs from a copy."""
    theirs = _unify_names(tensors, folder.layout)
    for name, tensor in theirs.items():
        _check_numbers(name, tensor, source)
    _drop_aliases(theirs, folder.layout, source)
    ours: dict[str, Tensor] = {}
    origin: dict[str, str] = {}
    for pair in _iter_pairs(folder):
        if pair.theirs not in theirs:
            continue
        tensor = theirs.pop(pair.theirs)
        tensor = tensor.t() if pair.is_transposed else tensor
        if pair.ours in ours and not torch.equal(ours[pair.ours], tensor):
            raise WeightsError(
                f"{source}: {origin[pair.ours]} and {pair.theirs} differ, but are shared by "
                f"sharing={folder.model.sharing}; remove {OUR_KEY} from config.json to load them separately"
            )
        ours.setdefault(pair.ours, tensor)
        origin.setdefault(pair.ours, pair.theirs)
    ours |= {name: theirs.pop(name) for name in list(theirs) if name.startswith(_OWN_HEADS)}
    if theirs:
        raise WeightsError(
            f"{source}: unknown tensors {_list(theirs)}; the weights do not belong to this config.json: use "
            "both files of one model"
        )
    _drop_identity_map(ours, folder.model, source)
    return ours


def to_theirs(tensors: Mapping[str, Tensor], folder: FolderConfig) -> dict[str, Tensor]:
    """Rename tensors to the names of the other layout, with copies of what it cannot share."""
    ours = dict(tensors)
    if folder.layout == "albert" and f"{_MAP}.weight" not in ours:
        # The class of `transformers` has a map even if E = H: the identity.
        dtype, width = ours["encoder.embeddings.word.weight"].dtype, folder.model.hidden_size
        ours |= {
            f"{_MAP}.weight": torch.eye(width, dtype=dtype),
            f"{_MAP}.bias": torch.zeros(width, dtype=dtype),
        }
    theirs = {pair.theirs: ours[pair.ours] for pair in _iter_pairs(folder) if pair.ours in ours}
    theirs |= {name: tensor for name, tensor in ours.items() if name.startswith(_OWN_HEADS)}
    left = set(ours) - {pair.ours for pair in _iter_pairs(folder)} - set(theirs)
    assert not left, f"the table of names lacks {_list(left)}"
    return theirs


def _iter_pairs(folder: FolderConfig) -> Iterable[NamePair]:
    """List the names in a folder, with only one of the heads that are called `classifier`."""
    others = tuple(f"heads.{head}." for head in SHARED_CLASSIFIERS if head != folder.classifier_head)
    pairs = iter_names(folder.model, folder.layout)
    return [pair for pair in pairs if not pair.ours.startswith(others)]


def _unify_names(tensors: Mapping[str, Tensor], layout: NameLayout) -> dict[str, Tensor]:
    """Unify files of one layout: add a missing prefix, replace old names of norms, drop buffers."""
    prefix = _PREFIXES.get(layout, "")
    has_no_prefix = bool(prefix) and not any(name.startswith(prefix) for name in tensors)
    unified = {}
    for name, tensor in tensors.items():
        if name.endswith(_BUFFERS):
            continue
        for old, new in _OLD_NAMES:
            name = name.replace(old, new) if name.endswith(old) else name
        if has_no_prefix and name.startswith(("embeddings.", "encoder.", "pooler.")):
            name = prefix + name
        unified[name] = tensor
    return unified


def _check_numbers(name: str, tensor: Tensor, source: str) -> None:
    if tensor.dtype not in _FLOATS:
        raise WeightsError(
            f"{source}: {name} has dtype {tensor.dtype}; save it as one of {', '.join(map(str, _FLOATS))}"
        )
    if not tensor.numel():
        return
    limit = torch.finfo(torch.float32).max
    lowest, highest = torch.aminmax(tensor)  # NaN if any is; 20 times faster than isfinite
    if not (float(lowest) >= -limit and float(highest) <= limit):
        raise WeightsError(
            f"{source}: {name} has a NaN or a number beyond {limit:.3g}; download the file again, or use a "
            "checkpoint from before the training diverged"
        )


def _drop_aliases(theirs: dict[str, Tensor], layout: NameLayout, source: str) -> None:
    for alias, original in COPIES[layout].items():
        if alias not in theirs:
            continue
        tensor = theirs.pop(alias)
        if alias.endswith("bias"):
            theirs.setdefault(original, tensor)
        if original in theirs and not torch.equal(tensor, theirs[original]):
            raise WeightsError(
                f"{source}: {alias} differs from {original}; only models with tied output embeddings are "
                "supported"
            )


def _drop_identity_map(ours: dict[str, Tensor], config: ModelConfig, source: str) -> None:
    if config.maps_embeddings or not {f"{_MAP}.weight", f"{_MAP}.bias"} <= set(ours):
        return
    weight, bias = ours.pop(f"{_MAP}.weight"), ours.pop(f"{_MAP}.bias")
    if not torch.equal(weight, torch.eye(len(weight), dtype=weight.dtype)) or bias.any():
        raise WeightsError(
            f"{source}: has_embedding_map is false, but the map is not the identity; remove has_embedding_map "
            "from config.json"
        )


def _list(names: Iterable[str], most: int = 8) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
