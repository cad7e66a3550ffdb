"""One score for each seed of the same training comes in; their median and spread go out."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

import numpy as np

from albert.errors import InputError
from albert.tasks.metrics.pairs import check_finite


@dataclass(frozen=True)
class SeedSummary:
    """`spread` is the standard deviation of single runs (n - 1); of one run alone there is none."""

    median: float
    mean: float
    spread: float | None
    lowest: float
    highest: float
    num_seeds: int


def summarise_seeds(scores: Sequence[float]) -> SeedSummary:
    """Refused: no score, and one that is not a number."""
    if not scores:
        raise InputError("0 runs to summarise; there must be at least 1")
    check_finite(np.asarray(scores, np.float64), name="the score of run")
    spread = stdev(scores) if len(scores) > 1 else None
    return SeedSummary(median(scores), fmean(scores), spread, min(scores), max(scores), len(scores))
