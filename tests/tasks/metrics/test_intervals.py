"""Bootstrap intervals against theory, and summaries of seeds."""

import numpy as np
import pytest
from scipy.stats import binom

from albert.errors import InputError
from albert.tasks.metrics.classification import accuracy, matthews_correlation
from albert.tasks.metrics.intervals import (
    SeedSummary,
    bootstrap_mean,
    bootstrap_weighted,
    summarize_seeds,
)
from albert.tasks.metrics.squad import score_questions, summarize_squad

from .plain_bootstrap import bootstrap_metric


def squad_f1(predictions, *, golds):
    return summarize_squad(score_questions(predictions, golds=golds, version="2.0")).overall.f1 / 100


@pytest.mark.parametrize(("num_correct", "size"), [(40, 50), (150, 300), (495, 500)])
def test_resampled_accuracy_is_binomial(num_correct, size):
    scores = [1.0] * num_correct + [0.0] * (size - num_correct)
    for level in (0.5, 0.9, 0.95):
        found = bootstrap_mean(scores, seed=1, level=level, num_resamples=20_000)
        low, high = binom.ppf([(1 - level) / 2, (1 + level) / 2], size, num_correct / size)
        assert found.value == num_correct / size
        assert abs(found.low * size - low) <= 1
        assert abs(found.high * size - high) <= 1
        assert found.level == level


def test_95_percent_of_the_intervals_contain_the_true_value():
    rng = np.random.default_rng(2)
    num_inside = 0
    for seed in range(400):
        found = bootstrap_mean(rng.random(200) < 0.7, seed=seed, num_resamples=400)
        num_inside += found.low <= 0.7 <= found.high
    assert 0.91 <= num_inside / 400 <= 0.98


def test_the_interval_of_a_mean_equals_the_general_one():
    rng = np.random.default_rng(3)
    golds = rng.integers(3, size=70)
    predictions = np.where(rng.random(70) < 0.6, golds, rng.integers(3, size=70))
    quick = bootstrap_mean(predictions == golds, seed=4, num_resamples=200)
    general = bootstrap_metric(predictions, golds=golds, metric=accuracy, seed=4, num_resamples=200)
    assert (general.value, general.low, general.high) == pytest.approx((quick.value, quick.low, quick.high))
    other = bootstrap_mean(predictions == golds, seed=5, num_resamples=200)
    assert (other.low, other.high) != (quick.low, quick.high)
    assert bootstrap_mean(predictions == golds, seed=4, num_resamples=200) == quick


def test_draws_do_not_depend_on_the_block_size(monkeypatch):
    scores = np.random.default_rng(6).random(33)
    whole = bootstrap_mean(scores, seed=1, num_resamples=100)
    monkeypatch.setattr("albert.tasks.metrics.intervals._BLOCK_CELLS", 33 * 7)
    assert bootstrap_mean(scores, seed=1, num_resamples=100) == whole


def test_intervals_of_metrics_that_are_not_means():
    rng = np.random.default_rng(7)
    golds = rng.integers(2, size=200)
    predictions = np.where(rng.random(200) < 0.8, golds, 1 - golds)
    measure = matthews_correlation.prepare(predictions, golds=golds)
    draws = bootstrap_weighted(200, measure=lambda times: {"": measure(times)}, seed=1, num_resamples=300)
    found = draws[""]
    assert found.low < found.value < found.high
    # About two standard errors of a correlation on each side.
    assert found.high - found.low == pytest.approx(4 * (1 - found.value**2) / np.sqrt(200), rel=0.35)
    texts, answers = ["x", "x y", "", "z"] * 5, [["x"], ["x"], [], ["y"]] * 5
    general = bootstrap_metric(texts, golds=answers, metric=squad_f1, seed=2, num_resamples=200)
    quick = bootstrap_mean(score_questions(texts, golds=answers, version="2.0").f1, seed=2, num_resamples=200)
    assert (general.low, general.high) == pytest.approx((quick.low, quick.high))


def test_equal_scores_have_an_interval_of_width_0():
    found = bootstrap_mean([1.0] * 20, seed=0)
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)
    assert bootstrap_mean([0.25], seed=0).high == 0.25


def test_invalid_arguments_are_rejected():
    for scores, options, value in (
        ([0.0, 1.0], {"level": 95}, "level 95"),
        ([0.0, 1.0], {"num_resamples": 0}, "0 resamples"),
        ([], {}, "0 examples"),
        ([0.0, 1.0], {"seed": -1}, "seed -1"),
        ([0.0, float("nan")], {}, "score 1 is nan"),
    ):
        with pytest.raises(InputError, match=value):
            bootstrap_mean(scores, **{"seed": 0, **options})


def test_seeds_are_summarized_by_median_and_spread():
    summary = summarize_seeds([90.0, 92.0, 50.0, 91.0, 93.0])
    assert (summary.median, summary.mean) == (91.0, 83.2)
    assert summary.spread == pytest.approx(np.std([90.0, 92.0, 50.0, 91.0, 93.0], ddof=1))
    assert (summary.lowest, summary.highest, summary.num_seeds) == (50.0, 93.0, 5)
    assert summarize_seeds([71.5]) == SeedSummary(71.5, 71.5, None, 71.5, 71.5, 1)
    with pytest.raises(InputError, match="0 runs"):
        summarize_seeds([])
    with pytest.raises(InputError, match="the score of run 1 is nan"):
        summarize_seeds([1.0, float("nan")])
