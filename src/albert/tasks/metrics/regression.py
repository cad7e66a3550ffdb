"""Predicted and gold numbers of the same examples come in; Pearson's and Spearman's correlation go out.

Both are scipy's; equal values share the mean of their ranks. Where one side is constant (to twelve digits for
Pearson, exactly for Spearman) the correlation is undefined; it is 0 here, without a warning: a model that
says the same of everything has learnt nothing.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from albert.tasks.metrics.pairs import Values, check_finite, check_pairs

_SMALLEST_SPREAD = 1e-12  # of the mean; below it only rounding is left


def pearson(predictions: Values, *, golds: Values) -> float:
    """Linear correlation; 0 where one side is constant."""
    predicted, gold = _read_numbers(predictions, golds)
    if _is_constant(predicted) or _is_constant(gold):
        return 0.0
    return float(stats.pearsonr(predicted, gold).statistic)


def spearman(predictions: Values, *, golds: Values) -> float:
    """Correlation of the ranks, ties by their mean; 0 where one side is constant."""
    predicted, gold = _read_numbers(predictions, golds)
    if np.ptp(predicted) == 0 or np.ptp(gold) == 0:
        return 0.0
    return float(stats.spearmanr(predicted, gold).statistic)


def _read_numbers(predictions: Values, golds: Values) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    check_pairs(predictions, golds=golds)
    predicted, gold = np.asarray(predictions, np.float64), np.asarray(golds, np.float64)
    check_finite(predicted, name="prediction")
    check_finite(gold, name="gold number")
    return predicted, gold


def _is_constant(values: NDArray[np.float64]) -> bool:
    return bool(np.ptp(values) <= _SMALLEST_SPREAD * abs(values.mean()))
