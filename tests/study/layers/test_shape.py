"""Where a curve goes and how rough it is, on curves of which a person can say it."""

import numpy as np
import pytest

from albert.study.layers.states import compare_thirds, find_roughness, find_turn, name_course

LAYERS = np.arange(24)


def course_of(heights):
    change = compare_thirds(np.asarray(heights, np.float64))
    return name_course(None if change is None else float(change))


@pytest.mark.parametrize(
    ("heights", "course"),
    [
        (5 * 0.9**LAYERS, "settles"),
        (5 * 0.7 ** LAYERS[:12], "settles"),
        (1 - LAYERS / 23, "settles"),
        (np.where(LAYERS < 4, 8.0, 0.0), "settles"),  # nothing is left: the ratio of two zeros says nothing
        (5 * 0.8**LAYERS * (1 + 0.3 * np.cos(LAYERS)), "settles"),
        (3 + np.sin(LAYERS), "keeps a level"),
        (np.full(24, 2.0), "keeps a level"),
        (np.where(LAYERS % 2 == 0, 1.0, 4.0), "keeps a level"),
        (10 * 0.5**LAYERS + 2 + 0.3 * np.sin(2 * LAYERS), "keeps a level"),  # falls at first, and not to 0
        (1.1**LAYERS, "drifts"),
        (1 + LAYERS, "drifts"),
        ([9.0, 1.0, 1.0, 1.0, 2.0, 3.0], "drifts"),
        ([4.0, 3.0, 2.0, 1.0, 0.5], "too short to tell"),
    ],
)
def test_where_a_curve_goes(heights, course):
    assert course_of(heights) == course
    assert course_of(1000 * np.asarray(heights)) == course  # whatever the scale


def test_a_slow_decay_needs_more_loops_to_be_seen():
    assert course_of(0.97 ** np.arange(24)) == "keeps a level"
    assert course_of(0.97 ** np.arange(96)) == "settles"


@pytest.mark.parametrize(
    ("heights", "has_turn"),
    [
        (3 + np.sin(LAYERS), True),
        (4 + np.sin(LAYERS / 4), True),
        (np.where(LAYERS % 2 == 0, 1.0, 4.0), True),
        ([9.0, 1.0, 5.0, 6.0, 6.0, 5.0], True),
        (0.93**LAYERS, False),
        (1 + LAYERS, False),
        (np.full(24, 2.0), False),
        (2 + 0.001 * np.sin(LAYERS), False),  # next to nothing
        ([9.0, 1.0, 5.0, 5.0, 6.0, 6.0], False),  # what the first third does is not asked
    ],
)
def test_a_turn_is_a_rise_and_a_fall(heights, has_turn):
    assert find_turn(np.asarray(heights, np.float64)) == has_turn
    assert find_turn(1000 * np.asarray(heights, np.float64)) == has_turn


def test_roughness_by_hand():
    assert find_roughness(2 + 3.0 * LAYERS) == pytest.approx(0.0)  # a straight line, however steep
    zigzag = np.array([1.0, 2.0, 1.0, 2.0])
    assert find_roughness(zigzag) == pytest.approx(2.0 / 1.5)
    assert find_roughness(50 * zigzag) == pytest.approx(2.0 / 1.5)
    assert find_roughness(zigzag[:2]) is None


def test_many_curves_at_once_are_each_by_itself():
    curves = np.stack([5 * 0.9**LAYERS, 3 + np.sin(LAYERS), np.where(LAYERS < 4, 8.0, 0.0)])
    assert compare_thirds(curves) == pytest.approx([float(compare_thirds(curve)) for curve in curves])
    assert find_roughness(curves) == pytest.approx([float(find_roughness(curve)) for curve in curves])
