"""Pearson and Spearman equal scipy's, ties included; scores of tasks."""

import math
import warnings

import numpy as np
import pytest
from scipy import stats

from albert.errors import InputError
from albert.tasks.catalogue import PUBLISHED_TASKS
from albert.tasks.metrics.regression import pearson, spearman
from albert.tasks.metrics.scores import format_score, prepare_metrics
from albert.tasks.metrics.squad import ANSWER_NOTHING

# Published scores of a constant prediction.
CONSTANT = {
    "cola": {"matthews": 0.0},
    "sst-2": {"accuracy": 50.9},
    "mrpc": {"accuracy": 68.4, "f1": 81.2},
    "sts-b": {"pearson": 0.0, "spearman": 0.0},
    "rte": {"accuracy": 47.3},
    "wnli": {"accuracy": 43.7},
}


def test_correlations_equal_scipys_with_many_ties():
    rng = np.random.default_rng(1)
    for number in range(500):
        golds = rng.integers(0, [2, 4, 11, 10**6][number % 4], size=rng.integers(3, 30))
        predictions = np.where(rng.random(len(golds)) < 0.4, golds, rng.integers(-5, 5, size=len(golds)))
        if np.ptp(golds) and np.ptp(predictions):
            expected = (
                stats.pearsonr(predictions, golds).statistic,
                stats.spearmanr(predictions, golds).statistic,
            )
            found = pearson(predictions, golds=golds), spearman(predictions, golds=golds)
            assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("metric", [pearson, spearman])
def test_the_correlation_with_a_constant_is_0(metric):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for constant in ([2.5] * 4, [0.0] * 4, [0.1 + 0.2] * 4, [1e300] * 4):
            assert metric(constant, golds=[1.0, 2.0, 3.0, 4.0]) == 0.0
            assert metric([1.0, 2.0, 3.0, 4.0], golds=constant) == 0.0
    assert metric([3.0], golds=[3.0]) == 0.0


@pytest.mark.parametrize("metric", [pearson, spearman])
def test_nan_and_infinity_are_rejected(metric):
    with pytest.raises(InputError, match="1 is nan"):
        metric([1.0, math.nan], golds=[1.0, 2.0])
    with pytest.raises(InputError, match="0 is inf"):
        metric([1.0, 2.0], golds=[math.inf, 2.0])


def score_task(predictions, *, golds, metrics):
    return prepare_metrics(predictions, golds=golds, metrics=metrics)(np.ones(len(golds)))


def test_the_score_is_the_mean_of_the_metrics():
    found = score_task([1, 1, 1, 0, 0], golds=[1, 1, 0, 1, 0], metrics=PUBLISHED_TASKS["mrpc"].config.metrics)
    assert found == pytest.approx({"accuracy": 60.0, "f1": 100 * 4 / 6, "score": (60.0 + 100 * 4 / 6) / 2})
    with pytest.raises(InputError, match="'bleu'"):
        score_task([1], golds=[1], metrics=["bleu"])


@pytest.mark.parametrize("task", CONSTANT)
def test_golds_score_100_and_constants_the_published_values_on_real_files(real_glue, task):
    definition = PUBLISHED_TASKS[task]
    golds = [example.label for example in definition.read_split(real_glue, "dev").examples]
    perfect = score_task(golds, golds=golds, metrics=definition.config.metrics)
    assert list(perfect.values()) == pytest.approx([100.0] * len(perfect))
    constant = score_task([1] * len(golds), golds=golds, metrics=definition.config.metrics)
    for name, value in CONSTANT[task].items():
        assert constant[name] == pytest.approx(value, abs=0.05)


def test_a_threshold_that_answers_nothing_is_formatted_as_words():
    assert format_score(ANSWER_NOTHING) == format_score(ANSWER_NOTHING, ".4g") == "nothing is answered"
    assert (format_score(-1.5), format_score(-1.5, ".4g")) == ("-1.50", "-1.5")
