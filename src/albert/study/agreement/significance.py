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

    `difference` is first minus second with its interval, by a bootstrap over frames: the pairs of one frame
    are no independent questions. `p_value` is McNemar's, exact: were the models alike, each pair that only
    one of them gets right would fall to either by a coin.
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
    from scipy.stats import binomtest

    gaps = [
        (frame, float(one) - float(other))
        for frame, one, other in zip(frames, first, second, strict=True)
        if one is not None and other is not None
    ]
    if not gaps:
        return None
    num_first, num_second = sum(gap > 0 for _, gap in gaps), sum(gap < 0 for _, gap in gaps)
    num_unlike = num_first + num_second
    return PairedTest(
        num_pairs=len(gaps),
        num_first_only=num_first,
        num_second_only=num_second,
        difference=find_difference(gaps, seed=seed),
        p_value=float(binomtest(num_first, num_unlike).pvalue) if num_unlike else 1.0,
    )


def find_difference(gaps: Sequence[tuple[object, float]], *, seed: int) -> Interval:
    """The mean of the gaps with its interval; frames are drawn, each with all of its pairs."""
    by_frame: dict[object, list[float]] = {}
    for frame, gap in gaps:
        by_frame.setdefault(frame, []).append(gap)
    totals = np.array([sum(each) for each in by_frame.values()])
    counts = np.array([len(each) for each in by_frame.values()])

    def measure(times: NDArray[np.float64]) -> dict[str, float]:
        return {"mean": float(times @ totals / (times @ counts))}

    return bootstrap_times(len(totals), measure=measure, seed=seed, level=LEVEL)["mean"]
