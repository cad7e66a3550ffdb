"""The order in which the arms of a study run."""

from albert.study.arms.plan import read_study
from albert.study.arms.schedule import build_schedule


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
