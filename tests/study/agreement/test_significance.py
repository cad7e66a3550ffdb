"""Intervals and tests against figures worked out by hand."""

import pytest

from albert.study.agreement.significance import compare_decisions, find_wilson, flip_signs


def test_wilson_by_hand():
    # z = 1.959964: (8 + z²/2 ± z·√(8·2/10 + z²/4)) / (10 + z²)
    assert find_wilson(8, 10) == pytest.approx((0.490162, 0.943318), abs=1e-6)
    assert find_wilson(10, 10)[1] == pytest.approx(1.0)
    assert find_wilson(10, 10)[0] == pytest.approx(0.722467, abs=1e-6)


def test_with_a_pair_a_frame_it_is_mcnemars_test():
    first = [True] * 9 + [False] + [True] * 30
    second = [False] * 9 + [True] + [True] * 30
    found = compare_decisions(first, second=second, frames=range(40), seed=0)
    assert (found.num_pairs, found.num_first_only, found.num_second_only) == (40, 9, 1)
    assert found.p_value == pytest.approx(2 * (1 + 10) / 2**10)
    assert found.difference.value == pytest.approx(8 / 40)
    assert 0 < found.difference.low < 0.2 < found.difference.high


def test_signs_are_flipped_by_hand():
    # Of the eight ways to sign 2, 1 and 1 one is at 4 and one at −4; at 2 or further lie four more.
    assert flip_signs([2, 1, 1]) == pytest.approx(2 / 8)
    assert flip_signs([2, -1, 1]) == pytest.approx(6 / 8)
    assert flip_signs([2, 0, -1, -1]) == 1.0
    assert flip_signs([]) == 1.0


def test_the_pairs_of_a_frame_are_no_evidence_by_themselves():
    """Four frames of eight pairs: three won and one lost, as coins do in ten of sixteen throws."""
    frames = [place // 8 for place in range(32)]
    first = [frame != 0 for frame in frames]
    found = compare_decisions(first, second=[not each for each in first], frames=frames, seed=0)
    assert (found.num_first_only, found.num_second_only) == (24, 8)
    assert found.p_value == pytest.approx(10 / 16)
    assert found.difference.low < 0 < found.difference.high


def test_models_that_are_alike_do_not_differ():
    found = compare_decisions([True, False] * 5, second=[True, False] * 5, frames=range(10), seed=0)
    assert (found.p_value, found.difference.low, found.difference.high) == (1.0, 0.0, 0.0)


def test_pairs_of_one_frame_count_as_one_question():
    first, second = [True, False] * 50, [False] * 100
    apart = compare_decisions(first, second=second, frames=range(100), seed=0).difference
    # Each frame has one pair of either kind: whichever are drawn, the mean is a half.
    together = compare_decisions(first, second=second, frames=[place // 2 for place in range(100)], seed=0)
    assert (together.difference.low, together.difference.high) == (0.5, 0.5)
    assert apart.low < 0.45 < 0.55 < apart.high


def test_only_what_both_were_asked_is_compared():
    found = compare_decisions([True, None, True], second=[None, True, False], frames=range(3), seed=0)
    assert (found.num_pairs, found.num_first_only) == (1, 1)
    assert compare_decisions([True, None], second=[None, True], frames=range(2), seed=0) is None
