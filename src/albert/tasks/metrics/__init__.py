"""Scores from predictions and golds: pure functions on numpy arrays, without torch and without files.

A metric is prepared once from predictions and golds and then evaluated with a weight for each example. All
ones give the plain value; the counts of a bootstrap draw give the value on that draw. The metrics of
`classification` and `regression` are fractions or correlations, as in scikit-learn and scipy; what a task is
scored by (`task_score`, `squad`) is in points of 100, as the official evaluations print it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.errors import InputError

Values = Sequence[Any] | NDArray[Any]
Floats = NDArray[np.float64]
Weighted = Callable[[Floats], float]  # from the weight of each example to the score


@dataclass(frozen=True)
class Metric:
    """A metric by the function that prepares it; called directly, every example counts once."""

    function: Callable[[NDArray[Any], NDArray[Any]], Weighted]

    def prepare(self, predictions: Values, *, golds: Values) -> Weighted:
        """Compute what does not depend on the weights of the examples."""
        check_pairs(predictions, golds=golds)
        return self.function(np.asarray(predictions), np.asarray(golds))

    def __call__(self, predictions: Values, *, golds: Values) -> float:
        """Score all examples with weight 1."""
        return self.prepare(predictions, golds=golds)(np.ones(len(golds)))


def check_pairs(predictions: Values, *, golds: Values) -> None:
    """Reject empty input and unequal numbers of predictions and golds."""
    if len(predictions) != len(golds):
        raise InputError(f"{len(predictions)} predictions for {len(golds)} gold answers; give one for each")
    if len(golds) == 0:
        raise InputError("0 examples to score; give at least 1")


def check_finite(values: Floats, *, name: str) -> None:
    """Reject NaN and infinity, naming the first index."""
    if not np.isfinite(values).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        where = index[0] if len(index) == 1 else index
        raise InputError(f"{name} {where} is {values[index]}, which cannot be scored; give a finite number")
