"""Two models on the same examples: the test against all swaps there are, and what pairing is good for."""

from itertools import product

import numpy as np
import pytest

from albert.errors import InputError
from albert.tasks.metrics.intervals import compare_means
from albert.tasks.metrics.intervals import bootstrap_mean


def share_of_all_swaps(first, second):
    """The exact test: every one of the 2ⁿ ways to swap the two models."""
    gaps = np.subtract(first, second)
    signs = np.array(list(product([-1, 1], repeat=len(gaps))))
    return np.mean(np.abs((signs * gaps).mean(axis=1)) >= abs(gaps.mean()) - 1e-12)


def test_p_values_are_those_of_all_swaps():
    rng = np.random.default_rng(1)
    for _ in range(5):
        first, second = (rng.random(10) < 0.9).astype(float), rng.random(10).round(1)
        found = compare_means(first, second=second, seed=2, num_resamples=4_000)
        assert found.p_value == pytest.approx(share_of_all_swaps(first, second), abs=0.03)


def test_the_other_way_round_is_the_opposite():
    rng = np.random.default_rng(3)
    first, second = rng.random(80) < 0.8, rng.random(80) < 0.6
    found = compare_means(first, second=second, seed=4, num_resamples=300)
    opposite = compare_means(second, second=first, seed=4, num_resamples=300)
    assert found.interval.value == pytest.approx(first.mean() - second.mean())
    assert opposite.interval.value == pytest.approx(-found.interval.value)
    assert opposite.interval.low == pytest.approx(-found.interval.high)
    assert opposite.p_value == found.p_value


def test_a_model_is_no_better_than_itself():
    scores = np.array([0, 1, 1, 0, 1])
    found = compare_means(scores, second=scores, seed=0)
    assert (found.interval.value, found.interval.low, found.interval.high) == (0.0, 0.0, 0.0)
    assert found.p_value == 1.0


def test_models_that_differ_by_chance_are_seldom_told_apart():
    rng = np.random.default_rng(5)
    p_values = []
    for seed in range(300):
        first, second = (rng.random((2, 120)) < 0.8).astype(float)
        p_values.append(compare_means(first, second=second, seed=seed, num_resamples=200).p_value)
    assert np.mean(np.array(p_values) <= 0.05) < 0.08
    assert np.mean(np.array(p_values) <= 0.5) > 0.3


def test_pairing_sees_what_two_intervals_do_not():
    """The first model is right wherever the second is, and on eight more of 400 examples."""
    second = np.array([1.0] * 300 + [0.0] * 100)
    first = second.copy()
    first[300:308] = 1.0
    found = compare_means(first, second=second, seed=6, num_resamples=2_000)
    assert found.interval.low > 0
    assert found.p_value < 0.02
    assert bootstrap_mean(first, seed=6).low < bootstrap_mean(second, seed=6).high


def test_other_numbers_of_examples_are_refused():
    with pytest.raises(InputError, match="1 predictions for 2"):
        compare_means([1.0], second=[1.0, 0.0], seed=0)
    with pytest.raises(InputError, match="0 resamples"):
        compare_means([1.0], second=[1.0], seed=0, num_resamples=0)
