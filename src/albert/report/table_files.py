"""Tables come in; CSV goes out that a spreadsheet opens and never runs."""

import csv
import io
import math
from collections.abc import Callable, Sequence

from albert.report.content import Cell, Table
from albert.report.markup import clean_text

# The numbers behind a column's texts, each in a column of its own where a cell has one.
_NUMBERS: tuple[tuple[str, Callable[[Cell], float | None]], ...] = (
    ("value", lambda cell: cell.value),
    ("low", lambda cell: cell.low),
    ("high", lambda cell: cell.high),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")


def format_csv(table: Table) -> str:
    """A table's texts, each column followed by the numbers behind it."""
    head: list[str] = []
    columns: list[list[str]] = []
    for place, column in enumerate(table.columns):
        cells = [row[place] for row in table.rows]
        head.append(_guard(column.name))
        columns.append([_guard(cell.text) for cell in cells])
        for name, read in _NUMBERS:
            numbers = [read(cell) for cell in cells]
            if any(number is not None for number in numbers):
                head.append(_guard(f"{column.name} {name}"))
                columns.append(_format_numbers(numbers))
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([head, *zip(*columns, strict=True)])
    return file.getvalue()


def _format_numbers(numbers: Sequence[float | None]) -> list[str]:
    found = [math.nan if number is None else float(number) for number in numbers]
    return ["" if math.isnan(each) else f"{each:.0f}" if each.is_integer() else repr(each) for each in found]


def _guard(text: str) -> str:
    """A text that is no formula: a quotation mark goes before what would begin one, if it is no number."""
    text = clean_text(text)
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
