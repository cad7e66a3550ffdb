"""Patience-based early exit: a sequence leaves the batch when enough consecutive layers agree on its label.

This is PABEE (Zhou et al., 2020) for batches: sequences that have left are not computed further.

Shapes: T tokens, B sequences of the batch, S of them still in it, D hidden width, K labels.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from albert.errors import InputError
from albert.model.albert_model import AlbertModel
from albert.model.tokens import Bools, Ints, Layout, SelectedTokens, Tokens, gather_rows

# Returns [S], whether the logits [S, K] of a layer and of the next one agree.
Agreement = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class EarlyExitOutput:
    """The logits of each sequence and the number of layers that were computed for it."""

    logits_BK: Tensor
    num_layers: Ints


def classify_after(model: AlbertModel, first_BD: Tensor, *, num_layers: int) -> Tensor:
    """Compute logits [B, K] from the first tokens after `num_layers` layers. All layers share the pooler."""
    exits = model.head("exits")
    is_early = num_layers < model.config.num_hidden_layers
    head = exits.get_submodule(str(num_layers - 1)) if is_early else model.head("classification")
    logits_BK: Tensor = head(model.pool_first(first_BD)).float()
    return logits_BK


def classify_every_layer(model: AlbertModel, tokens: Tokens, *, depth: int | None = None) -> list[Tensor]:
    """Compute the logits [B, K] after each layer, in the order of the batch, to train the exits."""
    layers, layout = model.encoder.select_layers(depth), model.encoder.lay_out(tokens)
    x_TD = model.encoder.embed(tokens, layout)
    first = SelectedTokens(layout.find(tokens.first_B), is_first=True)
    found = []
    for number, layer in enumerate(layers, start=1):
        is_last = number == len(layers)
        x_TD = model.encoder.run_layer(x_TD, layer, layout, first if is_last else None)
        first_BD = x_TD if is_last else gather_rows(x_TD, first.indices_P)
        found.append(classify_after(model, first_BD, num_layers=number))
    return found


@dataclass(frozen=True)
class _Remaining:
    """The sequences still in the batch, in the computed order, and their last logits."""

    x_TD: Tensor
    layout: Layout
    indices: Ints  # in the batch
    num_same: Ints  # consecutive layers that agree
    logits_SK: Tensor | None = None  # of the last layer

    def keep(self, is_kept: Bools) -> "_Remaining":
        if is_kept.all():
            return self
        layout, rows_T = self.layout.keep(is_kept)
        logits_SK = None if self.logits_SK is None else self.logits_SK[torch.from_numpy(is_kept)]
        x_TD = self.x_TD.index_select(0, rows_T)
        return _Remaining(x_TD, layout, self.indices[is_kept], self.num_same[is_kept], logits_SK)

    def compare(self, logits_SK: Tensor, agree: Agreement) -> Bools:
        if self.logits_SK is None:
            return np.full(len(logits_SK), False)
        same: Bools = agree(self.logits_SK, logits_SK).cpu().numpy()
        return same


def classify_with_exits(
    model: AlbertModel, tokens: Tokens, *, patience: int, agree: Agreement, depth: int | None = None
) -> EarlyExitOutput:
    """Classify each sequence after the first layer that agrees with the `patience` layers before it."""
    if patience < 1:
        raise InputError(f"patience is {patience}; set it to at least 1")
    encoder = model.encoder
    layers, layout = encoder.select_layers(depth), encoder.lay_out(tokens)
    order = layout.find(tokens.first_B).argsort().cpu().numpy()
    rest = _Remaining(encoder.embed(tokens, layout), layout, order, np.zeros_like(order))
    indices, logits, num_layers = [], [], []
    for number, layer in enumerate(layers, start=1):
        is_last = number == len(layers)
        may_leave = (rest.num_same >= patience) | is_last
        if may_leave.any():
            # Compute this layer only for the first tokens, to see which sequences leave.
            leaving = rest.keep(may_leave)
            first = SelectedTokens(leaving.layout.first_B, is_first=True)
            first_SD = encoder.run_layer(leaving.x_TD, layer, leaving.layout, first)
            logits_SK = classify_after(model, first_SD, num_layers=number)
            leaves = np.full(len(logits_SK), True) if is_last else leaving.compare(logits_SK, agree)
            indices.append(leaving.indices[leaves])
            logits.append(logits_SK[torch.from_numpy(leaves)])
            num_layers.append(np.full(leaves.sum(), number))
            may_leave[may_leave] = leaves
            rest = rest.keep(~may_leave)
        if not len(rest.indices):
            break
        x_TD = encoder.run_layer(rest.x_TD, layer, rest.layout)
        first_SD = x_TD.index_select(0, rest.layout.first_B)
        logits_SK = classify_after(model, first_SD, num_layers=number)
        num_same = np.where(rest.compare(logits_SK, agree), rest.num_same + 1, 1)
        rest = replace(rest, x_TD=x_TD, num_same=num_same, logits_SK=logits_SK)
    order = np.concatenate(indices).argsort()
    return EarlyExitOutput(torch.cat(logits)[torch.from_numpy(order)], np.concatenate(num_layers)[order])
