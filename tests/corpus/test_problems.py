"""What is wrong with rows: refused with the line, or counted and told."""

from dataclasses import dataclass

import pytest

from albert.data.problems import BadRow, Problems, iter_good, quote
from albert.errors import FileFormatError


@dataclass(frozen=True)
class Item:
    line: int
    value: int


def build(item: Item) -> int:
    if item.value < 0:
        raise BadRow("negative", f"{item.value}", is_fatal=item.value < -100)
    return item.value


def items(*values: int) -> list[Item]:
    return [Item(line, value) for line, value in enumerate(values, start=1)]


def test_a_bad_row_is_left_out_counted_and_told_with_the_first_of_its_kind():
    problems = Problems("data.csv")
    assert list(iter_good(items(1, -2, 3, -4), build, problems=problems)) == [1, 3]
    assert problems.num_skipped == 2
    assert problems.describe() == ["data.csv: left out 2 lines: negative (first in line 2: -2)"]


def test_a_strict_reader_and_a_mistake_in_the_whole_file_are_refused_at_once():
    with pytest.raises(FileFormatError, match="^data.csv: line 2: negative .-2.; mend it, or take it out$"):
        list(iter_good(items(1, -2), build, problems=Problems("data.csv", is_strict=True)))
    with pytest.raises(FileFormatError, match="^data.parquet: row 1: negative .-200."):
        list(iter_good(items(-200), build, problems=Problems("data.parquet")))


@pytest.mark.parametrize(
    ("num_good", "num_bad", "is_refused"), [(90, 10, False), (89, 11, True), (0, 0, True)]
)
def test_at_most_a_tenth_may_be_left_out(num_good, num_bad, is_refused):
    problems = Problems("data.csv")
    list(iter_good(items(*[-1] * num_bad), build, problems=problems))
    if is_refused:
        with pytest.raises(FileFormatError, match="^data.csv: (11 of 100 lines|holds no examples)"):
            problems.check(num_good)
    else:
        problems.check(num_good)


def test_a_long_text_is_quoted_in_part():
    assert quote("x" * 100_000) == repr("x" * 39 + "…")
    assert quote("short\n") == "'short\\n'"
