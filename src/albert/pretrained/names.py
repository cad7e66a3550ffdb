"""The one table of weight names: ours, Hugging Face's for ALBERT and BERT, and the original TensorFlow's.

A configuration comes in; for each tensor, our name and the other side's go out. {attention} and {ffn} are our
blocks; {group} and {inner} the other side's place for them, which may hold one of our blocks several times.
{exit} counts the classifiers before the last layer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from albert.model.config import ModelConfig
from albert.model.sharing import BlockIds, build_sharing_table

NameLayout = Literal["albert", "bert", "tensorflow"]
Kind = Literal["linear", "norm", "table", "tensor", "logits", "weight"]


@dataclass(frozen=True)
class Row:
    """One module or tensor on all sides; an empty name means that the side does not know it."""

    kind: Kind
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
    # From here on `transformers` has no class that holds both our head and this name, or no class at all;
    # the last three share one name there, and the folder's `architectures` says which is meant.
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

# What the other side keeps a second time; checked to be equal, then dropped.
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

# Our suffix and the other side's, by kind of module; TensorFlow's kernels are [in, out].
_SUFFIXES: dict[Kind, tuple[tuple[str, str, str], ...]] = {
    "linear": ((".weight", ".weight", "/kernel"), (".bias", ".bias", "/bias")),
    "norm": ((".weight", ".weight", "/gamma"), (".bias", ".bias", "/beta")),
    "table": ((".weight", ".weight", ""),),
    "tensor": (("", "", ""),),
    "logits": ((".weight", ".weight", "/output_weights"), (".bias", ".bias", "/output_bias")),
    "weight": ((".weight", ".weight", ""),),
}


@dataclass(frozen=True)
class NamePair:
    """One tensor: our name, the other side's, and whether it lies transposed there."""

    ours: str
    theirs: str
    is_transposed: bool


def iter_names(config: ModelConfig, layout: NameLayout) -> Iterator[NamePair]:
    """Every tensor that a model of `config` with every head may have, in the order of the table.

    Where the other side cannot share what we share, one of our names comes with several of theirs.
    """
    for row in ROWS:
        theirs = getattr(row, layout)
        if not theirs:
            continue
        for ours_suffix, hf_suffix, tf_suffix in _SUFFIXES[row.kind]:
            suffix = tf_suffix if layout == "tensorflow" else hf_suffix
            for ours_name, theirs_name in _expand(row.ours, theirs, config):
                yield NamePair(ours_name + ours_suffix, theirs_name + suffix, suffix == "/kernel")


def _expand(ours: str, theirs: str, config: ModelConfig) -> Iterator[tuple[str, str]]:
    """Fill in the numbers of the blocks or of the exits, where a name has any."""
    if "{" not in ours:
        yield ours, theirs
        return
    if "{exit}" in ours:
        for number in range(config.num_hidden_layers - 1):
            yield ours.format(exit=number), theirs.format(exit=number)
        return
    for group, inner, ids in _iter_slots(config):
        yield (
            ours.format(attention=ids.attention, ffn=ids.ffn),
            theirs.format(group=group, inner=inner),
        )


def _iter_slots(config: ModelConfig) -> Iterator[tuple[int, int, BlockIds]]:
    """The other side's (group, inner) places and the blocks of ours that they hold."""
    table = build_sharing_table(config)
    if config.sharing == "all":
        for group in range(config.num_hidden_groups):
            for inner in range(config.inner_group_num):
                block = group * config.inner_group_num + inner
                yield group, inner, BlockIds(block, block)
        return
    for layer, blocks in enumerate(table):
        for inner, ids in enumerate(blocks):
            yield layer, inner, ids
