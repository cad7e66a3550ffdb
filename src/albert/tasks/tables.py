"""User tables: columns, labels and examples.

Each task type has a `Columns` class that converts a row to an example. The functions at the end of the module
read values of a row and raise `BadRow` for invalid ones.
"""

import difflib
import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, BinaryIO, ClassVar, Generic, TypeVar

from albert.data.rows import BadRow, Problems, Row, Wanted, iter_good, iter_rows, quote
from albert.data.storage import PathOrUrl
from albert.errors import FileFormatError, suggest
from albert.settings import Settings
from albert.tasks.task import Example

MAX_LABELS = 1000  # more are probably numbers or texts
_MAX_SHOWN = 12
_INTEGER = re.compile(r"-?[0-9]{1,18}\.0+")
ExampleT_co = TypeVar("ExampleT_co", bound=Example, covariant=True)


@dataclass(frozen=True)
class Labels:
    """The names of labels; `names[i]` is output i of the model."""

    names: tuple[str, ...]

    @cached_property
    def _indices(self) -> dict[str, int]:
        indices = {name: index for index, name in enumerate(self.names)}
        for index, name in enumerate(self.names):
            indices.setdefault(normalize_label(name), index)
        return indices

    def index(self, name: str) -> int:
        """Return the index of a label; raise a fatal `BadRow` for an unknown one."""
        index = self._indices.get(name)
        if index is None:
            folded = {_fold(known): known for known in self.names}
            close = difflib.get_close_matches(_fold(name), folded, n=1, cutoff=0.8)
            hint = f"; did you mean {quote(folded[close[0]])}?" if close else ""
            known = ", ".join(self.names[:_MAX_SHOWN])
            more = f" and {len(self.names) - _MAX_SHOWN:,} more" if len(self.names) > _MAX_SHOWN else ""
            raise BadRow(f"unknown label {quote(name)}", f"known: {known}{more}{hint}", is_fatal=True)
        return index

    def find_alike(self) -> list[tuple[str, str]]:
        """Find pairs of names that differ only in case and white space."""
        first: dict[str, str] = {}
        pairs = ((first.setdefault(_fold(name), name), name) for name in self.names)
        return [pair for pair in pairs if pair[0] != pair[1]]


def _fold(name: str) -> str:
    return " ".join(name.casefold().split())


def normalize_label(name: str) -> str:
    """Normalize the spelling of numbers and booleans, which formats differ in: 1.0 → 1, True → true."""
    if name in ("True", "False"):
        return name.lower()
    return str(int(name.partition(".")[0])) if _INTEGER.fullmatch(name) else name


def build_labels(names: Iterable[str], *, source: str, minimum: int = 2) -> Labels:
    """Build the labels of a table: numbers sorted by value, then names in alphabetical order."""
    found = set(names)
    if len(found) < minimum:
        only = f"only the label {quote(next(iter(found)))}" if found else "no label"
        raise FileFormatError(
            f"{source}: has {only}, but at least {minimum} are needed. Check the label column."
        )
    if len(found) > MAX_LABELS:
        raise FileFormatError(
            f"{source}: has {len(found):,} different labels, but at most {MAX_LABELS:,} are supported. Use "
            "regression for numbers, or check the label column."
        )

    def sort_key(name: str) -> tuple[float, str]:
        try:
            number = float(name)
        except ValueError:
            return math.inf, name
        return (math.inf if math.isnan(number) else number), name

    return Labels(tuple(sorted(found, key=sort_key)))


class Columns(Settings):
    """The names of a table's columns; the base class of each task type's columns."""

    # How a .txt file is read: a text in each line, or words and labels in the CoNLL format.
    text_format: ClassVar[str] = "lines"

    def wanted(self, *, is_labeled: bool) -> Wanted:
        """Return the columns to read; those of the labels only if `is_labeled`."""
        raise NotImplementedError

    def find_wanted(self, *, is_labeled: bool) -> Wanted:
        """Return the columns to read with their keys, for the hint if one is missing."""
        keys: dict[str, str] = {}
        for key, names in self.model_dump().items():
            for name in names if isinstance(names, list | tuple) else [names]:
                keys.setdefault(name, key)
        return replace(self.wanted(is_labeled=is_labeled), keys=keys)

    def build(self, row: Row, labels: Labels | None, *, is_labeled: bool) -> Example:
        """Build the example of a row, with or without its label; raise `BadRow` if it is unusable."""
        raise NotImplementedError

    def note(self, example: Any, line: int, problems: Problems) -> None:
        """Count warnings about an example."""

    def list_labels(self, row: Row) -> Iterable[str]:
        """Return the names of a row's labels, if they have names."""
        return ()

    @property
    def min_labels(self) -> int:
        """How many different labels a table must have; 0 if labels have no names."""
        return 0


def select_columns(required: Iterable[str | None], optional: Iterable[str | None] = ()) -> Wanted:
    """Build the columns to read, without those that are None."""
    return Wanted(tuple(each for each in required if each is not None), tuple(filter(None, optional)))


@dataclass(frozen=True, slots=True)
class Numbered(Generic[ExampleT_co]):
    """An example and the line (in Parquet files the row) at which it starts, counted from 1."""

    line: int
    example: ExampleT_co


