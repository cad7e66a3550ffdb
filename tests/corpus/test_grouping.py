"""Whole items together until they weigh enough."""

from albert.data.rows import iter_groups


def test_a_group_ends_with_the_item_that_reaches_the_limit() -> None:
    assert list(iter_groups(["aa", "b", "cccc", "d"], (len, 3))) == [["aa", "b"], ["cccc"], ["d"]]


def test_whichever_limit_is_reached_first_ends_it() -> None:
    groups = list(iter_groups(["a", "b", "c", "dddd", "e"], (lambda _: 1, 3), (len, 4)))
    assert groups == [["a", "b", "c"], ["dddd"], ["e"]]


def test_nothing_gives_no_group() -> None:
    assert list(iter_groups([], (len, 3))) == []
