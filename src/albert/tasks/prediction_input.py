"""Where a task's questions are comes in: a table, a stream, a split; examples go out one at a time."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from albert.data.decompress import is_compressed
from albert.data.remote import Place, is_url, to_path
from albert.errors import FileFormatError, InputError
from albert.tasks.assignment import build_columns
from albert.tasks.catalogue import Task, find_split
from albert.tasks.evaluation_goal import Goal
from albert.tasks.examples import Example, Numbered
from albert.tasks.own_tasks import OWN_TASKS, OwnTask
from albert.tasks.problems import Problems
from albert.tasks.readers.glue import iter_glue
from albert.tasks.readers.race import iter_race
from albert.tasks.readers.rows import find_format
from albert.tasks.readers.squad import iter_squad
from albert.tasks.readers.table import check_named, iter_table

SPLIT = "test"
_TABLES = {"texts": "classification", "spans": "questions", "choices": "choice"}
# Of files without a header, the columns whose names are fixed.
_FIXED: Mapping[str, Mapping[str, Any]] = {
    "lines": {"id": None},
    **{format: {"words": "words", "id": None} for format in ("conll", "bio", "txt")},
}


@dataclass(frozen=True)
class PredictionInput:
    """Questions in their order. Those without a name of their own are called by their line.

    Of a stream that `is_live` the next may be long in coming. `find_share` tells how much of a file is read.
    """

    examples: Iterator[Numbered[Example]]
    problems: Problems
    has_names: bool
    is_live: bool = False
    find_share: Callable[[], float] | None = None


@dataclass(frozen=True)
class Stream:
    """An open stream, such as standard input, what to call it, and its size where that is known."""

    file: BinaryIO
    name: str = "standard input"
    is_live: bool = True
    num_bytes: int = 0


def open_input(
    source: Place | Stream,
    goal: Goal,
    *,
    columns: Mapping[str, Any],
    named: Collection[str] = (),
    split: str | None = None,
    format: str | None = None,
) -> PredictionInput:
    """The examples of a table, of a stream, or of a split of a published task in its own folder and format.

    `columns` names the columns of a table; those whose keys are `named` are the user's own words, and must be
    there. Of a test every row is answered or refused; else rows that are broken are left out and counted.
    Labels are not needed, and not read; nor are the answers of SQuAD and RACE needed, but those that a file
    has must be in order.
    """
    if split is not None and (isinstance(source, Stream) or is_url(source)):
        raise InputError(f"--split {split}: only the folder of a task has splits; leave it out")
    if isinstance(source, Stream):
        return _open_table(source, goal, columns=columns, named=named, format=format or "jsonl")
    if is_url(source):
        return _open_table(source, goal, columns=columns, named=named, format=format)
    path = to_path(source)
    if not path.exists():
        raise FileFormatError(
            f"{path}: does not exist; give a table, a folder of the task, or - for a stream"
        )
    official = None if columns or format else _find_official(path, goal, split=split)
    if official is not None:
        return official
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give a table, such as {path / 'test.jsonl'}")
    if split is not None:
        raise InputError(f"--split {split}: {path} is one file; leave it out, or give the folder of the task")
    if not path.is_file():  # a named pipe
        stream = Stream(path.open("rb", buffering=0), name=str(path))
        return _open_table(
            stream, goal, columns=columns, named=named, format=format or find_format(path) or "jsonl"
        )
    if is_compressed(path) or (format or find_format(path)) == "parquet":
        return _open_table(path, goal, columns=columns, named=named, format=format)
    file = Stream(path.open("rb"), name=str(path), is_live=False, num_bytes=path.stat().st_size)
    return _open_table(file, goal, columns=columns, named=named, format=format)


def _open_table(
    source: Place | Stream,
    goal: Goal,
    *,
    columns: Mapping[str, Any],
    named: Collection[str],
    format: str | None,
) -> PredictionInput:
    name, content = (source.name, source.file) if isinstance(source, Stream) else (str(source), source)
    format = format or find_format(name)
    if format == "txt" and goal.facts.kind == "texts":
        format = "lines"  # where words are not asked for, a text file is no CoNLL
    own, defaults = _find_table(goal)
    names = build_columns(own, {**defaults, **columns, **_list_fixed(own, format)})
    problems = Problems(name)
    found = iter_table(content, own.table, columns=names, problems=problems, format=format)
    check = partial(check_named, names, own.table, named=named, read=[problems], is_labelled=False)
    examples = _iter_checked(found, check, has_header=format != "jsonl")
    has_names = names.model_dump()["id"] is not None
    if not isinstance(source, Stream):
        return PredictionInput(examples, problems, has_names)
    file, size = source.file, source.num_bytes
    share = (lambda: file.tell() / size) if size else None
    return PredictionInput(examples, problems, has_names, source.is_live, share)


def _iter_checked(
    found: Iterator[Numbered[Any]], check: Callable[[], None], *, has_header: bool
) -> Iterator[Numbered[Any]]:
    """The examples; columns are checked by a header, or else once all rows have told theirs."""
    number = 0
    for number, example in enumerate(found, start=1):
        if number == 1 and has_header:
            check()
        yield example
    if number:
        check()


def _find_table(goal: Goal) -> tuple[OwnTask, dict[str, Any]]:
    """How a table of a task is read; of GLUE, by the names that its files have."""
    if goal.own is not None:
        return goal.own, {}
    assert goal.published is not None
    task = goal.published
    own = OWN_TASKS[_TABLES[task.kind]]
    return own, {"text": task.first, "text_pair": task.second} if task.kind == "texts" else {}


def _list_fixed(own: OwnTask, format: str) -> dict[str, Any]:
    return {key: value for key, value in _FIXED.get(format, {}).items() if key in own.columns.model_fields}


def _find_official(path: Path, goal: Goal, *, split: str | None) -> PredictionInput | None:
    """A split of a published task: in its folder, or as a file that has the name of one."""
    task = goal.published
    if task is None:
        return None
    if path.is_dir():
        return _open_split(task, find_split(task, path, split=split or SPLIT), split=split or SPLIT)
    named = next((name for name, file in task.files.items() if file == path.name), None)
    if named is not None and split not in (None, named):
        raise InputError(f"--split {split}: {path} is the split {named}; leave it out, or give the folder")
    if named is None and path.suffix == ".json":
        named = split or SPLIT  # SQuAD's format under another name
    return None if named is None else _open_split(task, path, split=named)


def _open_split(task: Task, path: Path, *, split: str) -> PredictionInput:
    problems = Problems(
        path, unit="line" if task.kind == "texts" else "question", is_strict=split.startswith(SPLIT)
    )
    open_: dict[str, Callable[[], Iterator[Numbered[Any]]]] = {
        "texts": lambda: iter_glue(path, task, split=split, problems=problems, is_labelled=False),
        "spans": lambda: iter_squad(path, has_impossible=True, problems=problems),
        "choices": lambda: iter_race(path, problems=problems),
    }
    return PredictionInput(open_[task.kind](), problems, has_names=True)
