"""Several runs of one training: the median, and how far runs lie apart."""

import pytest

from albert.errors import InputError
from albert.tasks.metrics.intervals import SeedSummary, summarise_seeds


def test_five_runs_one_of_which_failed():
    summary = summarise_seeds([90.0, 92.0, 50.0, 91.0, 93.0])
    assert summary.median == 91.0
    assert summary.mean == 83.2
    # Squares of the distances to 83.2: 46.24, 77.44, 1102.24, 60.84, 96.04; over n - 1 = 4.
    assert summary.spread == pytest.approx((1382.8 / 4) ** 0.5)
    assert (summary.lowest, summary.highest, summary.num_seeds) == (50.0, 93.0, 5)


def test_an_even_number_has_its_median_between_and_one_run_has_no_spread():
    assert summarise_seeds([1.0, 4.0, 2.0, 8.0]).median == 3.0
    assert summarise_seeds([71.5]) == SeedSummary(71.5, 71.5, None, 71.5, 71.5, 1)


def test_no_run_and_a_run_without_a_number_are_refused():
    with pytest.raises(InputError, match="0 runs"):
        summarise_seeds([])
    with pytest.raises(InputError, match="the score of run 1 is nan"):
        summarise_seeds([1.0, float("nan")])
