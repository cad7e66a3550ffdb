"""Bootstrap intervals over examples, and the spread over seeds.

An interval has percentiles of a metric over resamples of the examples. It describes the variation with other
examples, not with other training seeds, which `summarize_seeds` describes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

import numpy as np
from numpy.typing import NDArray

from albert.errors import InputError
from albert.tasks.metrics import Floats, check_finite, check_pairs

NUM_RESAMPLES = 1000
Numbers = Sequence[float] | NDArray[np.float64]
_STREAM = 1  # of random numbers
_BLOCK_SIZE = 1 << 22  # 32 MB of row indices at a time


@dataclass(frozen=True)
class Interval:
    """The value of a metric on all examples, and the limits between which `level` of the resamples lie."""

    value: float
    low: float
    high: float
    level: float

    def in_points(self) -> "Interval":
        """Convert to points of 100."""
        return Interval(100.0 * self.value, 100.0 * self.low, 100.0 * self.high, self.level)


@dataclass(frozen=True)
class SeedSummary:
    """A summary of one score per seed; `spread` is the standard deviation (n - 1), None for one seed."""

    median: float
    mean: float
    spread: float | None
    lowest: float
    highest: float
    num_seeds: int


def bootstrap_mean(
    scores: Numbers, *, seed: int, level: float = 0.95, num_resamples: int = NUM_RESAMPLES
) -> Interval:
    """Estimate the interval of a mean over examples, such as an accuracy or SQuAD's F1.

    Args:
        scores: One score for each example.
        seed: The seed of the resamples.
        level: The share of the resamples in the interval.
        num_resamples: The number of resamples.
    """
    values = np.asarray(scores, np.float64)
    check_pairs(values, golds=values)
    check_finite(values, name="score")
    blocks = _iter_blocks(len(values), seed=seed, num_resamples=num_resamples)
    draws = np.concatenate([values[rows].mean(axis=1) for rows in blocks])
    return summarize_draws(float(values.mean()), draws=draws, level=level)


def bootstrap_weighted(
    num_examples: int,
    *,
    measure: Callable[[Floats], Mapping[str, float]],
    seed: int,
    level: float = 0.95,
    num_resamples: int = NUM_RESAMPLES,
) -> dict[str, Interval]:
    """Estimate the intervals of metrics.

    Args:
        num_examples: The number of examples.
        measure: Computes the metrics from the weight of each example: how often it was drawn.
        seed: The seed of the resamples.
        level: The share of the resamples in an interval.
        num_resamples: The number of resamples.
    """
    values = measure(np.ones(num_examples))
    draws: dict[str, list[float]] = {name: [] for name in values}
    for rows in iter_resamples(num_examples, seed=seed, num_resamples=num_resamples):
        weights = np.bincount(rows, minlength=num_examples).astype(np.float64)
        for name, value in measure(weights).items():
            draws[name].append(value)
    return {
        name: summarize_draws(value, draws=np.array(draws[name]), level=level)
        for name, value in values.items()
    }


def iter_resamples(num_examples: int, *, seed: int, num_resamples: int) -> Iterator[NDArray[np.int64]]:
    """Draw the row indices of each resample, which depend only on the seed."""
    for block in _iter_blocks(num_examples, seed=seed, num_resamples=num_resamples):
        yield from block


def summarize_draws(value: float, *, draws: Floats, level: float) -> Interval:
    """Build the interval without equally many of the lowest and highest draws."""
    if not 0 < level < 1:
        raise InputError(f"level is {level}; set it to between 0 and 1, as in 0.95")
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high), level)


def find_wilson(num_correct: int, num_examples: int) -> tuple[float, float]:
    """Compute the 95% Wilson interval of an accuracy, which is always within 0 and 1."""
    from scipy.stats import binomtest

    found = binomtest(num_correct, num_examples).proportion_ci(0.95, method="wilson")
    return float(found.low), float(found.high)


def summarize_seeds(scores: Sequence[float]) -> SeedSummary:
    """Summarize the scores of runs that differ only in their seed."""
    if not scores:
        raise InputError("no runs to summarize; give at least one")
    check_finite(np.asarray(scores, np.float64), name="the score of run")
    spread = stdev(scores) if len(scores) > 1 else None
    return SeedSummary(median(scores), fmean(scores), spread, min(scores), max(scores), len(scores))


def _iter_blocks(num_examples: int, *, seed: int, num_resamples: int) -> Iterator[NDArray[np.int64]]:
    if num_resamples < 1:
        raise InputError(f"num_resamples is {num_resamples}; set it to at least 1")
    if seed < 0:
        raise InputError(f"seed is {seed}; set it to at least 0")
    generator = np.random.default_rng([seed, _STREAM])
    block = max(1, _BLOCK_SIZE // num_examples)
    for first in range(0, num_resamples, block):
        yield generator.integers(num_examples, size=(min(block, num_resamples - first), num_examples))
