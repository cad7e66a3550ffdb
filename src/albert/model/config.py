"""The config of a model, its sharing table, presets and parameter counts, without importing torch."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from albert.errors import InputError, suggest
from albert.settings import Settings, build_settings

if TYPE_CHECKING:
    from albert.model.albert_model import AlbertModel

MAX_DEPTH = 1024
Sharing = Literal["all", "attention", "ffn", "none"]
Activation = Literal["gelu_new", "gelu", "relu"]
# The limits are far above any model, and far below what overflows the size of a tensor.
Width = Annotated[int, Field(gt=0, le=2**24)]
Count = Annotated[int, Field(gt=0, le=1024)]
Epsilon = Annotated[float, Field(ge=1e-37, le=0.1)]
Deviation = Annotated[float, Field(gt=0.0, le=1000.0)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]


class ModelConfig(Settings):
    """The shape of a model. BERT is the setting `sharing="none"` with `embedding_size == hidden_size`.

    `hidden_act` uses Hugging Face's names: `gelu_new` is ALBERT's tanh approximation, `gelu` is BERT's exact
    GELU.
    """

    vocab_size: Width = 30_000
    embedding_size: Width = 128
    hidden_size: Width = 768
    num_hidden_layers: Count = 12
    num_hidden_groups: Count = 1
    inner_group_num: Count = 1
    num_attention_heads: Count = 12
    intermediate_size: Width = 3072
    sharing: Sharing = "all"
    hidden_act: Activation = "gelu_new"
    hidden_dropout_prob: Probability = 0.0
    attention_probs_dropout_prob: Probability = 0.0
    classifier_dropout_prob: Probability = 0.1
    max_position_embeddings: Width = 512
    type_vocab_size: Width = 2
    initializer_range: Deviation = 0.02
    layer_norm_eps: Epsilon = 1e-12
    pad_token_id: Annotated[int, Field(ge=0)] = 0
    # Whether a linear layer projects embeddings from E to H. None: if they differ. Hugging Face's ALBERT
    # always has one.
    has_embedding_map: bool | None = None

    @model_validator(mode="after")
    def _check_combinations(self) -> "ModelConfig":
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads "
                f"{self.num_attention_heads}; change one of them"
            )
        if self.num_hidden_groups > self.num_hidden_layers:
            counts = f"num_hidden_groups {self.num_hidden_groups} exceeds num_hidden_layers"
            raise ValueError(f"{counts} {self.num_hidden_layers}; each group needs at least one layer")
        if self.sharing == "none" and self.num_hidden_groups > 1:
            raise ValueError(
                f"num_hidden_groups is {self.num_hidden_groups} with sharing=none, but groups share their "
                "layers; use sharing=all, or num_hidden_groups=1"
            )
        if self.has_embedding_map is False and self.embedding_size != self.hidden_size:
            raise ValueError(
                f"has_embedding_map is false, but embedding_size {self.embedding_size} and hidden_size "
                f"{self.hidden_size} differ; omit has_embedding_map"
            )
        if self.pad_token_id >= self.vocab_size:
            raise ValueError(f"pad_token_id {self.pad_token_id} must be below vocab_size {self.vocab_size}")
        return self

    @property
    def maps_embeddings(self) -> bool:
        """Whether a linear layer projects the embeddings from E to H."""
        if self.has_embedding_map is None:
            return self.embedding_size != self.hidden_size
        return self.has_embedding_map

    @property
    def is_fully_shared(self) -> bool:
        """Whether every layer is the same block, so that the depth may exceed `num_hidden_layers`."""
        return self.sharing == "all" and self.num_hidden_groups == 1

    @property
    def is_bert(self) -> bool:
        """Whether this is BERT: nothing shared, and no factorized embedding."""
        return self.sharing == "none" and not self.maps_embeddings and self.inner_group_num == 1


@dataclass(frozen=True)
class BlockIds:
    """The indices of the attention block and the feed-forward block that a step of a layer uses."""

    attention: int
    ffn: int


Layer = tuple[BlockIds, ...]


def build_sharing_table(config: ModelConfig) -> tuple[Layer, ...]:
    """Build the table of cross-layer parameter sharing (paper, section 3.1).

    It has a row per layer, of `inner_group_num` pairs of blocks that run in sequence. Each group of
    consecutive layers shares its own blocks.
    """
    inner = config.inner_group_num
    rows = []
    for layer in range(config.num_hidden_layers):
        group = layer * config.num_hidden_groups // config.num_hidden_layers
        attention = group if config.sharing in ("all", "attention") else layer
        ffn = group if config.sharing in ("all", "ffn") else layer
        rows.append(tuple(BlockIds(attention * inner + i, ffn * inner + i) for i in range(inner)))
    return tuple(rows)


def count_blocks(config: ModelConfig) -> BlockIds:
    """Count the distinct attention and feed-forward blocks of the sharing table."""
    shared, unshared = config.num_hidden_groups, config.num_hidden_layers
    return BlockIds(
        attention=config.inner_group_num * (shared if config.sharing in ("all", "attention") else unshared),
        ffn=config.inner_group_num * (shared if config.sharing in ("all", "ffn") else unshared),
    )


def select_layers(table: tuple[Layer, ...], *, depth: int | None, is_fully_shared: bool) -> tuple[Layer, ...]:
    """Select the rows of `depth` layers; more than the table has need a fully shared model."""
    if depth is None:
        return table
    if not 1 <= depth <= MAX_DEPTH:
        raise InputError(f"depth is {depth}; it must be from 1 to {MAX_DEPTH}")
    if depth <= len(table):
        return table[:depth]
    if not is_fully_shared:
        raise InputError(
            f"depth is {depth}, but this model has {len(table)} layers with different weights; only a model "
            "that shares all layers can run deeper"
        )
    return (table[0],) * depth


@dataclass(frozen=True)
class Initialization:
    """Options that help small models: sinusoidal positions, and heads of each block that match words."""

    has_sinusoidal_positions: bool = False
    num_matching_heads: int = 0

    def apply(self, model: "AlbertModel") -> None:
        from albert.model.initialization import WordMatching, init_sinusoidal

        if self.has_sinusoidal_positions:
            init_sinusoidal(model.encoder.embeddings.position.weight, std=model.config.initializer_range)
        if self.num_matching_heads:
            WordMatching(model.encoder, num_heads=self.num_matching_heads).apply()

    def __str__(self) -> str:
        parts = ["sinusoidal positions" if self.has_sinusoidal_positions else "random positions"]
        if self.num_matching_heads:
            parts.append(f"{self.num_matching_heads} word-matching heads")
        return ", ".join(parts)


# Presets: the models of the paper, the published second versions, BERT, and two for CPUs.

_DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}


def _albert(layers: int, hidden: int, heads: int) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
    }


def _bert(layers: int, hidden: int) -> dict[str, Any]:
    # V is ALBERT's 30,000, so that only the architectures differ.
    shape = _albert(layers, hidden, hidden // 64)
    return {**shape, **_DROPOUT, "embedding_size": hidden, "sharing": "none", "hidden_act": "gelu"}


# xlarge has 16 heads, like its published config; the paper's rule H/64 would give 32.
_BASE, _LARGE = _albert(12, 768, 12), _albert(24, 1024, 16)
_XLARGE, _XXLARGE = _albert(24, 2048, 16), _albert(12, 4096, 64)

PRESETS: dict[str, dict[str, Any]] = {
    "albert-base-v1": {**_BASE, **_DROPOUT},
    "albert-large-v1": {**_LARGE, **_DROPOUT},
    "albert-xlarge-v1": {**_XLARGE, **_DROPOUT},
    "albert-xxlarge-v1": _XXLARGE,
    "albert-base-v2": _BASE,
    "albert-large-v2": _LARGE,
    "albert-xlarge-v2": _XLARGE,
    "albert-xxlarge-v2": _XXLARGE,
    "bert-base": _bert(12, 768),
    "bert-large": _bert(24, 1024),
    "bert-xlarge": _bert(24, 2048),
    "small": {**_albert(12, 512, 8), "vocab_size": 16_000},
    "nano": {**_albert(6, 256, 4), "vocab_size": 8_000},
}
# Names without a version are the models of the paper, which have dropout.
ALIASES = {name.removesuffix("-v1"): name for name in PRESETS if name.endswith("-v1")}


def build_preset(name: str, *, overrides: Iterable[str] = ()) -> ModelConfig:
    """Build the config of a preset, with `key=value` overrides."""
    known = {**PRESETS, **ALIASES}
    if name not in known:
        raise InputError(f"unknown preset {name!r}; {suggest(name, known)}")
    values = PRESETS[ALIASES.get(name, name)]
    return build_settings(ModelConfig, values=values, overrides=overrides, source=f"preset {name}")


PRETRAINING_HEADS = ("mlm", "sop")


@dataclass(frozen=True)
class ParameterCount:
    """The number of parameters by part; tied and shared tensors count once."""

    embeddings: int
    embedding_map: int
    attention: int
    ffn: int
    pooler: int
    heads: int

    @property
    def encoder(self) -> int:
        return self.embeddings + self.embedding_map + self.attention + self.ffn

    @property
    def backbone(self) -> int:
        """The encoder with its pooler, as in the paper's tables."""
        return self.encoder + self.pooler

    @property
    def total(self) -> int:
        return self.backbone + self.heads


def count_parameters(config: ModelConfig, *, heads: Iterable[str] = PRETRAINING_HEADS) -> ParameterCount:
    """Count the parameters of a model with a pooler and the given pretraining heads (mlm, sop, nsp)."""
    vocab, e, h, f = config.vocab_size, config.embedding_size, config.hidden_size, config.intermediate_size
    blocks = count_blocks(config)
    head_sizes = {
        "mlm": _linear(h, e) + _norm(e) + vocab,  # the output table is tied to the embeddings
        "sop": _linear(h, 2),
        "nsp": _linear(h, 2),
    }
    return ParameterCount(
        embeddings=(vocab + config.max_position_embeddings + config.type_vocab_size) * e + _norm(e),
        embedding_map=_linear(e, h) if config.maps_embeddings else 0,
        attention=blocks.attention * (4 * _linear(h, h) + _norm(h)),
        ffn=blocks.ffn * (_linear(h, f) + _linear(f, h) + _norm(h)),
        pooler=_linear(h, h),
        heads=sum(head_sizes[head] for head in heads),
    )


def _linear(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def _norm(width: int) -> int:
    return 2 * width
