"""The order in which arms run, and how many steps fit into a budget."""

import pytest

from albert.study.arms.budget import ArmCost, Schedule, build_schedule, find_shortest, share_steps
from albert.study.arms.plan import read_study

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


def list_order(schedule):
    return [pair for group in schedule.groups for pair in group]


def test_one_at_a_time_every_arm_is_trained_once_before_any_is_again():
    settings = read_study("depth", overrides=["num_seeds=2"])
    order = list_order(build_schedule(settings))
    assert {arm for arm, _ in order[: len(settings.arms)]} == set(settings.arms)
    assert [seed for _, seed in order] == [0] * len(settings.arms) + [1] * len(settings.arms)


def test_side_by_side_all_that_may_begin_is_in_one_group():
    settings = read_study("depth", overrides=["num_seeds=2"])
    groups = build_schedule(settings, num_at_once=2).groups
    assert groups[0] == [("depth-1", 0), ("wide-2", 0), ("depth-1", 1), ("wide-2", 1)]
    (group,) = build_schedule(read_study("dropout"), num_at_once=2).groups
    assert [seed for _, seed in group] == [0, 0, 1, 1, 2, 2]


def test_no_arm_is_in_the_group_of_the_one_that_it_starts_from():
    settings = read_study("depth")
    for num_at_once in (1, 3):
        begun: set[tuple[str, int]] = set()
        for group in build_schedule(settings, num_at_once=num_at_once).groups:
            for arm, seed in group:
                start = settings.arms[arm].start_from
                assert start is None or (start, seed) in begun
            begun.update(group)


def test_seeds_may_begin_elsewhere():
    settings = read_study("dropout", overrides=["first_seed=5", "num_seeds=2"])
    assert {seed for _, seed in list_order(build_schedule(settings))} == {5, 6}


def test_whoever_is_free_takes_the_next():
    settings = read_study("dropout", overrides=["num_seeds=2"])
    seconds = {"without": 10.0, "with": 4.0}
    assert build_schedule(settings).find_seconds(seconds) == 28.0
    assert build_schedule(settings, num_at_once=2).find_seconds(seconds) == 14.0  # 10 + 4 beside 4 + 10
