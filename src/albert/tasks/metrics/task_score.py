"""Predictions, golds and names of metrics come in; each metric and their mean, in points of 100, go out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from albert.errors import InputError
from albert.tasks.metrics.classification import accuracy, macro_f1, matthews_correlation, positive_f1
from albert.tasks.metrics.multilabel import multilabel_macro_f1, multilabel_micro_f1, subset_accuracy
from albert.tasks.metrics.pairs import Values
from albert.tasks.metrics.regression import pearson, spearman


class Metric(Protocol):
    """A number for all examples together, from predictions and golds in the same order."""

    def __call__(self, predictions: Any, /, *, golds: Any) -> float:
        """Score all examples."""


@dataclass(frozen=True)
class TaskScore:
    """Every metric of a task, and the score it is judged by: their mean."""

    values: Mapping[str, float]
    score: float


METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "f1": positive_f1,
    "macro_f1": macro_f1,
    "matthews": matthews_correlation,
    "pearson": pearson,
    "spearman": spearman,
    "subset_accuracy": subset_accuracy,
    "multilabel_micro_f1": multilabel_micro_f1,
    "multilabel_macro_f1": multilabel_macro_f1,
}


def score_task(predictions: Values, *, golds: Values, metrics: Sequence[str]) -> TaskScore:
    """Score by each of the named metrics; refused: a name that is not in `METRICS`."""
    for name in metrics:
        if name not in METRICS:
            raise InputError(f"no metric {name!r}; there are {', '.join(METRICS)}")
    return combine({name: 100.0 * METRICS[name](predictions, golds=golds) for name in metrics})


def combine(values: Mapping[str, float]) -> TaskScore:
    """Metrics that are points already, and their plain mean."""
    if not values:
        raise InputError("0 metrics to judge by; name at least 1")
    return TaskScore(dict(values), sum(values.values()) / len(values))
