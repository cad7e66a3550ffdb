"""Metrics of classes and label sets equal scikit-learn's, with and without weights; entities seqeval's."""

from itertools import product

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from albert.errors import InputError
from albert.tasks.metrics.classification import (
    Entity,
    accuracy,
    count_classes,
    count_confusions,
    count_labels,
    find_entities,
    macro_f1,
    mark_labels,
    matthews_correlation,
    micro_f1,
    positive_f1,
)
from albert.tasks.metrics.intervals import bootstrap_weighted
from albert.tasks.metrics.scores import METRICS

from .plain_bootstrap import bootstrap_metric

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def draw_pairs(name: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw few predictions and golds, with ties, of a single class, or without labels."""
    size = int(rng.integers(1, 30))
    if name.startswith(("multilabel", "subset")):
        return rng.integers(2, size=(size, 4)), rng.integers(2, size=(size, 4))
    if name in ("pearson", "spearman"):
        return rng.integers(6, size=size) / 2, rng.normal(size=size).round(1)
    num_classes = 2 if name == "f1" else int(rng.integers(1, 5))
    return rng.integers(num_classes, size=size), rng.integers(num_classes, size=size)


@pytest.mark.parametrize("name", METRICS)
def test_a_weight_of_two_equals_the_example_twice(name):
    rng = np.random.default_rng(1)
    for _ in range(300):
        given, golds = draw_pairs(name, rng)
        rows = rng.integers(len(golds), size=len(golds))
        times = np.bincount(rows, minlength=len(golds)).astype(np.float64)
        found = METRICS[name].prepare(given, golds=golds)(times)
        assert found == pytest.approx(METRICS[name](given[rows], golds=golds[rows]), abs=1e-9)


def test_weighted_class_metrics_equal_scikit_learns():
    rng = np.random.default_rng(3)
    for number in range(60):
        names = np.array(["b", "a", "c"] if number % 2 else [0, 1, 2])
        golds, given = names[rng.integers(3, size=(2, 25))]
        weights = rng.random(25) if number % 3 else np.ones(25)

        def score(metric, given=given, golds=golds, weights=weights):
            return metric.prepare(given, golds=golds)(weights)

        scored = (golds, given)
        assert score(accuracy) == pytest.approx(
            sklearn_metrics.accuracy_score(*scored, sample_weight=weights)
        )
        correlation = sklearn_metrics.matthews_corrcoef(*scored, sample_weight=weights)
        assert score(matthews_correlation) == pytest.approx(correlation, abs=1e-12)
        macro = sklearn_metrics.f1_score(*scored, average="macro", sample_weight=weights)
        assert score(macro_f1) == pytest.approx(macro)
        if number % 2 == 0:
            binary = sklearn_metrics.f1_score(
                golds == 1, given == 1, sample_weight=weights, zero_division=0.0
            )
            assert score(positive_f1) == pytest.approx(binary)


def test_unused_labels_do_not_count():
    golds = mark_labels([(0,), (0, 2), ()], num_labels=4)
    assert golds.tolist() == [[1, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]]
    for metric in (micro_f1, macro_f1, accuracy):
        assert metric(golds, golds=golds) == 1.0
    nothing = np.zeros((3, 2), int)
    assert micro_f1(nothing, golds=nothing) == macro_f1(nothing, golds=nothing) == 0.0


def test_metrics_of_a_single_class_are_0():
    assert matthews_correlation([1, 1, 1], golds=[1, 0, 1]) == 0.0
    assert matthews_correlation([0, 1, 1], golds=[1, 1, 1]) == 0.0
    assert matthews_correlation([0, 1], golds=[1, 0]) == -1.0
    assert positive_f1([0, 0], golds=[0, 0]) == 0.0


def test_confusions_and_class_scores_equal_scikit_learns():
    rng = np.random.default_rng(4)
    for _ in range(100):
        golds, given = rng.integers(3, size=(2, 30))
        confusion = count_confusions(given, golds=golds, labels=["c", "a", "b", "never"])
        table = sklearn_metrics.confusion_matrix(golds, given, labels=range(4))
        assert [list(row) for row in confusion.counts] == table.tolist()
        scores = count_classes(given, golds, num_classes=4)(np.ones(30)).list_scores(confusion.labels)
        parts = sklearn_metrics.precision_recall_fscore_support(
            golds, given, labels=range(4), zero_division=0.0
        )
        for each, *expected in zip(scores, *parts, strict=True):
            assert (each.precision, each.recall, each.f1, each.support) == pytest.approx(expected)
        assert [each.label for each in scores] == ["c", "a", "b", "never"]


@pytest.mark.parametrize("metric", METRICS.values())
def test_unequal_or_empty_lists_are_rejected(metric):
    with pytest.raises(InputError, match="3 .* 2 "):
        metric([0, 1, 1], golds=[0, 1])
    with pytest.raises(InputError, match="no examples"):
        metric([], golds=[])


def test_invalid_label_tables_are_rejected():
    with pytest.raises(InputError, match=r"\(2, 3\) and \(2, 2\)"):
        count_labels(np.zeros((2, 3), int), np.zeros((2, 2), int))
    with pytest.raises(InputError, match="example 1: label is 3"):
        mark_labels([(0,), (3,)], num_labels=3)


def entities_by_borders(tags):
    """seqeval's definition: between any two neighbors a chunk may end and a chunk may start."""
    found, begin = set(), 0
    before, before_type = "O", ""
    for place, tag in enumerate([*tags, "O"]):
        prefix, own = tag[0], tag[1:].split("-", maxsplit=1)[-1] or "_"
        is_end = before in "BI" and (prefix in "BO" or own != before_type)
        is_start = prefix == "B" or (prefix == "I" and (before == "O" or own != before_type))
        if is_end:
            found.add((before_type, begin, place))
        if is_start:
            begin = place
        before, before_type = prefix, own
    return found


def test_entities_equal_seqevals_for_all_sequences_of_up_to_five_tags():
    for size in range(6):
        for tags in product(TAGS, repeat=size):
            found = find_entities(tags)
            assert {(each.type, each.start, each.stop) for each in found} == entities_by_borders(tags), tags
            assert len(set(found)) == len(found)


def test_malformed_tags_start_entities_and_unknown_ones_are_rejected():
    assert find_entities(["B-PER", "I-LOC", "I-LOC"]) == (Entity("PER", 0, 1), Entity("LOC", 1, 3))
    assert find_entities(["B", "I", "O"]) == (Entity("_", 0, 2),)
    for tag in ("NOUN", "BPER", ""):
        with pytest.raises(InputError, match=f"tag {tag!r}"):
            find_entities([tag])


@pytest.mark.parametrize("name", ["macro_f1", "matthews", "spearman"])
def test_weighted_intervals_equal_the_plain_bootstrap(name):
    rng = np.random.default_rng(2)
    golds = rng.integers(4, size=80)
    given = np.where(rng.random(80) < 0.6, golds, rng.integers(4, size=80))
    prepared = METRICS[name].prepare(given, golds=golds)
    draws = bootstrap_weighted(80, measure=lambda times: {"": prepared(times)}, seed=3, num_resamples=200)
    plain = bootstrap_metric(given, golds=golds, metric=METRICS[name], seed=3, num_resamples=200)
    assert (draws[""].low, draws[""].high) == pytest.approx((plain.low, plain.high))
