"""Cross-layer parameter sharing: a configuration comes in, the table from layers to blocks goes out."""

import operator
from dataclasses import dataclass

from albert.errors import InputError
from albert.model.config import ModelConfig

MAX_DEPTH = 1024  # loops of a block, more than any model was ever built with


@dataclass(frozen=True)
class BlockIds:
    """Which attention block and which feed-forward block one step of a layer uses."""

    attention: int
    ffn: int


Layer = tuple[BlockIds, ...]


def build_sharing_table(config: ModelConfig) -> tuple[Layer, ...]:
    """One row per layer; a row holds `inner_group_num` pairs of blocks that run one after another.

    Paper, section 3.1: all parameters shared, attention's only, the feed-forward's only, or none. Sharing
    happens inside a group: `num_hidden_groups` groups own consecutive runs of layers.
    """
    inner = config.inner_group_num
    rows = []
    for layer in range(config.num_hidden_layers):
        group = (
            layer * config.num_hidden_groups // config.num_hidden_layers
        )  # integers: floats misplace layers
        owner_of_attention = group if config.sharing in ("all", "attention") else layer
        owner_of_ffn = group if config.sharing in ("all", "ffn") else layer
        rows.append(
            tuple(BlockIds(owner_of_attention * inner + i, owner_of_ffn * inner + i) for i in range(inner))
        )
    return tuple(rows)


def count_blocks(config: ModelConfig) -> BlockIds:
    """How many distinct attention and feed-forward blocks the sharing table refers to."""
    shared, unshared = config.num_hidden_groups, config.num_hidden_layers
    return BlockIds(
        attention=config.inner_group_num * (shared if config.sharing in ("all", "attention") else unshared),
        ffn=config.inner_group_num * (shared if config.sharing in ("all", "ffn") else unshared),
    )


def select_layers(table: tuple[Layer, ...], *, depth: int | None, is_fully_shared: bool) -> tuple[Layer, ...]:
    """The rows that a run of `depth` layers passes through.

    Fewer than the model has stops early; more is possible only where every layer is the same block.
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
