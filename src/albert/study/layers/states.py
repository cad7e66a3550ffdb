"""Measure how far each layer moves its input (figure 1), and describe the shape of the curves over layers.

A curve has a course: where it goes after the first third of the layers, in which embeddings are mapped to
where layers work. It compares the mean height of the last third with that of the middle third:

    settles         at most two thirds of it, or next to nothing of the maximum: on its way to 0, like the
                    steps of a deep equilibrium model, whose last layers change nothing
    drifts          at least three halves of it: still growing
    keeps a level   anything between

A geometric decay of factor r changes by r^(n/3) over n layers, so that a slow one needs more layers to be
told from a level; a model that shares its block can be run for more layers than it was trained with. A level
alone is therefore no oscillation: the curve must also turn, both rise and fall after its first third.

Shapes: T tokens, D hidden width, S sequences, L layers, R draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from albert.inference.predictor import iter_batches
from albert.model.albert_model import AlbertModel
from albert.model.tokens import Tokens
from albert.tasks.metrics.intervals import Interval, iter_resamples, summarise_draws
from albert.text.tokenizer import InputSequence

Distance = Literal["l2", "cosine", "angle"]
Course = Literal["settles", "keeps a level", "drifts", "too short to tell"]
Floats = NDArray[np.float64]
DISTANCES: tuple[Distance, ...] = ("l2", "cosine", "angle")
LEVEL = 0.95
NUM_DRAWS = 1000
MIN_LAYERS = 6  # two in each third
SETTLING_CHANGE = 2 / 3
DRIFTING_CHANGE = 3 / 2
NOTHING = 0.01  # share of the maximum below which a curve has settled
_TINY = np.finfo(np.float64).tiny
_MAX_BATCH_TOKENS = 2048  # the states of all layers are held at once


@dataclass(frozen=True)
class Curve:
    """One distance over the layers: means over tokens with 95% intervals over sequences, and its shape.

    `inner_roughness` leaves out the first layer, whose input, the embeddings, ALBERT maps from E to H without
    normalizing them. `change` is the height of the last third over that of the middle third.
    """

    means: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    roughness: Interval | None
    inner_roughness: Interval | None
    change: Interval | None

    @property
    def course(self) -> Course:
        """Where the curve goes."""
        return name_course(None if self.change is None else self.change.value)

    @property
    def has_turn(self) -> bool:
        """Whether it rises as well as falls."""
        return find_turn(np.array(self.means))


@dataclass(frozen=True)
class ModelCurves:
    """A model, what it read, and its curves."""

    sharing: str
    num_hidden_layers: int
    hidden_size: int
    num_sequences: int
    num_pieces: int
    unknown_share: float
    curves: dict[Distance, Curve]

    @property
    def depth(self) -> int:
        """The number of layers that were run, which may differ from the model's own."""
        return len(self.curves["l2"].means)


def compare_states(before_TD: Tensor, after_TD: Tensor) -> dict[Distance, Tensor]:
    """Compute the L2 distance, cosine and angle in degrees between two states of each token, in float64."""
    before_TD, after_TD = before_TD.double(), after_TD.double()
    sizes_T = before_TD.norm(dim=-1) * after_TD.norm(dim=-1)
    cosine_T = ((before_TD * after_TD).sum(-1) / sizes_T.clamp_min(1e-300)).clamp(-1.0, 1.0)
    return {
        "l2": (after_TD - before_TD).norm(dim=-1),
        "cosine": cosine_T,
        "angle": cosine_T.arccos().rad2deg(),
    }


@torch.inference_mode()
def sum_distances(
    model: AlbertModel, sequences: Sequence[InputSequence], *, depth: int
) -> dict[Distance, Floats]:
    """Sum the distances over the tokens of each sequence, [S, L]; layer 1 reads the mapped embeddings."""
    sums_SL = {name: np.zeros((len(sequences), depth)) for name in DISTANCES}
    device = model.device
    for batch in iter_batches([len(each.ids) for each in sequences], max_tokens=_MAX_BATCH_TOKENS):
        rows = [sequences[i] for i in batch]
        tokens = Tokens.from_lists([row.ids for row in rows], [row.segments for row in rows], device=device)
        states = model(tokens, depth=depth, with_hidden_states=True).hidden_states
        for layer, (before_TD, after_TD) in enumerate(pairwise(states)):
            # Double precision, which not every device has.
            for name, values_T in compare_states(before_TD.cpu(), after_TD.cpu()).items():
                sums_SL[name][batch, layer] = [float(part.sum()) for part in values_T.split(tokens.lengths)]
    return sums_SL


def draw_curve(sums_SL: Floats, counts_S: Floats, *, seed: int = 0) -> Curve:
    """Average over all tokens, with bootstrap intervals over sequences for the curve and its shape."""
    means_L = sums_SL.sum(0) / counts_S.sum()
    draws = iter_resamples(len(counts_S), seed=seed, num_resamples=NUM_DRAWS)
    times_RS = np.stack([np.bincount(rows, minlength=len(counts_S)) for rows in draws])
    means_RL = times_RS @ sums_SL / (times_RS @ counts_S)[:, None]
    lows, highs = np.quantile(means_RL, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return Curve(
        means=tuple(means_L.tolist()),
        lows=tuple(lows.tolist()),
        highs=tuple(highs.tolist()),
        roughness=_summarise(find_roughness(means_L), find_roughness(means_RL)),
        inner_roughness=_summarise(find_roughness(means_L[1:]), find_roughness(means_RL[:, 1:])),
        change=_summarise(compare_thirds(means_L), compare_thirds(means_RL)),
    )


def _summarise(value: Floats | None, draws: Floats | None) -> Interval | None:
    if value is None or draws is None:
        return None
    return summarise_draws(float(value), draws=draws, level=LEVEL)


def compare_thirds(heights: Floats) -> Floats | None:
    """Divide the mean of the last third by that of the middle third, along the last axis.

    None if there are too few layers. A curve that has settled at 0 has a change of 0.
    """
    third = heights.shape[-1] // 3
    if heights.shape[-1] < MIN_LAYERS:
        return None
    before, after = heights[..., third:-third].mean(-1), heights[..., -third:].mean(-1)
    is_gone = after <= NOTHING * heights.max(-1)
    return np.where(is_gone, 0.0, after / np.maximum(before, _TINY))


def find_turn(heights: Floats) -> bool:
    """Whether a curve both rises and falls after its first third, by more than next to nothing."""
    rest = heights[len(heights) // 3 :]
    rise = (rest - np.minimum.accumulate(rest)).max()
    fall = (np.maximum.accumulate(rest) - rest).max()
    return bool(min(rise, fall) > NOTHING * heights.max())


def find_roughness(heights: Floats) -> Floats | None:
    """Divide the mean absolute second difference by the mean height, along the last axis.

    It is 0 for a straight line of any slope, and None for fewer than three layers.
    """
    if heights.shape[-1] < 3:
        return None
    bends = np.abs(np.diff(heights, n=2)).mean(-1)
    return np.asarray(bends / np.maximum(np.abs(heights).mean(-1), _TINY))


def name_course(change: float | None) -> Course:
    """Name the course of a curve whose last third is `change` times as high as its middle third."""
    if change is None:
        return "too short to tell"
    if change <= SETTLING_CHANGE:
        return "settles"
    return "drifts" if change >= DRIFTING_CHANGE else "keeps a level"
