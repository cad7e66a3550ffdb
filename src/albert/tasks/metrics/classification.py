"""Accuracy, F1, Matthews correlation and confusion matrices of classes, label sets and entities.

All metrics are computed from three counts for each class: correct, predicted and gold. The definitions are
scikit-learn's, for entities those of conlleval and seqeval's default. Precision, recall and F1 are 0 if they
are 0/0. Matthews correlation is 0 if predictions or golds have a single class. Macro F1 is the mean over the
classes that occur in predictions or golds.

An entity is correct if its type, first and last word are. An I-TYPE that does not continue an entity of its
type begins one, so IOB1 tags can be used, too.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from albert.errors import InputError
from albert.tasks.metrics import Floats, Metric, Weighted, check_pairs

Tags = Sequence[str]
UNNAMED = "_"  # the type of B and I without a type, as in seqeval


@dataclass(frozen=True)
class ClassScore:
    """Precision, recall and F1 of one class; `support` is its number of gold examples."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class Confusion:
    """A confusion matrix: gold classes are rows and predicted classes columns, in the order of `labels`."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class ClassCounts:
    """For each class the total weight of correct predictions, predictions and golds."""

    correct: Floats
    predicted: Floats
    gold: Floats

    @property
    def total(self) -> "ClassCounts":
        """The sum over all classes, whose F1 is the micro F1."""
        return ClassCounts(*(part.sum(keepdims=True) for part in (self.correct, self.predicted, self.gold)))

    @property
    def precision(self) -> Floats:
        return _divide(self.correct, self.predicted)

    @property
    def recall(self) -> Floats:
        return _divide(self.correct, self.gold)

    @property
    def f1(self) -> Floats:
        return _divide(2 * self.correct, self.predicted + self.gold)

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes that occur in predictions or golds; 0 without any."""
        is_used = self.predicted + self.gold > 0
        return float(self.f1[is_used].mean()) if is_used.any() else 0.0

    def list_scores(self, labels: Iterable[str]) -> tuple[ClassScore, ...]:
        columns = (part.tolist() for part in (self.precision, self.recall, self.f1))
        rows = zip(labels, *columns, self.gold.astype(int).tolist(), strict=True)
        return tuple(ClassScore(*row) for row in rows)


CountClasses = Callable[[Floats], ClassCounts]  # from the weight of each example to the counts


def count_classes(
    predictions: NDArray[Any], golds: NDArray[Any], *, num_classes: int, rows: NDArray[Any] | None = None
) -> CountClasses:
    """Prepare the counts of decisions between classes, given by index.

    `rows` has the example of each decision, such as the text of a word; by default each is its own.
    """
    rows = np.arange(len(golds)) if rows is None else rows
    is_correct = predictions == golds

    def tabulate(classes: NDArray[Any], own: NDArray[Any]) -> Any:
        return sparse.csr_matrix(
            (np.ones(len(own)), (classes, own)), shape=(num_classes, int(rows.max()) + 1)
        )

    parts = [(golds[is_correct], rows[is_correct]), (predictions, rows), (golds, rows)]
    return _weigh(*(tabulate(*part) for part in parts))


def count_labels(predictions: NDArray[Any], golds: NDArray[Any]) -> CountClasses:
    """Prepare the counts of label sets: tables of 0 and 1 with a row for each example."""
    if predictions.ndim != 2 or predictions.shape != golds.shape:
        raise InputError(
            f"tables have the shapes {predictions.shape} and {golds.shape}; give one column for each label"
        )
    predicted, gold = predictions.astype(np.bool_), golds.astype(np.bool_)
    return _weigh(
        *(sparse.csr_matrix(part.T.astype(np.float64)) for part in (predicted & gold, predicted, gold))
    )


def count_entities(predictions: Sequence[Tags], golds: Sequence[Tags]) -> tuple[list[str], CountClasses]:
    """Prepare the counts of entities in tagged texts; return their types, too, sorted."""
    check_pairs(predictions, golds=golds)
    predicted, gold = ([set(find_entities(tags)) for tags in side] for side in (predictions, golds))
    types = sorted({entity.type for side in (predicted, gold) for text in side for entity in text})
    indices = {name: index for index, name in enumerate(types)}
    parts = np.zeros((3, len(types), len(golds)))
    for text, (found, expected) in enumerate(zip(predicted, gold, strict=True)):
        for part, entities in enumerate((found & expected, found, expected)):
            for entity in entities:
                parts[part, indices[entity.type], text] += 1
    return types, _weigh(*parts)


