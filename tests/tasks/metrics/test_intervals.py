"""Bootstrap intervals against theory, and summaries of seeds."""

import numpy as np
import pytest
from scipy.stats import binom

from albert.errors import InputError
from albert.tasks.metrics.classification import accuracy
from albert.tasks.metrics.intervals import SeedSummary, bootstrap_mean, summarize_seeds

from .plain_bootstrap import bootstrap_metric


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


def test_invalid_arguments_are_rejected():
    for scores, options, value in (
        ([0.0, 1.0], {"level": 95}, "level is 95"),
        ([0.0, 1.0], {"num_resamples": 0}, "num_resamples is 0"),
        ([], {}, "no examples"),
        ([0.0, 1.0], {"seed": -1}, "seed is -1"),
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
    with pytest.raises(InputError, match="no runs"):
        summarize_seeds([])
    with pytest.raises(InputError, match="1 is nan"):
        summarize_seeds([1.0, float("nan")])
