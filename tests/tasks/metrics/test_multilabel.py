"""Several labels at once: the formulas counted out, and scikit-learn's where it has the same case."""

import random

import numpy as np
import pytest
from sklearn.metrics import f1_score

from albert.errors import InputError
from albert.tasks.metrics.classification import mark_labels, multilabel_macro_f1, multilabel_micro_f1, subset_accuracy


def count_out(predictions, golds):
    """Micro and macro F1 and the accuracy of whole rows, from sets of labels."""
    labels = {label for row in [*predictions, *golds] for label in row}
    num_right = dict.fromkeys(labels, 0)
    num_any = dict.fromkeys(labels, 0)
    for predicted, gold in zip(predictions, golds, strict=True):
        for label in labels:
            num_right[label] += label in predicted and label in gold
            num_any[label] += (label in predicted) + (label in gold)
    micro = 2 * sum(num_right.values()) / sum(num_any.values()) if labels else 0.0
    macro = sum(2 * num_right[k] / num_any[k] for k in labels) / len(labels) if labels else 0.0
    same = sum(predicted == gold for predicted, gold in zip(predictions, golds, strict=True))
    return micro, macro, same / len(golds)


def test_two_thousand_random_tables():
    rng = random.Random(1)
    for _ in range(2_000):
        num_labels, size = rng.randint(1, 6), rng.randint(1, 12)
        share = rng.choice([0.0, 0.1, 0.5])
        golds = [{k for k in range(num_labels) if rng.random() < share} for _ in range(size)]
        predictions = [{k for k in range(num_labels) if rng.random() < share} for _ in range(size)]
        one, other = (mark_labels(rows, num_labels=num_labels) for rows in (predictions, golds))
        micro, macro, same = count_out(predictions, golds)
        assert multilabel_micro_f1(one, golds=other) == pytest.approx(micro)
        assert multilabel_macro_f1(one, golds=other) == pytest.approx(macro)
        assert subset_accuracy(one, golds=other) == pytest.approx(same)


def test_scikit_learn_agrees_where_every_label_occurs():
    rng = np.random.default_rng(2)
    for _ in range(100):
        predictions, golds = rng.integers(2, size=(2, 30, 4))
        micro = f1_score(golds, predictions, average="micro")
        macro = f1_score(golds, predictions, average="macro")
        assert multilabel_micro_f1(predictions, golds=golds) == pytest.approx(micro)
        assert multilabel_macro_f1(predictions, golds=golds) == pytest.approx(macro)


def test_a_label_that_nobody_names_does_not_count_and_golds_are_perfect():
    golds = mark_labels([(0,), (0, 2), ()], num_labels=4)
    assert golds.tolist() == [[1, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]]
    for metric in (multilabel_micro_f1, multilabel_macro_f1, subset_accuracy):
        assert metric(golds, golds=golds) == 1.0


def test_tables_of_another_kind_are_refused():
    with pytest.raises(InputError, match=r"shape \(2, 3\) and \(2, 2\)"):
        subset_accuracy(np.zeros((2, 3), int), golds=np.zeros((2, 2), int))
    with pytest.raises(InputError, match="2 in a table of labels"):
        subset_accuracy([[0, 2]], golds=[[0, 1]])
    with pytest.raises(InputError, match="example 1: label 3; there are 0 to 2"):
        mark_labels([(0,), (3,)], num_labels=3)
