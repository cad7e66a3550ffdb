"""Predictions and golds come in; metrics go out that are asked how often each example counts.

They are the metrics of `task_score.METRICS` on the examples that are drawn, for an interval that draws a
thousand times: what does not depend on the draw (who is right, who ranks before whom) is computed once.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]
Weighted = Callable[[Floats], float]  # of how often each example counts
_SMALLEST_SPREAD = 1e-12  # of the mean; below it only rounding is left


@dataclass(frozen=True)
class ClassTotals:
    """For each class, how often it is right, given and gold; `sum` is over the examples that are drawn."""

    right: Any
    given: Any
    gold: Any

    def sum(self, times: Floats) -> tuple[Floats, Floats, Floats]:
        """The three totals of each class."""
        return self.right @ times, self.given @ times, self.gold @ times


def count_classes(
    given: NDArray[Any], golds: NDArray[Any], *, num_classes: int, rows: NDArray[Any] | None = None
) -> ClassTotals:
    """Decisions between classes; `rows` are the examples that they belong to, unless each is one."""
    rows = np.arange(len(golds)) if rows is None else rows
    num_examples = int(rows.max()) + 1
    is_right = given == golds

    def table(places: NDArray[Any], own: NDArray[Any]) -> Any:
        cells = (np.ones(len(own)), (places, own))
        return sparse.csr_matrix(cells, shape=(num_classes, num_examples))

    return ClassTotals(table(golds[is_right], rows[is_right]), table(given, rows), table(golds, rows))


def find_accuracy(totals: tuple[Floats, Floats, Floats]) -> float:
    """The share of decisions that are right."""
    right, _, gold = totals
    return float(right.sum() / gold.sum())


def find_macro_f1(totals: tuple[Floats, Floats, Floats]) -> float:
    """The plain mean of the F1 of every class that is given or gold; 0 where none is."""
    right, given, gold = totals
    is_used = (both := given + gold) > 0
    return float(np.mean(2 * right[is_used] / both[is_used])) if is_used.any() else 0.0


def _find_micro_f1(totals: tuple[Floats, Floats, Floats]) -> float:
    right, given, gold = totals
    both = given.sum() + gold.sum()
    return float(2 * right.sum() / both) if both else 0.0


def _find_matthews(totals: tuple[Floats, Floats, Floats]) -> float:
    right, given, gold = totals
    size = gold.sum()
    spreads = [float(size**2 - (side**2).sum()) for side in (gold, given)]
    if 0.0 in spreads:
        return 0.0
    return float((right.sum() * size - given @ gold) / math.sqrt(spreads[0] * spreads[1]))


def _find_positive_f1(totals: tuple[Floats, Floats, Floats]) -> float:
    right, given, gold = (float(each[1]) for each in totals)
    return 2 * right / (given + gold) if given + gold else 0.0


def _of_classes(find: Callable[[tuple[Floats, Floats, Floats]], float]) -> Callable[..., Weighted]:
    def prepare(given: NDArray[Any], golds: NDArray[Any]) -> Weighted:
        num_classes = max(2, int(max(given.max(), golds.max())) + 1)
        totals = count_classes(given, golds, num_classes=num_classes)
        return lambda times: find(totals.sum(times))

    return prepare


def _of_labels(find: Callable[[tuple[Floats, Floats, Floats]], float]) -> Callable[..., Weighted]:
    """Tables of 0 and 1, a row for each example and a column for each label."""

    def prepare(given: NDArray[Any], golds: NDArray[Any]) -> Weighted:
        parts = [sparse.csr_matrix(part.T.astype(np.float64)) for part in (given & golds, given, golds)]
        totals = ClassTotals(*parts)
        return lambda times: find(totals.sum(times))

    return prepare


def _weigh_subset_accuracy(given: NDArray[Any], golds: NDArray[Any]) -> Weighted:
    is_right = (given == golds).all(axis=1).astype(np.float64)
    return lambda times: float(is_right @ times / times.sum())


def _weigh_pearson(given: NDArray[Any], golds: NDArray[Any]) -> Weighted:
    first, second = (np.asarray(side, np.float64) for side in (given, golds))
    return lambda times: _correlate(first, second, times)


def _weigh_spearman(given: NDArray[Any], golds: NDArray[Any]) -> Weighted:
    first, second = (
        np.unique(np.asarray(side, np.float64), return_inverse=True)[1] for side in (given, golds)
    )
    return lambda times: _correlate(_rank(first, times), _rank(second, times), times)


def _rank(groups: NDArray[np.int64], times: Floats) -> Floats:
    """The mean rank of each example among those that are drawn, equal values together."""
    sizes = np.bincount(groups, weights=times)
    ranks: Floats = (np.cumsum(sizes) - (sizes - 1) / 2)[groups]
    return ranks


def _correlate(first: Floats, second: Floats, times: Floats) -> float:
    """Pearson's correlation of examples that count so often; 0 where one side is constant."""
    gaps = []
    for side in (first, second):
        mean = side @ times / times.sum()
        own = side[times > 0]
        if np.ptp(own) <= _SMALLEST_SPREAD * abs(mean):
            return 0.0
        gaps.append(side - mean)
    one, other = gaps
    found = (one * other) @ times / math.sqrt(((one * one) @ times) * ((other * other) @ times))
    return float(min(1.0, max(-1.0, found)))


WEIGHTED_METRICS: Mapping[str, Callable[..., Weighted]] = {
    "accuracy": _of_classes(find_accuracy),
    "f1": _of_classes(_find_positive_f1),
    "macro_f1": _of_classes(find_macro_f1),
    "matthews": _of_classes(_find_matthews),
    "pearson": _weigh_pearson,
    "spearman": _weigh_spearman,
    "subset_accuracy": _weigh_subset_accuracy,
    "multilabel_micro_f1": _of_labels(_find_micro_f1),
    "multilabel_macro_f1": _of_labels(find_macro_f1),
}
