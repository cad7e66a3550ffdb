"""Predicted and gold classes of the same examples come in; accuracy, F1, correlation and confusions go out.

All of it is scikit-learn's definition, but from one table of counts: an interval asks for it a thousand
times, and scikit-learn takes a hundred times as long. The silent cases: F1, precision and recall of nothing
over nothing are 0; Matthews correlation is 0 where predictions or golds hold one class only; macro F1 is the
mean over the classes that occur on either side.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.errors import InputError
from albert.tasks.metrics.pairs import Values, check_pairs

Label = Any  # a number or a string; all of one kind
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class ClassScore:
    """How one class is found; `support` is how often it occurs."""

    label: Label
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class Confusion:
    """How often a gold class (row) was predicted as a class (column), in the order of `labels`."""

    labels: tuple[Label, ...]
    counts: tuple[tuple[int, ...], ...]


def accuracy(predictions: Values, *, golds: Values) -> float:
    """The share of predictions that are right."""
    check_pairs(predictions, golds=golds)
    return float(np.mean(np.asarray(predictions) == np.asarray(golds)))


def positive_f1(predictions: Values, *, golds: Values, positive: Label = 1) -> float:
    """F1 of one class against all others, as MRPC and QQP take it of their class 1."""
    check_pairs(predictions, golds=golds)
    is_gold, is_predicted = np.asarray(golds) == positive, np.asarray(predictions) == positive
    total = int(is_gold.sum() + is_predicted.sum())
    return 2 * int((is_gold & is_predicted).sum()) / total if total else 0.0


def macro_f1(predictions: Values, *, golds: Values) -> float:
    """The plain mean of the F1 of every class that occurs or is predicted."""
    _, counts = _count(predictions, golds)
    return float(np.mean(2 * counts.diagonal() / (counts.sum(axis=0) + counts.sum(axis=1))))


def matthews_correlation(predictions: Values, *, golds: Values) -> float:
    """Matthews correlation for any number of classes; 0 where one side holds a single class."""
    _, counts = _count(predictions, golds)
    # Python's whole numbers: the products pass 64 bits at a hundred thousand examples.
    size, num_right = int(counts.sum()), int(counts.trace())
    gold: list[int] = counts.sum(axis=1).tolist()
    predicted: list[int] = counts.sum(axis=0).tolist()
    spreads = [size**2 - sum(number**2 for number in side) for side in (gold, predicted)]
    if 0 in spreads:
        return 0.0
    by_chance = sum(one * other for one, other in zip(gold, predicted, strict=True))
    return (num_right * size - by_chance) / math.sqrt(spreads[0] * spreads[1])


def count_confusions(
    predictions: Values, *, golds: Values, labels: Sequence[Label] | None = None
) -> Confusion:
    """The matrix over `labels`, or over all that occur, sorted; refused: a class outside `labels`."""
    known, counts = _count(predictions, golds)
    wanted = known if labels is None else tuple(labels)
    table = np.zeros((len(wanted), len(wanted)), np.int64)
    places = [_find(label, wanted) for label in known]
    table[np.ix_(places, places)] = counts
    return Confusion(wanted, tuple(tuple(row) for row in table.tolist()))


def score_classes(
    predictions: Values, *, golds: Values, labels: Sequence[Label] | None = None
) -> tuple[ClassScore, ...]:
    """Precision, recall and F1 of each of `labels`, or of each that occurs, sorted."""
    confusion = count_confusions(predictions, golds=golds, labels=labels)
    columns = list(zip(*confusion.counts, strict=True))
    return tuple(
        _score_class(label, confusion.counts[place][place], sum(confusion.counts[place]), sum(columns[place]))
        for place, label in enumerate(confusion.labels)
    )


def _score_class(label: Label, num_right: int, num_gold: int, num_predicted: int) -> ClassScore:
    return ClassScore(
        label=label,
        precision=num_right / num_predicted if num_predicted else 0.0,
        recall=num_right / num_gold if num_gold else 0.0,
        f1=2 * num_right / (num_gold + num_predicted) if num_gold + num_predicted else 0.0,
        support=num_gold,
    )


def _count(predictions: Values, golds: Values) -> tuple[tuple[Label, ...], Counts]:
    """The classes that occur on either side, sorted, and the table of gold (row) and predicted (column)."""
    check_pairs(predictions, golds=golds)
    both = np.concatenate([np.asarray(predictions), np.asarray(golds)])
    labels, places = np.unique(both, return_inverse=True)
    predicted, gold = places[: len(golds)], places[len(golds) :]
    cells = np.bincount(gold * len(labels) + predicted, minlength=len(labels) ** 2)
    return tuple(labels.tolist()), cells.reshape(len(labels), len(labels))


def _find(label: Label, labels: Sequence[Label]) -> int:
    if label not in labels:
        raise InputError(f"class {label!r} is none of {list(labels)}; name all classes")
    return list(labels).index(label)
