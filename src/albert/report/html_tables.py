"""Tables come in; HTML goes out that scrolls by itself where it is wide and can be put in order."""

import math
from collections.abc import Sequence

from albert.report.content import Cell, Column, Table
from albert.report.markup import Html, join, tag

MISSING = "–"


def build_table(
    head: Sequence[str], rows: Sequence[Html], *, is_numeric: bool = False, class_: str | None = None
) -> Html:
    """A table of ready rows; with `is_numeric` all columns but the first. A head may be markup of its own."""
    cells = [
        name if isinstance(name, Html)
        else tag("th", name, class_="number" if is_numeric and place else None, scope="col")
        for place, name in enumerate(head)
    ]  # fmt: skip
    top = tag("thead", tag("tr", *cells)) if any(head) else Html("")
    return tag("div", tag("table", top, tag("tbody", *rows), class_=class_), class_="wide")


def show_table(table: Table) -> Html:
    """Its rows, which can be sorted by each column, what its columns say, and its note."""
    heads = [_show_head(column) for column in table.columns]
    rows = [
        _show_row(row, columns=table.columns, is_strong=place in table.strong_rows)
        for place, row in enumerate(table.rows)
    ]
    note = tag("p", table.note, class_="note") if table.note else ""
    return join(build_table(heads, rows, class_="sortable"), note, _show_hints(table.columns))


def _show_head(column: Column) -> Html:
    return tag(
        "th",
        column.name,
        scope="col",
        class_="number" if column.is_number else None,
        title=column.hint or None,
    )


def _show_row(row: Sequence[Cell], *, columns: Sequence[Column], is_strong: bool) -> Html:
    pairs = enumerate(zip(row, columns, strict=True))
    cells = [_show_cell(cell, column, is_first=not place) for place, (cell, column) in pairs]
    return tag("tr", *cells, class_="whole" if is_strong else None)


def _show_cell(cell: Cell, column: Column, *, is_first: bool) -> Html:
    """A cell with the number that it is sorted by; the first of a row names it, if it is no number."""
    is_name = is_first and not column.is_number
    return tag(
        "th" if is_name else "td",
        cell.text or MISSING,
        class_="number" if column.is_number else None,
        scope="row" if is_name else None,
        data_value=_format_key(cell.value),
        data_missing=_is_missing(cell),
        title=_tell_interval(cell),
    )


def _is_missing(cell: Cell) -> bool:
    return cell.text in ("", MISSING) if cell.value is None else math.isnan(cell.value)


def _format_key(value: float | None) -> str | None:
    """A number as JavaScript reads it."""
    if value is None or math.isnan(value):
        return None
    return repr(float(value)).replace("inf", "Infinity")


def _tell_interval(cell: Cell) -> str | None:
    if cell.low is None or cell.high is None:
        return None
    return f"from {cell.low:.4g} to {cell.high:.4g}"


def _show_hints(columns: Sequence[Column]) -> Html:
    """What the columns say, for those who have no pointer to rest on a head."""
    hints = [join(tag("dt", column.name), tag("dd", column.hint)) for column in columns if column.hint]
    if not hints:
        return Html("")
    summary = tag("summary", "What the columns say")
    return tag("details", summary, tag("dl", *hints), class_="hints")
