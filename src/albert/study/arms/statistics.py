"""Means, intervals and paired comparisons over seeds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and its 95% interval (Student's t); none of one seed, or if one diverged."""

    mean: float
    low: float | None
    high: float | None
    spread: float | None
    num_seeds: int


@dataclass(frozen=True)
class Comparison:
    """The mean difference of two arms over common seeds; `p_value` is of a two-sided paired t-test."""

    difference: float
    low: float | None
    high: float | None
    p_value: float | None
    num_pairs: int

    @property
    def turned_round(self) -> "Comparison":
        """The same from the other arm's side."""
        low = None if self.high is None else -self.high
        high = None if self.low is None else -self.low
        return replace(self, difference=-self.difference, low=low, high=high)

    @property
    def is_positive(self) -> bool:
        """Whether the whole interval lies above zero."""
        return self.low is not None and self.low > 0.0

    @property
    def is_negative(self) -> bool:
        """Whether the whole interval lies below zero."""
        return self.high is not None and self.high < 0.0


def estimate_mean(values: Sequence[float]) -> Estimate:
    """Estimate the mean of one or more runs."""
    mean = fmean(values)
    if len(values) < 2 or not math.isfinite(mean):
        return Estimate(mean, None, None, None, len(values))
    spread = stdev(values)
    reach = _find_reach(spread, len(values))
    return Estimate(mean, mean - reach, mean + reach, spread, len(values))


def compare_paired(ours: Mapping[int, float], *, base: Mapping[int, float]) -> Comparison | None:
    """Compare `ours` with `base` seed by seed: both saw the same examples. None if no seed is in both."""
    differences = [ours[seed] - base[seed] for seed in sorted(ours.keys() & base.keys())]
    if not differences:
        return None
    mean = fmean(differences)
    if len(differences) < 2 or not math.isfinite(mean):
        return Comparison(mean, None, None, None, len(differences))
    spread = stdev(differences)
    number = len(differences)
    reach = _find_reach(spread, number)
    if spread == 0.0:
        p_value = 1.0 if mean == 0.0 else 0.0
    else:
        from scipy.stats import t

        p_value = 2.0 * float(t.sf(abs(mean) * math.sqrt(number) / spread, number - 1))
    return Comparison(mean, mean - reach, mean + reach, p_value, number)


def _find_reach(spread: float, number: int) -> float:
    """Half the width of the interval."""
    from scipy.stats import t

    return float(t.ppf((1 + LEVEL) / 2, number - 1)) * spread / math.sqrt(number)


def format_p(p_value: float) -> str:
    """Write a p-value with three digits, never as zero."""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"
