"""Tables as CSV: the numbers behind the texts, for programs; nothing that a spreadsheet would run."""

import csv
import io

import pytest
from albert.report.table_files import format_csv

from albert.report.content import Cell, Column, Table
from tests.report.samples import SCORES


def read_csv(table):
    return list(csv.reader(io.StringIO(format_csv(table))))


def test_numbers_stand_beside_their_texts():
    rows = read_csv(SCORES)
    assert rows[0] == [
        "arm", "parameters", "parameters value", "average", "average value", "average low", "average high",
        "difference", "difference value", "difference low", "difference high", "p", "p value", "the paper",
        "the paper value",
    ]  # fmt: skip
    assert rows[3] == [
        "all, E = 128", "11.7M", "11700000", "60.10 ± 1.15", "60.1", "59", "61.3", "'-2.20 (-3.40 … -1.00)",
        "-2.2", "-3.4", "-1", "0.008", "0.008", "80.1", "80.1",
    ]  # fmt: skip
    assert rows[1][7:11] == ["–", "", "", ""]


@pytest.mark.parametrize("text", ['say "no"', "a,b", "two\nlines", " spaced ", "ünïcode"])
def test_a_text_comes_back_as_it_was(text):
    assert read_csv(Table("t", [Column(text)], [[Cell(text)]])) == [[text], [text]]


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "＝1"])
def test_no_text_becomes_a_formula(text):
    rows = read_csv(Table("t", [Column(text)], [[Cell(text)]]))
    assert rows == [[f"'{text}"], [f"'{text}"]]


def test_a_number_is_no_formula():
    assert read_csv(Table("t", [Column("a")], [[Cell("-0.31")], [Cell("+2")]]))[1:] == [["-0.31"], ["+2"]]


def test_a_figure_that_is_no_number_is_missing():
    rows = read_csv(Table("t", [Column("a")], [[Cell("diverged", float("nan"))], [Cell("1", 1)]]))
    assert rows == [["a", "a value"], ["diverged", ""], ["1", "1"]]
