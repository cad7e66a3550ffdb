"""A user's own table and the names of its columns come in; examples and the labels that were found go out."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Generic, TypeVar

from albert.data.remote import Place
from albert.errors import FileFormatError, suggest
from albert.settings import Settings
from albert.tasks.examples import Example, Numbered
from albert.tasks.labels import Labels, build_labels
from albert.tasks.problems import Problems, iter_good, quote
from albert.tasks.readers.kinds import TableKind
from albert.tasks.readers.rows import Row, iter_rows

C = TypeVar("C", bound=Settings)
E = TypeVar("E", bound=Example)


@dataclass(frozen=True)
class Table(Generic[E]):
    """A whole table: its examples, its labels where they have names, and what was wrong with its rows."""

    examples: tuple[E, ...]
    labels: Labels | None
    problems: Problems


def read_table(
    path: Place,
    kind: TableKind[C, E],
    *,
    columns: C,
    labels: Labels | None = None,
    is_labelled: bool = True,
) -> Table[E]:
    """All examples of a table; without `labels` they are found in it, as for training.

    With the labels of the training data, one that it lacks is an error. Refused as well: a table without
    examples, and one of which more than a tenth cannot be read.
    """
    if is_labelled and labels is None:
        labels = find_labels(path, kind, columns=columns)
    problems = Problems(str(path))
    found = iter_table(path, kind, columns=columns, labels=labels, is_labelled=is_labelled, problems=problems)
    numbered = list(found)
    problems.check(len(numbered))
    if getattr(columns, "id", None) is not None:
        _note_repeated(numbered, problems)
    return Table(tuple(each.example for each in numbered), labels, problems)


def _note_repeated(numbered: Iterable[Numbered[E]], problems: Problems) -> None:
    """Count ids that more than one row has: their answers cannot be told apart by them."""
    seen: set[str] = set()
    for each in numbered:
        if each.example.id in seen:
            problems.note("an id that occurs before", line=each.line, detail=quote(each.example.id))
        seen.add(each.example.id)


def iter_table(
    source: Place | BinaryIO,
    kind: TableKind[C, E],
    *,
    columns: C,
    problems: Problems,
    labels: Labels | None = None,
    is_labelled: bool = False,
    format: str | None = None,
) -> Iterator[Numbered[E]]:
    """Examples one at a time, from a table or a stream of any size; bad rows are left out and counted."""

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
    """Refuse a column that a user names and none of the tables has, though they could do without it.

    `named` are the user's keys: what has its usual name, or a model's, is read where a table has it. `read`
    are the tables, which are read by then: a column may be in one of them alone.
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


def find_labels(path: Place, kind: TableKind[C, E], *, columns: C) -> Labels | None:
    """The names of all labels in a table, in an order that does not depend on that of its rows.

    None where the labels have no names: numbers, answers and options.
    """
    least = kind.least_names(columns)
    if not least:
        return None
    quiet = Problems(str(path))  # what is left out here is counted when the examples are read
    rows = iter_rows(path, wanted=kind.wanted(columns, is_labelled=True), problems=quiet)
    names: set[str] = set()
    num_rows = 0
    for found in iter_good(rows, lambda row: kind.names(row, columns), problems=quiet):
        names.update(found)
        num_rows += 1
    quiet.check(num_rows)
    return build_labels(names, source=str(path), least=least)
