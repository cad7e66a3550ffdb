"""Contents: what would go wrong in a file is refused where it is built, since it is our own mistake."""

import pytest

from albert.report.content import Cell, Chart, Column, Page, Section, Series, Table


def make_page(*names):
    return Page("A", "b", [Section("C", tables=[Table(name, [], []) for name in names])])


def test_names_are_names_of_files_each_once():
    make_page("table-4", "Table_4.b", "t")
    for name in ("", "../up", "a/b", ".hidden", "with space", "ü", "x" * 81):
        with pytest.raises(AssertionError, match="cannot name a file"):
            make_page(name)
    with pytest.raises(AssertionError, match="two of one name"):
        make_page("scores", "Scores")  # one file on many systems


def test_rows_have_a_cell_for_each_column():
    with pytest.raises(AssertionError, match="rows of other lengths"):
        Table("t", [Column("a"), Column("b")], [[Cell("1")]])


def test_a_series_has_a_number_and_both_ends_for_each_x():
    with pytest.raises(AssertionError, match="not one number for each x"):
        Series("s", [1, 2], [1.0])
    with pytest.raises(AssertionError, match="intervals with one end"):
        Series("s", [1], [1.0], lows=[0.5])


def test_an_x_is_the_place_of_a_name():
    with pytest.raises(AssertionError, match="has no name"):
        Chart("c", "", "", "", [Series("s", [1, 2], [1.0, 2.0])], kind="points", x_names=["one", "two"])
