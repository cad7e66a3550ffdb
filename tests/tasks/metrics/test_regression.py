"""Pearson and Spearman equal their formulas in whole numbers, ties included, and never warn."""

import math
import random
import warnings

import numpy as np
import pytest

from albert.errors import InputError
from albert.tasks.metrics.regression import pearson, spearman


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def correlation_of(first, second):
    """Pearson's formula over whole numbers: exact but for the last root and division."""
    size = len(first)
    product = size * sum(a * b for a, b in zip(first, second, strict=True)) - sum(first) * sum(second)
    spreads = [size * sum(a * a for a in values) - sum(values) ** 2 for values in (first, second)]
    return product / math.sqrt(spreads[0] * spreads[1]) if all(spreads) else 0.0


def doubled_ranks(values):
    """Twice the mean rank of each value: the places below it, and half of those it shares."""
    return [2 * sum(o < v for o in values) + sum(o == v for o in values) + 1 for v in values]


def test_two_thousand_lists_with_many_ties():
    rng = random.Random(1)
    num_tied = 0
    for _ in range(2_000):
        size, highest = rng.randint(1, 30), rng.choice([1, 3, 10, 10**6])
        golds = [rng.randint(0, highest) for _ in range(size)]
        predictions = [gold if rng.random() < 0.4 else rng.randint(-highest, highest) for gold in golds]
        wanted = correlation_of(doubled_ranks(predictions), doubled_ranks(golds))
        assert spearman(predictions, golds=golds) == pytest.approx(wanted, abs=1e-12)
        assert pearson(predictions, golds=golds) == pytest.approx(
            correlation_of(predictions, golds), abs=1e-9
        )
        num_tied += len(set(golds)) < size
    assert num_tied > 1_000


def test_ties_share_the_mean_of_their_ranks():
    # Ranks 1, 2½, 2½, 4 against 1, 2, 3, 4.
    assert spearman([1, 5, 5, 9], golds=[1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))


@pytest.mark.parametrize("metric", [pearson, spearman])
def test_a_constant_side_correlates_with_nothing(metric):
    for constant in ([2.5] * 4, [0.0] * 4, [0.1 + 0.2] * 4, [1e300] * 4):
        assert metric(constant, golds=[1.0, 2.0, 3.0, 4.0]) == 0.0
        assert metric([1.0, 2.0, 3.0, 4.0], golds=constant) == 0.0
    assert metric([3.0], golds=[3.0]) == 0.0


def test_rounding_around_a_constant_is_no_signal_for_pearson():
    almost = [3.0, np.nextafter(3.0, 4.0), np.nextafter(3.0, 2.0), 3.0]
    assert pearson(almost, golds=[1.0, 2.0, 3.0, 4.0]) == 0.0
    # A small but real spread is one: it survives the move and the scale.
    assert pearson([3 + 1e-6 * k for k in range(5)], golds=range(5)) == pytest.approx(1.0)


@pytest.mark.parametrize("metric", [pearson, spearman])
def test_golds_as_predictions_are_perfect_and_upside_down_they_are_the_worst(metric):
    golds = [0.0, 5.0, 2.5, 2.5, 3.8, 1e-3]
    assert metric(golds, golds=golds) == pytest.approx(1.0, abs=1e-15)
    assert metric([-gold for gold in golds], golds=golds) == pytest.approx(-1.0, abs=1e-15)


@pytest.mark.parametrize("metric", [pearson, spearman])
def test_what_is_no_number_is_refused(metric):
    with pytest.raises(InputError, match="prediction 1 is nan"):
        metric([1.0, math.nan], golds=[1.0, 2.0])
    with pytest.raises(InputError, match="gold number 0 is inf"):
        metric([1.0, 2.0], golds=[math.inf, 2.0])
    with pytest.raises(InputError, match="1 predictions for 2"):
        metric([1.0], golds=[1.0, 2.0])
