"""Means, intervals and paired comparisons over seeds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, its 95% interval (Student's t) and the p-value of a two-sided t-test against 0.

    Of one seed, or if a run diverged, there is only the mean.
    """

    mean: float
    low: float | None
    high: float | None
    spread: float | None
    p_value: float | None
    num_seeds: int


def estimate_mean(values: Sequence[float]) -> Estimate:
    """Estimate the mean of at least one run."""
    from scipy.stats import t

    mean, number = fmean(values), len(values)
    if number < 2 or not math.isfinite(mean):
        return Estimate(mean, None, None, None, None, number)
    spread = stdev(values)
    half = float(t.ppf((1 + LEVEL) / 2, number - 1)) * spread / math.sqrt(number)
    if spread == 0.0:
        p_value = 1.0 if mean == 0.0 else 0.0
    else:
        p_value = 2.0 * float(t.sf(abs(mean) * math.sqrt(number) / spread, number - 1))
    return Estimate(mean, mean - half, mean + half, spread, p_value, number)


def compare_paired(ours: Mapping[int, float], *, base: Mapping[int, float]) -> Estimate | None:
    """Estimate `ours` minus `base`, seed by seed; None if they have no seed in common.

    Pairing is right because all arms see the same examples in the same order with one seed.
    """
    differences = [ours[seed] - base[seed] for seed in sorted(ours.keys() & base.keys())]
    return estimate_mean(differences) if differences else None


def format_p(p_value: float) -> str:
    """Format a p-value with three digits, but never as zero."""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"