def count_confusions(predictions: NDArray[Any], *, golds: NDArray[Any], labels: Sequence[str]) -> Confusion:
    """Count the confusion matrix of classes, given by index."""
    size = len(labels)
    cells = np.bincount(golds.astype(np.int64) * size + predictions.astype(np.int64), minlength=size**2)
    return Confusion(tuple(labels), tuple(map(tuple, cells.reshape(size, size).tolist())))


def mark_labels(indices: Sequence[Iterable[int]], *, num_labels: int) -> NDArray[np.bool_]:
    """Build the table of 0 and 1 from the indices of each example's labels."""
    table = np.zeros((len(indices), num_labels), dtype=np.bool_)
    for row, own in enumerate(indices):
        for index in own:
            if not 0 <= index < num_labels:
                raise InputError(f"example {row}: label is {index}; give 0 to {num_labels - 1}")
            table[row, index] = True
    return table


@dataclass(frozen=True)
class Entity:
    """An entity of a text: its type and its words [start, stop)."""

    type: str
    start: int
    stop: int


def find_entities(tags: Tags) -> tuple[Entity, ...]:
    """Find the entities of a text from its tags O, B-TYPE and I-TYPE; raise `InputError` for other tags."""
    entities: list[Entity] = []
    current, start = None, 0
    for index, tag in enumerate([*tags, "O"]):
        if tag != "O" and (tag[:1] not in ("B", "I") or tag[1:2] not in ("", "-")):
            raise InputError(f"tag {tag!r} is not O, B-… or I-…; use word metrics for such tags")
        own = None if tag == "O" else tag[2:] or UNNAMED
        if tag[0] == "I" and own == current:
            continue
        if current is not None:
            entities.append(Entity(current, start, index))
        current, start = own, index
    return tuple(entities)


@Metric
def accuracy(predictions: NDArray[Any], golds: NDArray[Any]) -> Weighted:
    """Compute the share of correct examples; a label set is correct if all its labels are."""
    is_correct = (predictions == golds).reshape(len(golds), -1).all(axis=1).astype(np.float64)
    return lambda weights: float(is_correct @ weights / weights.sum())


@Metric
def positive_f1(predictions: NDArray[Any], golds: NDArray[Any]) -> Weighted:
    """Compute the F1 of class 1, as in MRPC and QQP."""
    count = count_labels((predictions == 1)[:, None], (golds == 1)[:, None])
    return lambda weights: float(count(weights).f1[0])


@Metric
def macro_f1(predictions: NDArray[Any], golds: NDArray[Any]) -> Weighted:
    """Compute the mean F1 of the classes that occur in predictions or golds."""
    count = _count(predictions, golds)
    return lambda weights: count(weights).macro_f1


@Metric
def micro_f1(predictions: NDArray[Any], golds: NDArray[Any]) -> Weighted:
    """Compute the F1 of the counts summed over all labels."""
    count = _count(predictions, golds)
    return lambda weights: float(count(weights).total.f1[0])


@Metric
def matthews_correlation(predictions: NDArray[Any], golds: NDArray[Any]) -> Weighted:
    """Compute the Matthews correlation of any number of classes (Gorodkin 2004)."""
    count = _count(predictions, golds)

    def score(weights: Floats) -> float:
        counts = count(weights)
        size = counts.gold.sum()
        spreads = [float(size**2 - (side**2).sum()) for side in (counts.gold, counts.predicted)]
        if 0.0 in spreads:
            return 0.0
        by_chance = counts.predicted @ counts.gold
        return float((counts.correct.sum() * size - by_chance) / math.sqrt(spreads[0] * spreads[1]))

    return score


CLASS_METRICS: Mapping[str, Metric] = {
    "accuracy": accuracy, "f1": positive_f1, "macro_f1": macro_f1, "matthews": matthews_correlation,
    "subset_accuracy": accuracy, "multilabel_micro_f1": micro_f1, "multilabel_macro_f1": macro_f1,
}  # fmt: skip


def _count(predictions: NDArray[Any], golds: NDArray[Any]) -> CountClasses:
    """Prepare the counts of label sets or of classes with any labels."""
    if golds.ndim == 2:
        return count_labels(predictions, golds)
    classes, indices = np.unique(np.concatenate([predictions, golds]), return_inverse=True)
    return count_classes(indices[: len(golds)], indices[len(golds) :], num_classes=len(classes))


def _weigh(correct: Any, predicted: Any, gold: Any) -> CountClasses:
    return lambda weights: ClassCounts(correct @ weights, predicted @ weights, gold @ weights)


def _divide(numerator: Floats, denominator: Floats) -> Floats:
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
