"""A GLUE file in its official format comes in, its examples go out."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from albert.tasks.catalogue import Task
from albert.tasks.examples import Numbered, TextExample
from albert.tasks.problems import Problems, iter_good
from albert.tasks.readers.columns import TextColumns
from albert.tasks.readers.kinds import TEXTS, build_text, note_empty_text
from albert.tasks.readers.lines import iter_lines
from albert.tasks.readers.rows import Row, check_columns, iter_fields, read_header

ID_COLUMNS = ("index", "id")


def iter_glue(
    path: Path, task: Task, *, split: str, problems: Problems, is_labelled: bool = True
) -> Iterator[Numbered[TextExample]]:
    """The examples of a split; a test file may have no labels, and every row of the others must have one.

    Quotes are plain characters, columns are found by name, and an empty text stays: the official scores count
    it. A row is called by its index, or by its place from 0 where the file gives none. Without `is_labelled`,
    as for prediction, a column of labels need not be there and is not read.
    """
    lines = iter_lines(path, problems=problems)
    is_headless = split in task.headless
    header = list(task.header) if is_headless else read_header(lines, problems=problems)
    has_labels = is_labelled and (task.label in header or not split.startswith("test"))
    columns = _find_columns(task, header)
    wanted = TEXTS.wanted(columns, is_labelled=has_labels)
    check_columns(header, wanted, path=path, cure=f"give the official file of {task.name}")
    first_line = 1 if is_headless else 2

    def build(row: Row) -> Numbered[TextExample]:
        example = build_text(row, columns, task.labels, has_labels)
        if columns.id is None:
            example = replace(example, id=str(row.line - first_line))
        note_empty_text(example, row.line, problems)
        return Numbered(row.line, example)

    return iter_good(iter_fields(lines, header=header, problems=problems), build, problems=problems)


def _find_columns(task: Task, header: Sequence[str]) -> TextColumns:
    return TextColumns(
        text=task.first,
        text_pair=task.second,
        label=task.label,
        label_kind="one" if task.labels else "number",
        id=next((name for name in ID_COLUMNS if name in header), None),
    )
