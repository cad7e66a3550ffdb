"""Names of tables and charts, and the format of cells."""

import pytest

from albert.report.content import Cell, Page, Section, Table


@pytest.mark.parametrize(
    ("names", "is_valid"),
    [(("table-4", "Table_4.b", "t"), True), (("scores", "Scores"), False),
     *(((name,), False) for name in ("", "../up", "a/b", ".hidden", "with space", "x" * 81))],
)  # fmt: skip
def test_names_are_unique_file_names(names, is_valid):
    sections = [Section("C", tables=[Table(name, [], []) for name in names])]
    if is_valid:
        Page("A", "b", sections)
    else:
        with pytest.raises(AssertionError):
            Page("A", "b", sections)


def test_a_number_is_formatted_or_missing():
    assert Cell.number(1234) == Cell("1,234", 1234.0)
    assert Cell.number(0.5, "+.2f", low=0.1, high=0.9, more=" ms") == Cell("+0.50 ms", 0.5, 0.1, 0.9)
    assert Cell.number(None, ".2f") == Cell("")
    missing = [Cell(""), Cell("–"), Cell("nan", float("nan")), Cell("0", 0.0), Cell("text")]
    assert [cell.is_missing for cell in missing] == [True, True, True, False, False]
