"""The config of a model, its table of shared layers, and how its weights are initialized. No torch."""

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from albert.errors import InputError
from albert.settings import Settings

if TYPE_CHECKING:
    from albert.model.albert_model import AlbertModel

MAX_DEPTH = 1024  # layers, more than any model was built with
Sharing = Literal["all", "attention", "ffn", "none"]
Activation = Literal["gelu_new", "gelu", "relu"]
# Far above any model there is, and far below what overflows a tensor's size or takes minutes to count.
Width = Annotated[int, Field(gt=0, le=2**24)]
Count = Annotated[int, Field(gt=0, le=1024)]
# Between what float32 knows from zero and where a norm no longer is one.
Epsilon = Annotated[float, Field(ge=1e-37, le=0.1)]
Deviation = Annotated[float, Field(gt=0.0, le=1000.0)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]


class ModelConfig(Settings):
    """The shape and the arithmetic of a model. BERT is a setting of it: nothing shared, E = H.

    `hidden_act` has Hugging Face's names: `gelu_new` is the tanh approximation that ALBERT was trained
    with, `gelu` is the exact one of BERT.
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
    # None: a map from E to H exactly where they differ. Hugging Face's folders have one at E = H too.
    has_embedding_map: bool | None = None

    @model_validator(mode="after")
    def _check_combinations(self) -> "ModelConfig":
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads "
                f"{self.num_attention_heads}; each head takes an equal share of it"
            )
        if self.num_hidden_groups > self.num_hidden_layers:
            raise ValueError(
                f"num_hidden_groups {self.num_hidden_groups} exceeds num_hidden_layers "
                f"{self.num_hidden_layers}; a group owns at least one layer"
            )
        if self.sharing == "none" and self.num_hidden_groups > 1:
            raise ValueError(
                f"num_hidden_groups {self.num_hidden_groups} with sharing=none: groups share inside "
                "themselves; use sharing=all, or num_hidden_groups=1"
            )
        if self.has_embedding_map is False and self.embedding_size != self.hidden_size:
            raise ValueError(
                f"has_embedding_map=false with embedding_size {self.embedding_size} and hidden_size "
                f"{self.hidden_size}: without a map they must be equal"
            )
        if self.pad_token_id >= self.vocab_size:
            raise ValueError(f"pad_token_id {self.pad_token_id} lies outside vocab_size {self.vocab_size}")
        return self

    @property
    def maps_embeddings(self) -> bool:
        """Whether a linear map leads from the embeddings into the encoder."""
        if self.has_embedding_map is None:
            return self.embedding_size != self.hidden_size
        return self.has_embedding_map

    @property
    def is_fully_shared(self) -> bool:
        """Whether every layer is the same block, so that the depth may exceed `num_hidden_layers`."""
        return self.sharing == "all" and self.num_hidden_groups == 1

    @property
    def is_bert(self) -> bool:
        """Whether this is BERT's architecture: nothing shared, and no factorised embedding."""
        return self.sharing == "none" and not self.maps_embeddings and self.inner_group_num == 1


@dataclass(frozen=True)
class BlockIds:
    """Which attention block and which feed-forward block one step of a layer uses."""

    attention: int
    ffn: int


Layer = tuple[BlockIds, ...]


def build_sharing_table(config: ModelConfig) -> tuple[Layer, ...]:
    """Build one row per layer; a row holds `inner_group_num` pairs of blocks that run one after another.

    Paper, section 3.1: all parameters shared, attention's only, the feed-forward's only, or none. Sharing
    happens inside a group: `num_hidden_groups` groups own consecutive runs of layers.
    """
    inner = config.inner_group_num
    rows = []
    for layer in range(config.num_hidden_layers):
        group = layer * config.num_hidden_groups // config.num_hidden_layers
        owner_of_attention = group if config.sharing in ("all", "attention") else layer
        owner_of_ffn = group if config.sharing in ("all", "ffn") else layer
        rows.append(
            tuple(BlockIds(owner_of_attention * inner + i, owner_of_ffn * inner + i) for i in range(inner))
        )
    return tuple(rows)


def count_blocks(config: ModelConfig) -> BlockIds:
    """Count the distinct attention and feed-forward blocks of the sharing table."""
    shared, unshared = config.num_hidden_groups, config.num_hidden_layers
    return BlockIds(
        attention=config.inner_group_num * (shared if config.sharing in ("all", "attention") else unshared),
        ffn=config.inner_group_num * (shared if config.sharing in ("all", "ffn") else unshared),
    )


def select_layers(table: tuple[Layer, ...], *, depth: int | None, is_fully_shared: bool) -> tuple[Layer, ...]:
    """Select the rows of a forward pass through `depth` layers.

    More layers than the model has are possible only where every layer is the same block.
    """
    if depth is None:
        return table
    try:
        depth = operator.index(depth)
    except TypeError:
        raise InputError(f"depth is {depth!r}; it must be a whole number") from None
    if depth < 1:
        raise InputError(f"depth is {depth}; it must be at least 1")
    if depth > MAX_DEPTH:
        raise InputError(f"depth is {depth}; it must be at most {MAX_DEPTH}")
    if depth == len(table):
        return table
    if depth < len(table):
        return table[:depth]
    if not is_fully_shared:
        raise InputError(
            f"depth is {depth} but this model has {len(table)} layers that are not all one; only a model "
            "that shares all its layers can run deeper than it was built"
        )
    return (table[0],) * depth


@dataclass(frozen=True)
class FreshStart:
    """How the initialization differs from the published one.

    `has_waves` initializes the position embeddings as waves; `num_matching_heads` heads of each block attend
    to the same word.
    """

    has_waves: bool = False
    num_matching_heads: int = 0

    def apply(self, model: "AlbertModel") -> None:
        """Change the fresh weights of a model."""
        from albert.model.albert_model import spread_positions
        from albert.model.word_matching import WordMatching

        if self.has_waves:
            spread_positions(model.encoder.embeddings.position.weight, std=model.config.initializer_range)
        if self.num_matching_heads:
            WordMatching(model.encoder, num_heads=self.num_matching_heads).apply()

    def __str__(self) -> str:
        parts = ["positions as waves" if self.has_waves else "positions at random"]
        if self.num_matching_heads:
            parts.append(f"{self.num_matching_heads} of the heads made to look for the same word")
        return ", ".join(parts)
