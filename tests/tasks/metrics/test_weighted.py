"""Metrics that are told how often each example counts are the metrics on the examples so often."""

import numpy as np
import pytest

from albert.tasks.metrics.intervals import bootstrap_times
from albert.tasks.metrics.task_score import METRICS
from albert.tasks.metrics.weighted import WEIGHTED_METRICS

from .plain_bootstrap import bootstrap_metric


def draw_pairs(name: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and golds as a metric takes them, few and with ties."""
    size = int(rng.integers(1, 30))
    if name.startswith(("multilabel", "subset")):
        return rng.integers(2, size=(size, 4)), rng.integers(2, size=(size, 4))
    if name in ("pearson", "spearman"):
        return rng.integers(6, size=size) / 2, rng.normal(size=size).round(1)
    num_classes = 2 if name == "f1" else int(rng.integers(1, 5))
    return rng.integers(num_classes, size=size), rng.integers(num_classes, size=size)


def test_every_metric_has_its_weighted_one():
    assert set(WEIGHTED_METRICS) == set(METRICS)


@pytest.mark.parametrize("name", METRICS)
def test_counting_an_example_twice_is_having_it_twice(name):
    """Hundreds of small sets, among them those with one class only, without a label, or constant."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        given, golds = draw_pairs(name, rng)
        rows = rng.integers(len(golds), size=len(golds))
        times = np.bincount(rows, minlength=len(golds)).astype(np.float64)
        found = WEIGHTED_METRICS[name](given, golds)(times)
        with np.errstate(all="ignore"):
            expected = METRICS[name](given[rows], golds=golds[rows]) if len(rows) > 1 else found
        assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["macro_f1", "matthews", "spearman"])
def test_intervals_are_those_of_the_plain_metric(name):
    rng = np.random.default_rng(2)
    golds = rng.integers(4, size=80)
    given = np.where(rng.random(80) < 0.6, golds, rng.integers(4, size=80))
    weighted = WEIGHTED_METRICS[name](given, golds)
    quick = bootstrap_times(80, measure=lambda times: {name: weighted(times)}, seed=3, num_resamples=200)
    plain = bootstrap_metric(given, golds=golds, metric=METRICS[name], seed=3, num_resamples=200)
    found = quick[name]
    assert (found.value, found.low, found.high) == pytest.approx((plain.value, plain.low, plain.high))
