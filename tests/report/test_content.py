"""Contents that could not be written are rejected when they are built."""

import pytest

from albert.report.content import Cell, Page, Section, Table


def make_page(*names):
    return Page("A", "b", [Section("C", tables=[Table(name, [], []) for name in names])])


def test_names_are_file_names_and_unique():
    make_page("table-4", "Table_4.b", "t")
    for name in ("", "../up", "a/b", ".hidden", "with space", "x" * 81):
        with pytest.raises(AssertionError, match="not file names"):
            make_page(name)
    with pytest.raises(AssertionError, match="duplicate names"):
        make_page("scores", "Scores")  # one file on many systems


def test_a_number_is_formatted_or_missing():
    assert Cell.number(1234) == Cell("1,234", 1234.0)
    assert Cell.number(0.5, "+.2f", low=0.1, high=0.9, more=" ms") == Cell("+0.50 ms", 0.5, 0.1, 0.9)
    assert Cell.number(None, ".2f") == Cell("")
    missing = [Cell(""), Cell("–"), Cell("nan", float("nan")), Cell("0", 0.0), Cell("text")]
    assert [cell.is_missing for cell in missing] == [True, True, True, False, False]
