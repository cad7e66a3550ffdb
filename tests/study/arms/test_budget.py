"""What a budget is room for, and the least one that is refused no more."""

import pytest

from albert.study.arms.budget import ArmCost, find_shortest, share_steps
from albert.study.arms.plan import read_study
from albert.study.arms.schedule import Schedule, build_schedule

COSTS = {"cheap": ArmCost(0.1, 2.0), "dear": ArmCost(0.5, 4.0)}
ALONE = Schedule([[("cheap", 0), ("dear", 0)]])


def test_with_equal_steps_all_arms_take_as_many() -> None:
    assert share_steps(COSTS, ALONE, seconds=66.0, is_equal_time=False) == {"cheap": 100, "dear": 100}


def test_with_equal_time_the_cheaper_arm_takes_more() -> None:
    # Of 28 seconds 6 go into asking both; either is trained for 11.
    assert share_steps(COSTS, ALONE, seconds=28.0, is_equal_time=True) == {"cheap": 110, "dear": 22}


@pytest.mark.parametrize("is_equal_time", [False, True])
def test_the_least_budget_that_is_told_is_room_for_ten_steps_of_each(is_equal_time: bool) -> None:
    least = find_shortest(COSTS, ALONE, is_equal_time=is_equal_time)
    assert min(share_steps(COSTS, ALONE, seconds=least, is_equal_time=is_equal_time).values()) == 10
    assert min(share_steps(COSTS, ALONE, seconds=0.9 * least, is_equal_time=is_equal_time).values()) < 10


def test_side_by_side_the_longest_row_of_arms_decides() -> None:
    both = Schedule(ALONE.groups, num_at_once=2)
    assert share_steps(COSTS, both, seconds=54.0, is_equal_time=False) == {"cheap": 100, "dear": 100}
    # Twice as many workers as arms are worth no more than as many.
    many = Schedule(ALONE.groups, num_at_once=4)
    assert share_steps(COSTS, many, seconds=54.0, is_equal_time=False) == {"cheap": 100, "dear": 100}


def test_footprints_are_measured_alone_whoever_trains() -> None:
    costs = {"cheap": ArmCost(0.1, 2.0, 5.0), "dear": ArmCost(0.5, 4.0, 5.0)}
    both = Schedule(ALONE.groups, num_at_once=2)
    assert share_steps(costs, both, seconds=64.0, is_equal_time=False) == {"cheap": 100, "dear": 100}


@pytest.mark.parametrize(("study", "num_at_once"), [("depth", 1), ("depth", 2), ("depth", 8), ("dropout", 4)])
def test_a_study_with_arms_that_wait_for_others_keeps_to_its_budget(study: str, num_at_once: int) -> None:
    settings = read_study(study)
    schedule = build_schedule(settings, num_at_once=num_at_once)
    costs = dict.fromkeys(settings.arms, ArmCost(1.0, 0.0))
    (number,) = set(share_steps(costs, schedule, seconds=9000.0, is_equal_time=False).values())
    assert schedule.find_seconds(dict.fromkeys(settings.arms, float(number))) <= 9000.0
    assert schedule.find_seconds(dict.fromkeys(settings.arms, number + 1.0)) > 9000.0
