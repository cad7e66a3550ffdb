"""Read a user's own table: its examples, and the labels that occur in it."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from albert.data.rows import Problems, Row, iter_good, iter_rows, quote
from albert.data.storage import PathOrUrl
from albert.errors import FileFormatError, suggest
from albert.tasks.examples import Numbered
from albert.tasks.labels import Labels, build_labels
from albert.tasks.readers.columns import Columns


@dataclass(frozen=True)
class Table:
    """The examples of a table, its labels if they have names, and what was wrong with its rows."""

    examples: tuple[Any, ...]
    labels: Labels | None
    problems: Problems


def read_table(
    path: PathOrUrl,
    columns: Columns,
    *,
    labels: Labels | None = None,
    is_labelled: bool = True,
    check: Callable[[Any], None] | None = None,
) -> Table:
    """Read all examples of a table; `check` may raise `BadRow` for an example.

    Without `labels`, those of the training data, the labels are found in the table. Raise `FileFormatError`
    if there are no examples, more than a tenth of the rows cannot be read, or a label is not among `labels`.
    """
    if is_labelled and labels is None:
        labels = find_labels(path, columns)
    problems = Problems(str(path))
    found = iter_table(path, columns, problems=problems, labels=labels, is_labelled=is_labelled, check=check)
    numbered = list(found)
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
    is_labelled: bool = False,
    format: str | None = None,
    check: Callable[[Any], None] | None = None,
) -> Iterator[Numbered[Any]]:
    """Yield the examples of a table or a stream, one at a time; bad rows are skipped and counted."""

    def build(row: Row) -> Numbered[Any]:
        example = columns.build(row, labels, is_labelled=is_labelled)
        if check is not None:
            check(example)
        columns.note(example, row.line, problems)
        return Numbered(row.line, example)

    wanted = columns.wanted(is_labelled=is_labelled)
    rows = iter_rows(source, wanted=wanted, problems=problems, format=format)
    return iter_good(rows, build, problems=problems)


def check_named(
    columns: Columns, *, named: Collection[str], read: Sequence[Problems], is_labelled: bool = True
) -> None:
    """Raise `FileFormatError` if the user names an optional column that none of the tables has.

    `named` are the keys that the user set, and `read` the tables, after reading: a column may be in only one
    of them.
    """
    optional = columns.wanted(is_labelled=is_labelled).optional
    found = list(dict.fromkeys(name for each in read for name in each.columns))
    for key in named:
        name = getattr(columns, key)
        if name in optional and name not in found:
            paths = dict.fromkeys(str(each.path) for each in read)
            raise FileFormatError(
                f"{' and '.join(paths)}: no column {name!r}, which columns.{key} names; "
                f"{suggest(name, found, more=f'; name one of them, or leave columns.{key} out')}"
            )


def find_labels(path: PathOrUrl, columns: Columns) -> Labels | None:
    """Find all labels in a table, sorted; None for numbers, answers and options, which have no names."""
    if not columns.least_labels:
        return None
    quiet = Problems(str(path))  # bad rows are reported when the examples are read
    rows = iter_rows(path, wanted=columns.wanted(is_labelled=True), problems=quiet)
    names: set[str] = set()
    num_rows = 0
    for found in iter_good(rows, columns.list_labels, problems=quiet):
        names.update(found)
        num_rows += 1
    quiet.check(num_rows)
    return build_labels(names, source=str(path), least=columns.least_labels)
