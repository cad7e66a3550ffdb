"""Read a user's own table: its examples, and the labels that occur in it."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Generic, TypeVar

from albert.data.paths import PathOrUrl
from albert.data.problems import Problems, iter_good, quote
from albert.data.rows import Row, iter_rows
from albert.errors import FileFormatError, suggest
from albert.settings import Settings
from albert.tasks.examples import Example, Numbered
from albert.tasks.labels import Labels, build_labels
from albert.tasks.readers.kinds import TableKind

C = TypeVar("C", bound=Settings)
E = TypeVar("E", bound=Example)


@dataclass(frozen=True)
class Table(Generic[E]):
    """The examples of a table, its labels if they have names, and what was wrong with its rows."""

    examples: tuple[E, ...]
    labels: Labels | None
    problems: Problems


def read_table(
    path: PathOrUrl,
    kind: TableKind[C, E],
    *,
    columns: C,
    labels: Labels | None = None,
    is_labelled: bool = True,
) -> Table[E]:
    """Read all examples of a table.

    Args:
        path: A CSV, TSV, JSON lines, Parquet or CoNLL file.
        kind: The task type.
        columns: The names of the columns.
        labels: The labels of the training data; by default, those that occur in the table.
        is_labelled: Whether labels are read.

    Raises:
        FileFormatError: If there are no examples, more than a tenth of the rows cannot be read, or a label
            is not among `labels`.
    """
    if is_labelled and labels is None:
        labels = find_labels(path, kind, columns=columns)
    problems = Problems(str(path))
    numbered = list(
        iter_table(path, kind, columns=columns, labels=labels, is_labelled=is_labelled, problems=problems)
    )
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
    kind: TableKind[C, E],
    *,
    columns: C,
    problems: Problems,
    labels: Labels | None = None,
    is_labelled: bool = False,
    format: str | None = None,
) -> Iterator[Numbered[E]]:
    """Yield the examples of a table or a stream, one at a time; bad rows are skipped and counted."""

    def build(row: Row) -> Numbered[E]:
        example = kind.build(row, columns, labels, is_labelled)
        kind.note(example, row.line, problems)
        return Numbered(row.line, example)

    wanted = kind.wanted(columns, is_labelled=is_labelled)
    rows = iter_rows(source, wanted=wanted, problems=problems, format=format)
    return iter_good(rows, build, problems=problems)


def check_named(
    columns: C,
    kind: TableKind[C, E],
    *,
    named: Collection[str],
    read: Sequence[Problems],
    is_labelled: bool = True,
) -> None:
    """Raise `FileFormatError` if the user names an optional column that none of the tables has.

    `named` are the keys that the user set, and `read` the tables, after reading: a column may be in only one
    of them.
    """
    optional = kind.wanted(columns, is_labelled=is_labelled).optional
    found = list(dict.fromkeys(name for each in read for name in each.columns))
    for key in named:
        name = getattr(columns, key)
        if name in optional and name not in found:
            paths = dict.fromkeys(str(each.path) for each in read)
            raise FileFormatError(
                f"{' and '.join(paths)}: no column {name!r}, which columns.{key} names; "
                f"{suggest(name, found, more=f'; name one of them, or leave columns.{key} out')}"
            )


def find_labels(path: PathOrUrl, kind: TableKind[C, E], *, columns: C) -> Labels | None:
    """Find all labels in a table, sorted; None for numbers, answers and options, which have no names."""
    least = kind.least_names(columns)
    if not least:
        return None
    quiet = Problems(str(path))  # bad rows are reported when the examples are read
    rows = iter_rows(path, wanted=kind.wanted(columns, is_labelled=True), problems=quiet)
    names = [set(found) for found in iter_good(rows, lambda row: kind.names(row, columns), problems=quiet)]
    quiet.check(len(names))
    return build_labels(set().union(*names), source=str(path), least=least)
