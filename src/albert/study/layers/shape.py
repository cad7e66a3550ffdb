"""The shape of a curve over layers: heights come in; how rough it is and where it goes come out.

The rule of where it goes leaves the first third of the layers out, in which the embeddings are taken to where
layers work, and compares the mean height of the last third with that of the middle third:

    settles         at most two thirds of it, or next to nothing of the highest: on its way to 0, as the steps
                    of a deep equilibrium model are, whose layers end by changing nothing
    drifts          at least three halves of it: still growing
    keeps a level   anything between: neither far on its way to 0 nor growing

A geometric decay of factor r changes by r^(n/3) over n layers, so that a slow one needs more layers to be
told from a level: a model that shares its block may be asked for more loops than it was trained with. That is
why a level alone is no oscillation: the curve must also turn, both rise and fall after its first third.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Course = Literal["settles", "keeps a level", "drifts", "too short to tell"]
Floats = NDArray[np.float64]

MIN_LAYERS = 6  # two in each third
SETTLING_CHANGE = 2 / 3
DRIFTING_CHANGE = 3 / 2
NOTHING = 0.01  # of the highest: what is left there has settled, whatever its ups and downs
_TINY = np.finfo(np.float64).tiny


def compare_thirds(heights: Floats) -> Floats | None:
    """The mean of the last third over that of the middle third, along the last axis.

    None: there are too few layers for thirds. A curve that is at 0 already has a change of 0.
    """
    third = heights.shape[-1] // 3
    if heights.shape[-1] < MIN_LAYERS:
        return None
    before, after = heights[..., third:-third].mean(-1), heights[..., -third:].mean(-1)
    is_gone = after <= NOTHING * heights.max(-1)
    return np.where(is_gone, 0.0, after / np.maximum(before, _TINY))


def find_turn(heights: Floats) -> bool:
    """Whether one curve both rises and falls after its first third, by more than next to nothing."""
    rest = heights[len(heights) // 3 :]
    rise = (rest - np.minimum.accumulate(rest)).max()
    fall = (np.maximum.accumulate(rest) - rest).max()
    return bool(min(rise, fall) > NOTHING * heights.max())


def find_roughness(heights: Floats) -> Floats | None:
    """The mean absolute second difference over the mean height, along the last axis.

    It is 0 for a straight line, whatever its slope. None: fewer than three layers have no second difference.
    """
    if heights.shape[-1] < 3:
        return None
    bends = np.abs(np.diff(heights, n=2)).mean(-1)
    return np.asarray(bends / np.maximum(np.abs(heights).mean(-1), _TINY))


def name_course(change: float | None) -> Course:
    """Where a curve goes whose last third is so many times as high as its middle third."""
    if change is None:
        return "too short to tell"
    if change <= SETTLING_CHANGE:
        return "settles"
    return "drifts" if change >= DRIFTING_CHANGE else "keeps a level"
