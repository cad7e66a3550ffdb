"""Bootstrap intervals by theory, paired comparison of models, seeds and halves."""

import numpy as np
import pytest
from scipy.stats import binom

from albert.errors import InputError
from albert.tasks.metrics.classification import accuracy, matthews_correlation
from albert.tasks.metrics.intervals import (
    SeedSummary,
    bootstrap_mean,
    bootstrap_times,
    halve,
    summarise_seeds,
)
from albert.tasks.metrics.squad import score_questions, summarise_squad

from .plain_bootstrap import bootstrap_metric


def squad_f1(predictions, *, golds):
    return summarise_squad(score_questions(predictions, golds=golds, version="2.0")).overall.f1 / 100


@pytest.mark.parametrize(("num_right", "size"), [(40, 50), (150, 300), (495, 500)])
def test_resampled_accuracy_is_binomial(num_right, size):
    """Drawing from k right and n - k wrong answers is tossing a coin of k ÷ n: its quantiles are known."""
    scores = [1.0] * num_right + [0.0] * (size - num_right)
    for level in (0.5, 0.9, 0.95):
        found = bootstrap_mean(scores, seed=1, level=level, num_resamples=20_000)
        low, high = binom.ppf([(1 - level) / 2, (1 + level) / 2], size, num_right / size)
        assert found.value == num_right / size
        assert abs(found.low * size - low) <= 1
        assert abs(found.high * size - high) <= 1
        assert found.level == level


def test_nineteen_of_twenty_intervals_hold_the_truth():
    rng = np.random.default_rng(2)
    num_held = 0
    for seed in range(400):
        found = bootstrap_mean(rng.random(200) < 0.7, seed=seed, num_resamples=400)
        num_held += found.low <= 0.7 <= found.high
    assert 0.91 <= num_held / 400 <= 0.98


def test_the_quick_way_and_the_general_one_draw_the_same_examples():
    rng = np.random.default_rng(3)
    golds = rng.integers(3, size=70)
    predictions = np.where(rng.random(70) < 0.6, golds, rng.integers(3, size=70))
    quick = bootstrap_mean(predictions == golds, seed=4, num_resamples=200)
    general = bootstrap_metric(predictions, golds=golds, metric=accuracy, seed=4, num_resamples=200)
    assert (general.value, general.low, general.high) == pytest.approx((quick.value, quick.low, quick.high))
    other = bootstrap_mean(predictions == golds, seed=5, num_resamples=200)
    assert (other.low, other.high) != (quick.low, quick.high)
    assert bootstrap_mean(predictions == golds, seed=4, num_resamples=200) == quick


def test_draws_do_not_depend_on_how_many_are_made_at_once(monkeypatch):
    scores = np.random.default_rng(6).random(33)
    whole = bootstrap_mean(scores, seed=1, num_resamples=100)
    monkeypatch.setattr("albert.tasks.metrics.intervals._BLOCK_CELLS", 33 * 7)
    assert bootstrap_mean(scores, seed=1, num_resamples=100) == whole


def test_metrics_that_are_no_means_and_answers_that_are_texts():
    rng = np.random.default_rng(7)
    golds = rng.integers(2, size=200)
    predictions = np.where(rng.random(200) < 0.8, golds, 1 - golds)
    measure = matthews_correlation.prepare(predictions, golds=golds)
    draws = bootstrap_times(200, measure=lambda times: {"": measure(times)}, seed=1, num_resamples=300)
    found = draws[""]
    assert found.low < found.value < found.high
    # The usual standard error of a correlation, times two on each side, is about as wide.
    assert found.high - found.low == pytest.approx(4 * (1 - found.value**2) / np.sqrt(200), rel=0.35)
    texts, answers = ["x", "x y", "", "z"] * 5, [["x"], ["x"], [], ["y"]] * 5
    general = bootstrap_metric(texts, golds=answers, metric=squad_f1, seed=2, num_resamples=200)
    quick = bootstrap_mean(score_questions(texts, golds=answers, version="2.0").f1, seed=2, num_resamples=200)
    assert (general.low, general.high) == pytest.approx((quick.low, quick.high))


def test_equal_scores_leave_no_doubt():
    found = bootstrap_mean([1.0] * 20, seed=0)
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)
    assert bootstrap_mean([0.25], seed=0).high == 0.25


def test_what_has_no_interval_is_refused():
    with pytest.raises(InputError, match="level 95 of an interval"):
        bootstrap_mean([0.0, 1.0], seed=0, level=95)
    with pytest.raises(InputError, match="0 resamples"):
        bootstrap_mean([0.0, 1.0], seed=0, num_resamples=0)
    with pytest.raises(InputError, match="0 examples"):
        bootstrap_mean([], seed=0)
    with pytest.raises(InputError, match="seed -1 is below 0"):
        bootstrap_mean([0.0, 1.0], seed=-1)
    with pytest.raises(InputError, match="score 1 is nan"):
        bootstrap_mean([0.0, float("nan")], seed=0)


def test_seeds_have_a_median_and_a_spread():
    summary = summarise_seeds([90.0, 92.0, 50.0, 91.0, 93.0])
    assert (summary.median, summary.mean) == (91.0, 83.2)
    assert summary.spread == pytest.approx(np.std([90.0, 92.0, 50.0, 91.0, 93.0], ddof=1))
    assert (summary.lowest, summary.highest, summary.num_seeds) == (50.0, 93.0, 5)
    assert summarise_seeds([71.5]) == SeedSummary(71.5, 71.5, None, 71.5, 71.5, 1)
    with pytest.raises(InputError, match="0 runs"):
        summarise_seeds([])
    with pytest.raises(InputError, match="the score of run 1 is nan"):
        summarise_seeds([1.0, float("nan")])


def test_halves_keep_passages_together_and_follow_the_seed():
    groups = [f"passage {number // 3}" for number in range(60)]
    is_first = halve(groups, seed=0)
    assert sum(is_first) == 30
    for start in range(0, 60, 3):
        assert len(set(is_first[start : start + 3])) == 1
    assert halve(groups, seed=0) == is_first
    assert len({halve(groups, seed=seed) for seed in range(20)}) > 15
    with pytest.raises(InputError, match="1 group"):
        halve(["one"] * 5, seed=0)
