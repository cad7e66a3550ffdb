"""Means, intervals and paired comparisons over seeds, against figures worked out elsewhere."""

import math

import pytest
from scipy.stats import ttest_rel

from albert.study.arms.statistics import compare_paired, estimate_mean


def test_the_interval_of_three_seeds_is_students():
    found = estimate_mean([1.0, 2.0, 3.0])
    # t(0.975, 2 degrees of freedom) = 4.30265; the standard error is 1 / √3.
    assert found.mean == 2.0
    assert found.high == pytest.approx(2.0 + 4.302653 / 3**0.5, abs=1e-5)
    assert found.low == pytest.approx(2.0 - 4.302653 / 3**0.5, abs=1e-5)
    assert found.spread == 1.0


def test_one_seed_has_no_interval():
    found = estimate_mean([5.0])
    assert (found.mean, found.low, found.high, found.spread) == (5.0, None, None, None)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_seed_that_diverged_takes_the_interval_with_it(value):
    found = estimate_mean([1.0, value, 2.0])
    assert (found.low, found.high, found.spread) == (None, None, None)
    compared = compare_paired({0: 1.0, 1: value}, base={0: 1.0, 1: 1.0})
    assert compared is not None
    assert (compared.low, compared.p_value) == (None, None)


def test_pairs_are_compared_seed_by_seed():
    # Both arms vary far more between seeds than they differ: paired, the difference is plain.
    base = {0: 10.0, 1: 50.0, 2: 90.0, 3: 30.0}
    ours = {0: 11.0, 1: 51.1, 2: 90.9, 3: 31.0, 4: 99.0}
    found = compare_paired(ours, base=base)
    assert found is not None
    assert found.num_seeds == 4  # the fifth has no partner
    assert found.mean == pytest.approx(1.0)
    assert found.low > 0
    assert found.p_value == pytest.approx(
        ttest_rel([11.0, 51.1, 90.9, 31.0], [10.0, 50.0, 90.0, 30.0]).pvalue
    )


def test_a_wide_interval_says_neither():
    found = compare_paired({0: 1.0, 1: -1.0, 2: 0.5}, base={0: 0.0, 1: 0.0, 2: 0.0})
    assert found is not None
    assert found.low < 0 < found.high


def test_nothing_in_common_is_no_comparison():
    assert compare_paired({0: 1.0}, base={1: 1.0}) is None
