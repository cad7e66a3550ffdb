"""Right and wrong decisions come in; intervals, and whether two models differ, go out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.tasks.metrics.intervals import Interval, bootstrap_times

LEVEL = 0.95
Decisions = Sequence[bool | None]


@dataclass(frozen=True)
class PairedTest:
    """Two models on the pairs that both were asked.

    The pairs of one frame are no independent questions. `difference` is first minus second with its interval,
    by a bootstrap over frames; `p_value` is that of an exact sign-flip test over frames: were the models
    alike, what one has ahead in a frame would fall to either by a coin. With a pair a frame it is McNemar's.
    """

    num_pairs: int
    num_first_only: int
    num_second_only: int
    difference: Interval
    p_value: float


def find_wilson(num_right: int, num_asked: int) -> tuple[float, float]:
    """The 95% interval of a share; it stays between 0 and 1, also where all answers are right."""
    from scipy.stats import binomtest

    found = binomtest(num_right, num_asked).proportion_ci(LEVEL, method="wilson")
    return float(found.low), float(found.high)


def compare_decisions(
    first: Decisions, *, second: Decisions, frames: Sequence[object], seed: int
) -> PairedTest | None:
    """Who decides more pairs rightly; `frames` says which belong together. None: no pair in common."""
    gaps = [
        (frame, float(one) - float(other))
        for frame, one, other in zip(frames, first, second, strict=True)
        if one is not None and other is not None
    ]
    if not gaps:
        return None
    return PairedTest(
        num_pairs=len(gaps),
        num_first_only=sum(gap > 0 for _, gap in gaps),
        num_second_only=sum(gap < 0 for _, gap in gaps),
        difference=find_difference(gaps, seed=seed),
        p_value=flip_signs([round(sum(frame)) for frame in _group(gaps)]),
    )


def flip_signs(totals: Sequence[int]) -> float:
    """How likely a sum is as far from 0 as that of `totals`, if the sign of each were a coin's."""
    chances = np.ones(1)  # of every sum that there can be, from the least to the largest
    for total in totals:
        if total:
            coin = np.zeros(2 * abs(total) + 1)
            coin[[0, -1]] = 0.5
            chances = np.convolve(chances, coin)
    reach = len(chances) // 2
    is_as_far = np.abs(np.arange(-reach, reach + 1)) >= abs(sum(totals))
    return min(1.0, float(chances[is_as_far].sum()))


def find_difference(gaps: Sequence[tuple[object, float]], *, seed: int) -> Interval:
    """The mean of the gaps with its interval; frames are drawn, each with all of its pairs."""
    frames = _group(gaps)
    totals = np.array([sum(each) for each in frames])
    counts = np.array([len(each) for each in frames])

    def measure(times: NDArray[np.float64]) -> dict[str, float]:
        return {"mean": float(times @ totals / (times @ counts))}

    return bootstrap_times(len(totals), measure=measure, seed=seed, level=LEVEL)["mean"]


def _group(gaps: Sequence[tuple[object, float]]) -> list[list[float]]:
    """The gaps of each frame."""
    by_frame: dict[object, list[float]] = {}
    for frame, gap in gaps:
        by_frame.setdefault(frame, []).append(gap)
    return list(by_frame.values())
