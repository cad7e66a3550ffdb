"""Bootstrap intervals, and the spread over seeds.

An interval lies between the outer percentiles of a metric over examples drawn with replacement, as many as
there are. It says how the score would vary with other examples, and nothing about other training seeds:
`summarize_seeds` does that. Every purpose has a random stream of its own, so that results depend only on the
seed.
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
_BLOCK_CELLS = 1 << 22  # 32 MB of row numbers at a time


@dataclass(frozen=True)
class Interval:
    """A value on all examples, and the limits between which `level` of the draws lie."""

    value: float
    low: float
    high: float
    level: float

    def in_points(self) -> "Interval":
        """Convert to points of 100."""
        return Interval(100.0 * self.value, 100.0 * self.low, 100.0 * self.high, self.level)


@dataclass(frozen=True)
class SeedSummary:
    """`spread` is the standard deviation of single runs (n - 1); one run alone has none."""

    median: float
    mean: float
    spread: float | None
    lowest: float
    highest: float
    num_seeds: int


def bootstrap_mean(
    scores: Numbers, *, seed: int, level: float = 0.95, num_resamples: int = NUM_RESAMPLES
) -> Interval:
    """Estimate the interval of a mean over examples (accuracy, F1 of SQuAD), many draws at once."""
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
    """Estimate the intervals of metrics that take how often each example is drawn."""
    values = measure(np.ones(num_examples))
    draws: dict[str, list[float]] = {name: [] for name in values}
    for rows in iter_resamples(num_examples, seed=seed, num_resamples=num_resamples):
        times = np.bincount(rows, minlength=num_examples).astype(np.float64)
        for name, value in measure(times).items():
            draws[name].append(value)
    return {
        name: summarize_draws(value, draws=np.array(draws[name]), level=level)
        for name, value in values.items()
    }


def iter_resamples(num_examples: int, *, seed: int, num_resamples: int) -> Iterator[NDArray[np.int64]]:
    """Draw the rows of each resample; the same for the same seed, whatever is computed on them."""
    for block in _iter_blocks(num_examples, seed=seed, num_resamples=num_resamples):
        yield from block


def summarize_draws(value: float, *, draws: Floats, level: float) -> Interval:
    """Build the interval that leaves out equally many draws on both sides."""
    if not 0 < level < 1:
        raise InputError(f"level {level} of an interval; it must lie between 0 and 1, such as 0.95")
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high), level)


def find_wilson(num_correct: int, num_examples: int) -> tuple[float, float]:
    """Compute the 95% Wilson interval of an accuracy, which stays between 0 and 1."""
    from scipy.stats import binomtest

    found = binomtest(num_correct, num_examples).proportion_ci(0.95, method="wilson")
    return float(found.low), float(found.high)


def summarize_seeds(scores: Sequence[float]) -> SeedSummary:
    """Summarize one score for each seed of the same training."""
    if not scores:
        raise InputError("0 runs to summarize; give at least 1")
    check_finite(np.asarray(scores, np.float64), name="the score of run")
    spread = stdev(scores) if len(scores) > 1 else None
    return SeedSummary(median(scores), fmean(scores), spread, min(scores), max(scores), len(scores))


def _iter_blocks(num_examples: int, *, seed: int, num_resamples: int) -> Iterator[NDArray[np.int64]]:
    if num_resamples < 1:
        raise InputError(f"{num_resamples} resamples; at least 1")
    if seed < 0:
        raise InputError(f"seed {seed} is below 0; give 0 or more")
    generator = np.random.default_rng([seed, _STREAM])
    block = max(1, _BLOCK_CELLS // num_examples)
    for first in range(0, num_resamples, block):
        yield generator.integers(num_examples, size=(min(block, num_resamples - first), num_examples))
