"""What two models say of the same examples comes in; how much better the first is, and how surely, goes out.

The interval is a paired bootstrap: both models are scored on the same draws of examples. `p_value` is from a
randomisation test: if the models were alike, it would not matter which of them said what, so that on every
example the two are swapped by a coin; it is the share of such tosses with a difference at least as large, the
real one included.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.errors import InputError
from albert.tasks.metrics.intervals import NUM_RESAMPLES, Interval, bootstrap_mean
from albert.tasks.metrics.pairs import check_pairs
from albert.tasks.metrics.streams import Stream, build_generator

_ROUNDING = 1e-12
Numbers = Sequence[float] | NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """First minus second with its interval, and how often chance alone gives as much, in either direction."""

    interval: Interval
    p_value: float


def compare_means(
    first: Numbers, *, second: Numbers, seed: int, level: float = 0.95, num_resamples: int = NUM_RESAMPLES
) -> Difference:
    """Two models by their scores on each example (right or wrong, F1 of SQuAD)."""
    check_pairs(first, golds=second)
    gaps = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    interval = bootstrap_mean(gaps, seed=seed, level=level, num_resamples=num_resamples)
    swaps = _iter_swaps(len(gaps), seed=seed, num_resamples=num_resamples)
    draws = [float(np.where(is_swapped, -gaps, gaps).mean()) for is_swapped in swaps]
    return Difference(interval, _share_as_large(interval.value, draws))


def _iter_swaps(num_examples: int, *, seed: int, num_resamples: int) -> Iterator[NDArray[np.bool_]]:
    if num_resamples < 1:
        raise InputError(f"{num_resamples} resamples; at least 1")
    generator = build_generator(seed, stream=Stream.SWAPPING)
    for _ in range(num_resamples):
        yield generator.integers(2, size=num_examples, dtype=np.uint8).astype(np.bool_)


def _share_as_large(value: float, draws: Sequence[float]) -> float:
    num_as_large = int(np.sum(np.abs(draws) >= abs(value) - _ROUNDING))
    return (1 + num_as_large) / (1 + len(draws))
