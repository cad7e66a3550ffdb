"""Two models on the same examples: the test against all swaps there are, and what pairing is good for."""

from itertools import product

import numpy as np
import pytest

from albert.errors import InputError
from albert.tasks.metrics.classification import accuracy, macro_f1, matthews_correlation
from albert.tasks.metrics.comparison import compare_means, compare_metric
from albert.tasks.metrics.intervals import bootstrap_mean


def share_of_all_swaps(first, second, golds, metric):
    """The exact test: every one of the 2ⁿ ways to swap the two models."""
    wanted = abs(metric(first, golds=golds) - metric(second, golds=golds))
    num_as_large = 0
    for swaps in product([False, True], repeat=len(golds)):
        one = [b if swap else a for a, b, swap in zip(first, second, swaps, strict=True)]
        other = [a if swap else b for a, b, swap in zip(first, second, swaps, strict=True)]
        num_as_large += abs(metric(one, golds=golds) - metric(other, golds=golds)) >= wanted - 1e-12
    return num_as_large / 2 ** len(golds)


def plain_matthews(predictions, *, golds):
    """Two classes, from counts: quick enough for every swap."""
    pairs = list(zip(predictions, golds, strict=True))
    hits, rest = pairs.count((1, 1)), pairs.count((0, 0))
    alarms, misses = pairs.count((1, 0)), pairs.count((0, 1))
    margins = (hits + alarms) * (hits + misses) * (rest + alarms) * (rest + misses)
    return (hits * rest - alarms * misses) / margins**0.5 if margins else 0.0


def test_p_values_are_those_of_all_swaps():
    rng = np.random.default_rng(1)
    for _ in range(5):
        golds = rng.integers(2, size=10).tolist()
        first = [gold if rng.random() < 0.9 else 1 - gold for gold in golds]
        second = [gold if rng.random() < 0.5 else 1 - gold for gold in golds]
        exact = share_of_all_swaps(first, second, golds, plain_matthews)
        found = compare_metric(
            first, second=second, golds=golds, metric=plain_matthews, seed=2, num_resamples=4_000
        )
        assert found.p_value == pytest.approx(exact, abs=0.03)
        right = [[float(p == g) for p, g in zip(own, golds, strict=True)] for own in (first, second)]
        exact = share_of_all_swaps(first, second, golds, lambda p, golds: np.mean(np.equal(p, golds)))
        quick = compare_means(right[0], second=right[1], seed=2, num_resamples=4_000)
        assert quick.p_value == pytest.approx(exact, abs=0.03)


def test_the_quick_way_and_the_general_one_agree():
    rng = np.random.default_rng(3)
    golds = rng.integers(3, size=80)
    first = np.where(rng.random(80) < 0.8, golds, rng.integers(3, size=80))
    second = np.where(rng.random(80) < 0.6, golds, rng.integers(3, size=80))
    quick = compare_means(first == golds, second=second == golds, seed=4, num_resamples=300)
    for one, other, wanted in ((first, second, golds), (list(first), list(second), list(golds))):
        general = compare_metric(one, second=other, golds=wanted, metric=accuracy, seed=4, num_resamples=300)
        assert general.p_value == quick.p_value
        assert general.interval.low == pytest.approx(quick.interval.low)
        assert general.interval.high == pytest.approx(quick.interval.high)
    opposite = compare_means(second == golds, second=first == golds, seed=4, num_resamples=300)
    assert opposite.interval.value == pytest.approx(-quick.interval.value)
    assert opposite.p_value == quick.p_value


def test_a_model_is_no_better_than_itself():
    golds = np.array([0, 1, 1, 0, 1])
    found = compare_metric(golds, second=golds, golds=golds, metric=matthews_correlation, seed=0)
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


def test_tables_of_several_labels_are_swapped_by_rows():
    rng = np.random.default_rng(7)
    golds = rng.integers(2, size=(40, 3))

    def cells(predictions, /, *, golds):
        return float(np.mean(predictions == golds))

    found = compare_metric(golds, second=1 - golds, golds=golds, metric=cells, seed=1, num_resamples=200)
    assert found.interval.value == 1.0
    assert found.p_value == 1 / 201


def test_other_numbers_of_examples_are_refused():
    with pytest.raises(InputError, match="3 predictions for 2"):
        compare_metric([1, 0], second=[1, 0, 1], golds=[1, 0], metric=macro_f1, seed=0)
    with pytest.raises(InputError, match="1 predictions for 2"):
        compare_means([1.0], second=[1.0, 0.0], seed=0)
    with pytest.raises(InputError, match="0 resamples"):
        compare_means([1.0], second=[1.0], seed=0, num_resamples=0)
