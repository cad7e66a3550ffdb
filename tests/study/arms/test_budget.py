"""What a budget is room for, and the least one that is refused no more."""

import pytest

from albert.study.arms.budget import ArmCost, find_shortest, share_steps

COSTS = {"cheap": ArmCost(0.1, 2.0), "dear": ArmCost(0.5, 4.0)}


def test_with_equal_steps_all_arms_take_as_many() -> None:
    assert share_steps(COSTS, seconds=66.0, is_equal_time=False) == {"cheap": 100, "dear": 100}


def test_with_equal_time_the_cheaper_arm_takes_more() -> None:
    # Of 28 seconds 6 go into asking both; either is trained for 11.
    assert share_steps(COSTS, seconds=28.0, is_equal_time=True) == {"cheap": 110, "dear": 22}


@pytest.mark.parametrize("is_equal_time", [False, True])
def test_the_least_budget_that_is_told_is_room_for_ten_steps_of_each(is_equal_time: bool) -> None:
    least = find_shortest(COSTS, is_equal_time=is_equal_time)
    assert min(share_steps(COSTS, seconds=least + 1e-6, is_equal_time=is_equal_time).values()) == 10
    assert min(share_steps(COSTS, seconds=0.9 * least, is_equal_time=is_equal_time).values()) < 10
