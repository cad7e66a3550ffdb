"""What a layer does to its input: a model and sequences come in; distances over the layers go out (figure 1).

Shapes: T tokens, D hidden width, S sequences, L layers, R draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from albert.inference.predictor import iter_batches
from albert.model.albert_model import AlbertModel
from albert.model.tokens import Tokens
from albert.study.layers.shape import Course, Floats, compare_thirds, find_roughness, find_turn, name_course
from albert.tasks.metrics.intervals import Interval, iter_resamples, summarise_draws
from albert.text.encoding import InputSequence

Distance = Literal["l2", "cosine", "angle"]
DISTANCES: tuple[Distance, ...] = ("l2", "cosine", "angle")
LEVEL = 0.95
NUM_DRAWS = 1000
_MAX_BATCH_TOKENS = 2048  # the states of all layers are held at once


@dataclass(frozen=True)
class Curve:
    """One distance over the layers: means over tokens with 95% intervals over sequences, and its shape.

    `inner_roughness` leaves the first layer out, whose input, the embeddings, is of another kind: ALBERT maps
    them from E to H and does not normalise them there. `change` is the last third's height over the middle
    third's (`shape.py`).
    """

    means: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    roughness: Interval | None
    inner_roughness: Interval | None
    change: Interval | None

    @property
    def course(self) -> Course:
        """Where it goes."""
        return name_course(None if self.change is None else self.change.value)

    @property
    def has_turn(self) -> bool:
        """Whether it rises as well as falls."""
        return find_turn(np.array(self.means))


@dataclass(frozen=True)
class ModelCurves:
    """One model: what it is, what it read, and its curves."""

    sharing: str
    num_hidden_layers: int
    hidden_size: int
    num_sequences: int
    num_pieces: int
    unknown_share: float
    curves: dict[Distance, Curve]

    @property
    def depth(self) -> int:
        """The layers that were run, which may be more or fewer than the model has."""
        return len(self.curves["l2"].means)


def compare_states(before_TD: Tensor, after_TD: Tensor) -> dict[Distance, Tensor]:
    """Of each token the L2 distance, the cosine and the angle in degrees of two states, in float64."""
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
    """Sums over the tokens of each sequence, [S, L]; the first layer reads the embeddings, mapped to H."""
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
    """The mean over all tokens, and what other sequences would make of it and of its shape."""
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
