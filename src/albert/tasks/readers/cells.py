"""A row comes in; the text, label, number or list in one of its cells goes out, or a `BadRow`."""

import math
from typing import Any

from albert.tasks.labels import plain_label
from albert.tasks.problems import BadRow, quote
from albert.tasks.readers.rows import Row


def read_text(row: Row, column: str) -> str:
    """A cell that holds text; an empty text is one, a missing value is none."""
    value = row.values.get(column)
    if not isinstance(value, str):
        raise BadRow(f"no text in column {column!r}", f"it holds {_describe(value)}")
    return value


def read_id(row: Row, column: str | None) -> str:
    """The cell that names the row, or else the number of its line."""
    value = row.values.get(column) if column is not None else row.line
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadRow(f"no name in column {column!r}", f"it holds {_describe(value)}")
    return str(value)


def read_label(row: Row, column: str) -> str:
    """The name of a label in every format: 1, 1.0, "1" and "1.0" are the same, True and "True" are `true`."""
    return plain_label(read_name(row.values.get(column), column))


def read_name(value: Any, column: str) -> str:
    """A label as it is written; a number or truth value as every format calls it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_name = isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    name = str(value).strip() if is_name else ""  # many tables write nan for a cell that is empty
    if not name:
        raise BadRow(f"no label in column {column!r}", f"it holds {_describe(value)}")
    return name


def read_number(row: Row, column: str) -> float:
    """A cell that holds a finite number, or the text of one."""
    value = row.values.get(column)
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise BadRow(f"no number in column {column!r}", f"it holds {_describe(value)}")
    return number


def read_several(row: Row, column: str, *, separator: str | None) -> list[str]:
    """The names of several labels, or none; in a text, the separator or else white space is between them."""
    value = row.values.get(column)
    if isinstance(value, str):
        parts: list[Any] = value.split(separator)
        value = [part for part in parts if part.strip()]
    if not isinstance(value, list | tuple):
        raise BadRow(f"no list in column {column!r}", f"it holds {_describe(value)}")
    return [plain_label(read_name(each, column)) for each in value]


def read_texts(row: Row, column: str) -> tuple[str, ...]:
    """A cell that holds a list of texts."""
    value = row.values.get(column)
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise BadRow(f"no list of texts in column {column!r}", f"it holds {_describe(value)}")
    return tuple(value)


def read_words(row: Row, column: str) -> tuple[str, ...]:
    """A list of words, or a text with white space between them."""
    value = row.values.get(column)
    return tuple(value.split()) if isinstance(value, str) else read_texts(row, column)


def _describe(value: Any) -> str:
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int | float):
        return str(value)
    return "nothing" if value is None else f"a {type(value).__name__}"