@dataclass(frozen=True)
class Table:
    """The examples of a table, its labels if they have names, and the problems of its rows."""

    examples: tuple[Example, ...]
    labels: Labels | None
    problems: Problems


def read_table(path: PathOrUrl, columns: Columns, *, labels: Labels | None = None) -> Table:
    """Read all labeled examples of a table.

    Args:
        path: The table.
        columns: The names of its columns.
        labels: The labels of the training data; by default those of the table.

    Raises:
        FileFormatError: If there are no examples, more than 10% of the rows are invalid, or a label is not
            in `labels`.
    """
    labels = labels or find_labels(path, columns)
    problems = Problems(str(path))
    numbered = list(iter_table(path, columns, problems=problems, labels=labels, is_labeled=True))
    problems.check(len(numbered))
    if getattr(columns, "id", None) is not None:
        seen: set[str] = set()
        for each in numbered:
            if each.example.id in seen:
                problems.note("an id that occurs before", line=each.line, detail=quote(each.example.id))
            seen.add(each.example.id)
    return Table(tuple(each.example for each in numbered), labels, problems)


def iter_table(
    source: PathOrUrl | BinaryIO,
    columns: Columns,
    *,
    problems: Problems,
    labels: Labels | None = None,
    is_labeled: bool = False,
    format: str | None = None,
) -> Iterator[Numbered[Example]]:
    """Yield the examples of a table or a stream; bad rows are skipped and counted."""

    def build(row: Row) -> Numbered[Example]:
        example = columns.build(row, labels, is_labeled=is_labeled)
        columns.note(example, row.line, problems)
        return Numbered(row.line, example)

    wanted = columns.find_wanted(is_labeled=is_labeled)
    rows = iter_rows(source, wanted=wanted, problems=problems, format=format)
    return iter_good(rows, build, problems=problems)


def find_labels(path: PathOrUrl, columns: Columns) -> Labels | None:
    """Find all labels of a table, sorted; None if labels have no names (numbers, answers, options)."""
    if not columns.min_labels:
        return None
    problems = Problems(str(path))  # not reported here, but when the examples are read
    rows = iter_rows(path, wanted=columns.find_wanted(is_labeled=True), problems=problems)
    names: set[str] = set()
    num_rows = 0
    for found in iter_good(rows, columns.list_labels, problems=problems):
        names.update(found)
        num_rows += 1
    problems.check(num_rows)
    return build_labels(names, source=str(path), minimum=columns.min_labels)


def check_named(
    columns: Columns, *, named: Collection[str], read: Sequence[Problems], is_labeled: bool = True
) -> None:
    """Raise `FileFormatError` if the user sets an optional column that none of the tables has.

    Args:
        columns: The names of the columns.
        named: The keys that the user set.
        read: The problems of the tables, which have their columns after reading.
        is_labeled: Whether the label columns were read.
    """
    optional = columns.wanted(is_labeled=is_labeled).optional
    found = list(dict.fromkeys(name for each in read for name in each.columns))
    for key in named:
        name = getattr(columns, key)
        if name in optional and name not in found:
            paths = dict.fromkeys(str(each.path) for each in read)
            hint = suggest(name, found, lead="columns:", more=f"; set columns.{key} to one, or remove it")
            raise FileFormatError(f"{' and '.join(paths)}: column {name!r} (columns.{key}) not found; {hint}")


def read_text(row: Row, column: str) -> str:
    """Read a text; it may be empty, but not missing."""
    value = row.values.get(column)
    if not isinstance(value, str):
        raise BadRow(f"no text in column {column!r}", f"it holds {describe_value(value)}")
    return value


def read_id(row: Row, column: str | None) -> str:
    """Read the id of a row, by default the number of its line."""
    value = row.values.get(column) if column is not None else row.line
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadRow(f"no id in column {column!r}", f"it holds {describe_value(value)}")
    return str(value)


def read_label(value: Any, column: str) -> str:
    """Read a label; numbers and booleans are spelled the same in every format."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_name = isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    name = str(value).strip() if is_name else ""  # empty cells are often nan
    if not name:
        raise BadRow(f"no label in column {column!r}", f"it holds {describe_value(value)}")
    return name


def read_number(row: Row, column: str) -> float:
    """Read a finite number, which may be a text."""
    value = row.values.get(column)
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise BadRow(f"no number in column {column!r}", f"it holds {describe_value(value)}")
    return number


def read_label_list(row: Row, column: str, *, separator: str | None) -> list[str]:
    """Read a list of labels, or a text with separators (None: white space)."""
    value = row.values.get(column)
    if isinstance(value, str):
        parts: list[Any] = value.split(separator)
        value = [part for part in parts if part.strip()]
    if not isinstance(value, list | tuple):
        raise BadRow(f"no list in column {column!r}", f"it holds {describe_value(value)}")
    return [normalize_label(read_label(each, column)) for each in value]


def read_text_list(row: Row, column: str) -> tuple[str, ...]:
    """Read a list of texts."""
    value = row.values.get(column)
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise BadRow(f"no list of texts in column {column!r}", f"it holds {describe_value(value)}")
    return tuple(value)


def describe_value(value: Any) -> str:
    """Describe the value of a cell for an error message."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int | float):
        return str(value)
    return "nothing" if value is None else f"a {type(value).__name__}"
