"""Pearson's and Spearman's correlation of predicted and gold numbers.

The definitions are scipy's; equal values have the mean of their ranks. If one side is constant, the
correlation is undefined and 0 here, without a warning.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.tasks.metrics import Floats, Metric, Weighted, check_finite

_MIN_SPREAD = 1e-12  # relative to the mean; smaller ones are rounding errors


@Metric
def pearson(predictions: NDArray[Any], golds: NDArray[Any]) -> Weighted:
    """Compute Pearson's linear correlation; 0 if one side is constant."""
    first, second = _read_numbers(predictions, golds)
    return lambda weights: _correlate(first, second, weights)


@Metric
def spearman(predictions: NDArray[Any], golds: NDArray[Any]) -> Weighted:
    """Compute Spearman's rank correlation; 0 if one side is constant."""
    sides = _read_numbers(predictions, golds)
    first, second = (np.unique(side, return_inverse=True)[1] for side in sides)

    def rank(groups: NDArray[np.int64], weights: Floats) -> Floats:
        sizes = np.bincount(groups, weights=weights)
        ranks: Floats = (np.cumsum(sizes) - (sizes - 1) / 2)[groups]
        return ranks

    return lambda weights: _correlate(rank(first, weights), rank(second, weights), weights)


def _read_numbers(predictions: NDArray[Any], golds: NDArray[Any]) -> tuple[Floats, Floats]:
    predicted, gold = predictions.astype(np.float64), golds.astype(np.float64)
    check_finite(predicted, name="prediction")
    check_finite(gold, name="gold number")
    return predicted, gold


def _correlate(first: Floats, second: Floats, weights: Floats) -> float:
    gaps = []
    for side in (first, second):
        mean = side @ weights / weights.sum()
        if np.ptp(side[weights > 0]) <= _MIN_SPREAD * abs(mean):
            return 0.0
        gaps.append(side - mean)
    one, other = gaps
    found = (one * other) @ weights / math.sqrt(((one * one) @ weights) * ((other * other) @ weights))
    return float(min(1.0, max(-1.0, found)))
