"""Accuracy, F1, Matthews correlation and confusions equal their formulas, counted out in whole numbers."""

import math
import random
import warnings
from itertools import product

import pytest
from sklearn import metrics as sklearn_metrics

from albert.errors import InputError
from albert.tasks.metrics.classification import (
    accuracy,
    count_confusions,
    macro_f1,
    matthews_correlation,
    positive_f1,
    score_classes,
)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def f1_of(label, predictions, golds):
    num_right = sum(p == g == label for p, g in zip(predictions, golds, strict=True))
    total = predictions.count(label) + golds.count(label)
    return 2 * num_right / total if total else 0.0


def correlation_of(predictions, golds):
    """Matthews correlation for any number of classes, from counts (Gorodkin 2004)."""
    size, classes = len(golds), {*golds, *predictions}
    num_right = sum(p == g for p, g in zip(predictions, golds, strict=True))
    both = sum(golds.count(label) * predictions.count(label) for label in classes)
    gold_spread = size**2 - sum(golds.count(label) ** 2 for label in classes)
    predicted_spread = size**2 - sum(predictions.count(label) ** 2 for label in classes)
    if gold_spread == 0 or predicted_spread == 0:
        return 0.0
    return (num_right * size - both) / math.sqrt(gold_spread * predicted_spread)


def test_every_small_table_of_two_classes():
    """All 624 tables with up to four examples in each cell, empty rows and columns among them."""
    for hits, false_alarms, misses, rest in product(range(5), repeat=4):
        if hits + false_alarms + misses + rest == 0:
            continue
        predictions = [1] * (hits + false_alarms) + [0] * (misses + rest)
        golds = [1] * hits + [0] * false_alarms + [1] * misses + [0] * rest
        margins = (hits + false_alarms) * (hits + misses) * (rest + false_alarms) * (rest + misses)
        correlation = (hits * rest - false_alarms * misses) / math.sqrt(margins) if margins else 0.0
        total = 2 * hits + false_alarms + misses
        assert matthews_correlation(predictions, golds=golds) == pytest.approx(correlation, abs=1e-12)
        assert positive_f1(predictions, golds=golds) == pytest.approx(2 * hits / total if total else 0.0)
        assert accuracy(predictions, golds=golds) == (hits + rest) / len(golds)


def test_three_thousand_random_tables_of_up_to_five_classes():
    rng = random.Random(1)
    for _ in range(3_000):
        classes = rng.sample(["no", "yes", "maybe", "ja", "nein"], rng.randint(1, 5))
        golds = rng.choices(classes, k=rng.randint(1, 40))
        predictions = [gold if rng.random() < 0.5 else rng.choice(classes) for gold in golds]
        present = {*golds, *predictions}
        wanted = sum(f1_of(label, predictions, golds) for label in present) / len(present)
        assert macro_f1(predictions, golds=golds) == pytest.approx(wanted)
        correlation = correlation_of(predictions, golds)
        assert matthews_correlation(predictions, golds=golds) == pytest.approx(correlation, abs=1e-12)
        label = rng.choice(classes)
        assert positive_f1(predictions, golds=golds, positive=label) == pytest.approx(
            f1_of(label, predictions, golds)
        )


def test_scikit_learn_agrees():
    rng = random.Random(3)
    for _ in range(100):
        golds, predictions = (rng.choices([0, 1, 2], k=25) for _ in range(2))
        correlation = sklearn_metrics.matthews_corrcoef(golds, predictions)
        assert matthews_correlation(predictions, golds=golds) == pytest.approx(correlation, abs=1e-12)
        macro = sklearn_metrics.f1_score(golds, predictions, average="macro", zero_division=0.0)
        assert macro_f1(predictions, golds=golds) == pytest.approx(macro)
        counts = sklearn_metrics.confusion_matrix(golds, predictions, labels=[2, 0, 1]).tolist()
        found = count_confusions(predictions, golds=golds, labels=[2, 0, 1])
        assert [list(row) for row in found.counts] == counts
    for golds, predictions in (([1, 0], [1, 1]), ([1, 1], [1, 0])):
        assert sklearn_metrics.matthews_corrcoef(golds, predictions) == 0.0
        assert matthews_correlation(predictions, golds=golds) == 0.0


def test_counts_of_a_million_examples_do_not_overflow():
    golds = [0, 1] * 500_000
    predictions = [0, 1, 1, 0, 0, 1, 0, 1, 0, 1] * 100_000  # four of five are right, on both sides
    assert matthews_correlation(predictions, golds=golds) == pytest.approx(0.6)
    assert matthews_correlation(golds, golds=golds) == pytest.approx(1.0)


def test_confusions_and_classes_are_the_same_counts():
    rng = random.Random(2)
    labels = ["c", "a", "d", "b"]  # an order of their own, and one that never occurs
    for _ in range(300):
        golds = rng.choices("abc", k=rng.randint(1, 30))
        predictions = rng.choices("abc", k=len(golds))
        confusion = count_confusions(predictions, golds=golds, labels=labels)
        assert confusion.labels == tuple(labels)
        for row, gold in enumerate(labels):
            for column, predicted in enumerate(labels):
                pairs = zip(predictions, golds, strict=True)
                assert confusion.counts[row][column] == sum(pair == (predicted, gold) for pair in pairs)
        for place, score in enumerate(score_classes(predictions, golds=golds, labels=labels)):
            num_right = confusion.counts[place][place]
            num_gold, num_predicted = sum(confusion.counts[place]), sum(r[place] for r in confusion.counts)
            assert (score.label, score.support) == (labels[place], num_gold)
            assert score.recall == pytest.approx(num_right / num_gold if num_gold else 0.0)
            assert score.precision == pytest.approx(num_right / num_predicted if num_predicted else 0.0)
            assert score.f1 == pytest.approx(f1_of(score.label, predictions, golds))


def test_one_class_only_has_no_correlation():
    assert matthews_correlation([1, 1, 1], golds=[1, 1, 1]) == 0.0
    assert matthews_correlation([1, 1, 1], golds=[1, 0, 1]) == 0.0
    assert matthews_correlation([0, 1, 1], golds=[1, 1, 1]) == 0.0
    assert matthews_correlation([0, 1], golds=[1, 0]) == -1.0


def test_golds_as_predictions_are_perfect():
    golds = ["b", "a", "c", "a"]
    assert accuracy(golds, golds=golds) == macro_f1(golds, golds=golds) == 1.0
    assert matthews_correlation(golds, golds=golds) == positive_f1(golds, golds=golds, positive="a") == 1.0
    assert all(score.f1 == 1.0 for score in score_classes(golds, golds=golds))
    assert count_confusions(golds, golds=golds).counts == ((2, 0, 0), (0, 1, 0), (0, 0, 1))


@pytest.mark.parametrize("metric", [accuracy, positive_f1, macro_f1, matthews_correlation, score_classes])
def test_lists_that_do_not_fit_are_refused(metric):
    with pytest.raises(InputError, match="3 predictions for 2 gold answers"):
        metric([0, 1, 1], golds=[0, 1])
    with pytest.raises(InputError, match="0 examples"):
        metric([], golds=[])


def test_a_class_that_was_not_named_is_refused():
    with pytest.raises(InputError, match="class 'c' is none of \\['a', 'b'\\]"):
        count_confusions(["a", "c"], golds=["a", "b"], labels=["a", "b"])
