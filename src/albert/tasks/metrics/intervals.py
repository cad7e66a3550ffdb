"""Scores of examples, or a metric that weighs them, come in; an interval by percentile bootstrap goes out.

Examples are drawn with replacement, as many as there are; the interval is what lies between the outer
percentiles of the metric over such draws. It says what other examples of the same kind would do to a model's
score, and nothing about other seeds of its training: `seeds.py` does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.errors import InputError
from albert.tasks.metrics.pairs import check_finite, check_pairs
from albert.tasks.metrics.streams import Stream, build_generator

NUM_RESAMPLES = 1000
_BLOCK_CELLS = 1 << 22  # 32 MB of row numbers at a time


@dataclass(frozen=True)
class Interval:
    """A value on all examples, and the limits between which `level` of the draws lie."""

    value: float
    low: float
    high: float
    level: float

    def in_points(self) -> "Interval":
        """The same in points of 100."""
        return Interval(100.0 * self.value, 100.0 * self.low, 100.0 * self.high, self.level)


def bootstrap_mean(
    scores: Sequence[float] | NDArray[np.float64],
    *,
    seed: int,
    level: float = 0.95,
    num_resamples: int = NUM_RESAMPLES,
) -> Interval:
    """The interval of a mean over examples (accuracy, exact match, F1 of SQuAD): many draws at once."""
    values = np.asarray(scores, np.float64)
    check_pairs(values, golds=values)
    check_finite(values, name="score")
    blocks = _iter_blocks(len(values), seed=seed, num_resamples=num_resamples)
    draws = np.concatenate([values[rows].mean(axis=1) for rows in blocks])
    return summarise_draws(float(values.mean()), draws=draws, level=level)


def bootstrap_times(
    num_examples: int,
    *,
    measure: Callable[[NDArray[np.float64]], Mapping[str, float]],
    seed: int,
    level: float = 0.95,
    num_resamples: int = NUM_RESAMPLES,
) -> dict[str, Interval]:
    """The intervals of metrics that are told how often each example is drawn, once on all examples."""
    values = measure(np.ones(num_examples))
    draws: dict[str, list[float]] = {name: [] for name in values}
    for rows in iter_resamples(num_examples, seed=seed, num_resamples=num_resamples):
        times = np.bincount(rows, minlength=num_examples).astype(np.float64)
        for name, value in measure(times).items():
            draws[name].append(value)
    return {
        name: summarise_draws(value, draws=np.array(draws[name]), level=level)
        for name, value in values.items()
    }


def iter_resamples(num_examples: int, *, seed: int, num_resamples: int) -> Iterator[NDArray[np.int64]]:
    """The rows of each draw; the same for the same seed, whatever is computed on them."""
    for block in _iter_blocks(num_examples, seed=seed, num_resamples=num_resamples):
        yield from block


def summarise_draws(value: float, *, draws: NDArray[np.float64], level: float) -> Interval:
    """The value with the percentiles that leave out equally much on both sides."""
    if not 0 < level < 1:
        raise InputError(f"level {level} of an interval; it must lie between 0 and 1, such as 0.95")
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high), level)


def find_wilson(num_correct: int, num_examples: int) -> tuple[float, float]:
    """Compute the 95% Wilson interval of an accuracy, which stays between 0 and 1."""
    from scipy.stats import binomtest

    found = binomtest(num_correct, num_examples).proportion_ci(0.95, method="wilson")
    return float(found.low), float(found.high)


def _iter_blocks(num_examples: int, *, seed: int, num_resamples: int) -> Iterator[NDArray[np.int64]]:
    if num_resamples < 1:
        raise InputError(f"{num_resamples} resamples; at least 1")
    generator = build_generator(seed, stream=Stream.RESAMPLING)
    block = max(1, _BLOCK_CELLS // num_examples)
    for first in range(0, num_resamples, block):
        num_rows = min(block, num_resamples - first)
        yield generator.integers(num_examples, size=(num_rows, num_examples))
