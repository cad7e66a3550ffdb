"""Pearson and Spearman equal scipy's, ties included; scores of tasks."""

import math
import warnings

import numpy as np
import pytest
from scipy import stats

from albert.errors import InputError
from albert.tasks.catalogue import PUBLISHED_TASKS
from albert.tasks.metrics.regression import pearson, spearman
from albert.tasks.metrics.scores import find_median, format_score, prepare_metrics
from albert.tasks.metrics.squad import ANSWER_NOTHING

# The task, the column of the label (CoLA has no header) and the classes in their order.
FILES = {
    "CoLA/dev.tsv": ("cola", 1, ["0", "1"]),
    "SST-2/dev.tsv": ("sst-2", 1, ["0", "1"]),
    "MRPC/dev.tsv": ("mrpc", 0, ["0", "1"]),
    "STS-B/dev.tsv": ("sts-b", -1, None),
    "QQP/dev.tsv": ("qqp", 3, ["0", "1"]),
    "MNLI/dev_matched.tsv": ("mnli", -1, ["entailment", "neutral", "contradiction"]),
    "QNLI/dev.tsv": ("qnli", -1, ["entailment", "not_entailment"]),
    "RTE/dev.tsv": ("rte", -1, ["entailment", "not_entailment"]),
    "WNLI/dev.tsv": ("wnli", -1, ["0", "1"]),
}
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


def test_rounding_errors_around_a_constant_are_ignored():
    almost = [3.0, np.nextafter(3.0, 4.0), np.nextafter(3.0, 2.0), 3.0]
    assert pearson(almost, golds=[1.0, 2.0, 3.0, 4.0]) == 0.0
    assert pearson([3 + 1e-6 * k for k in range(5)], golds=range(5)) == pytest.approx(1.0)


@pytest.mark.parametrize("metric", [pearson, spearman])
def test_nan_and_infinity_are_rejected(metric):
    with pytest.raises(InputError, match="prediction 1 is nan"):
        metric([1.0, math.nan], golds=[1.0, 2.0])
    with pytest.raises(InputError, match="gold number 0 is inf"):
        metric([1.0, 2.0], golds=[math.inf, 2.0])


def score_task(predictions, *, golds, metrics):
    return prepare_metrics(predictions, golds=golds, metrics=metrics)(np.ones(len(golds)))


def test_the_score_is_the_mean_of_the_metrics():
    found = score_task([1, 1, 1, 0, 0], golds=[1, 1, 0, 1, 0], metrics=PUBLISHED_TASKS["mrpc"].config.metrics)
    assert found == pytest.approx({"accuracy": 60.0, "f1": 100 * 4 / 6, "score": (60.0 + 100 * 4 / 6) / 2})
    with pytest.raises(InputError, match="unknown metric 'bleu'"):
        score_task([1], golds=[1], metrics=["bleu"])


def test_golds_score_100_and_constants_the_published_values_on_real_files(glue_files):
    for path, text in glue_files.items():
        task, column, classes = FILES["/".join(path.split("/")[-2:])]
        rows = text.rstrip("\n").split("\n")[0 if task == "cola" else 1 :]
        cells = [row.split("\t")[column].strip() for row in rows]
        golds = [classes.index(cell) if classes else float(cell) for cell in cells]
        perfect = score_task(golds, golds=golds, metrics=PUBLISHED_TASKS[task].config.metrics)
        assert list(perfect.values()) == pytest.approx([100.0] * len(perfect)), task
        constant = score_task([1] * len(golds), golds=golds, metrics=PUBLISHED_TASKS[task].config.metrics)
        for name, value in CONSTANT.get(task, {}).items():
            assert constant[name] == pytest.approx(value, abs=0.05)


def test_the_median_of_thresholds_is_finite():
    assert find_median([ANSWER_NOTHING, ANSWER_NOTHING]) == ANSWER_NOTHING
    assert find_median([ANSWER_NOTHING, 2.0]) == 2.0
    assert find_median([3.0, 1.0]) == 2.0
    assert find_median([3.0, 1.0, ANSWER_NOTHING]) == 1.0


def test_a_threshold_that_answers_nothing_is_formatted_as_words():
    assert format_score(ANSWER_NOTHING) == format_score(ANSWER_NOTHING, ".4g") == "nothing is answered"
    assert (format_score(-1.5), format_score(-1.5, ".4g")) == ("-1.50", "-1.5")
