"""Tables of 0 and 1, a row for each example and a column for each label, come in; F1 and accuracy go out.

F1 of a label is 2·hits ÷ (predicted + gold). A label that is neither predicted nor gold anywhere says nothing
and is left out of the macro mean; where this leaves no label at all, both F1 are 0, as scikit-learn's.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.errors import InputError
from albert.tasks.metrics.pairs import Values, check_pairs


def mark_labels(places: Sequence[Iterable[int]], *, num_labels: int) -> NDArray[np.bool_]:
    """The table of examples that name the places of their labels; refused: a place that is none."""
    table = np.zeros((len(places), num_labels), dtype=np.bool_)
    for row, own in enumerate(places):
        for place in own:
            if not 0 <= place < num_labels:
                raise InputError(f"example {row}: label {place}; there are 0 to {num_labels - 1}")
            table[row, place] = True
    return table


def multilabel_micro_f1(predictions: Values, *, golds: Values) -> float:
    """F1 over all cells of the table together."""
    hits, total = _count(predictions, golds)
    return float(2 * hits.sum() / total.sum()) if total.sum() else 0.0


def multilabel_macro_f1(predictions: Values, *, golds: Values) -> float:
    """The plain mean of the labels' F1."""
    hits, total = _count(predictions, golds)
    is_used = total > 0
    return float(np.mean(2 * hits[is_used] / total[is_used])) if is_used.any() else 0.0


def subset_accuracy(predictions: Values, *, golds: Values) -> float:
    """The share of examples whose labels are all right."""
    predicted, gold = _read_tables(predictions, golds)
    return float(np.mean((predicted == gold).all(axis=1)))


def _count(predictions: Values, golds: Values) -> tuple[NDArray[Any], NDArray[Any]]:
    """For each label, how often it is predicted and gold at once, and predicted plus gold."""
    predicted, gold = _read_tables(predictions, golds)
    return (predicted & gold).sum(axis=0), predicted.sum(axis=0) + gold.sum(axis=0)


def _read_tables(predictions: Values, golds: Values) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    check_pairs(predictions, golds=golds)
    predicted, gold = np.asarray(predictions), np.asarray(golds)
    if predicted.ndim != 2 or predicted.shape != gold.shape:
        raise InputError(
            f"tables of shape {predicted.shape} and {gold.shape}; both need a row for each example and a "
            "column for each label"
        )
    for table in (predicted, gold):
        if not np.isin(table, (0, 1)).all():
            raise InputError(f"{table[~np.isin(table, (0, 1))][0]} in a table of labels; only 0 and 1")
    return predicted.astype(np.bool_), gold.astype(np.bool_)
