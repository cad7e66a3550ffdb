"""Metrics: pure functions of predictions and golds as numpy arrays, without torch and files.

A metric is prepared once from predictions and golds, then computed with a weight for each example: ones for
the plain value, or the counts of a bootstrap resample. The metrics of `classification` and `regression` are
fractions or correlations, as in scikit-learn and scipy; the scores of tasks (`scores`, `squad`) are in points
of 100, as official evaluations print them.
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
    """A metric, defined by the function that prepares it; when called, each example has weight 1."""

    function: Callable[[NDArray[Any], NDArray[Any]], Weighted]

    def prepare(self, predictions: Values, *, golds: Values) -> Weighted:
        """Compute all that does not depend on example weights.

        Args:
            predictions: One prediction for each example.
            golds: The gold labels.

        Returns:
            A function from the weight of each example to the score.

        Raises:
            InputError: If the numbers of predictions and golds differ, or are 0.
        """
        check_pairs(predictions, golds=golds)
        return self.function(np.asarray(predictions), np.asarray(golds))

    def __call__(self, predictions: Values, *, golds: Values) -> float:
        """Compute the metric with weight 1 for each example."""
        return self.prepare(predictions, golds=golds)(np.ones(len(golds)))


def check_pairs(predictions: Values, *, golds: Values) -> None:
    """Raise `InputError` for empty input, or different numbers of predictions and golds."""
    if len(predictions) != len(golds):
        raise InputError(f"{len(predictions)} predictions for {len(golds)} gold labels; give one for each")
    if len(golds) == 0:
        raise InputError("no examples to score; give at least one")


def check_finite(values: Floats, *, name: str) -> None:
    """Raise `InputError` for NaN and infinity, with the index of the first."""
    if not np.isfinite(values).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        where = index[0] if len(index) == 1 else index
        raise InputError(f"{name} {where} is {values[index]}; give a finite number")
