"""Open the input of a prediction: a table, a stream or a split of a published task, one example at a time."""

import queue
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from albert.data.rows import Problems, find_format
from albert.data.storage import PathOrUrl, is_compressed, is_url, to_path
from albert.errors import FileFormatError, InputError
from albert.tasks.assignment import build_columns
from albert.tasks.catalogue import OWN_TASKS, OwnTask, find_split
from albert.tasks.evaluation_goal import Goal
from albert.tasks.examples import Example, Numbered
from albert.tasks.readers.published import iter_split, open_problems
from albert.tasks.readers.table import check_named, iter_table

SPLIT = "test"
T = TypeVar("T")
_TABLES = {"texts": "classification", "spans": "questions", "choices": "choice"}
# The names of columns in files without a header.
_FIXED: Mapping[str, Mapping[str, Any]] = {
    "lines": {"id": None},
    **{format: {"words": "words", "id": None} for format in ("conll", "bio", "txt")},
}
_MAX_WAITING = 512  # items that are read ahead


@dataclass(frozen=True)
class PredictionInput:
    """Examples in their order; without `has_names`, they are identified by their line.

    If `is_live`, the next example may arrive late. `find_share` returns the share of a file that was read.
    """

    examples: Iterator[Numbered[Example]]
    problems: Problems
    has_names: bool
    is_live: bool = False
    find_share: Callable[[], float] | None = None


@dataclass(frozen=True)
class Stream:
    """An open stream, such as standard input, its name in messages, and its size if it is known."""

    file: BinaryIO
    name: str = "standard input"
    is_live: bool = True
    num_bytes: int = 0


def open_input(
    source: PathOrUrl | Stream,
    goal: Goal,
    *,
    columns: Mapping[str, Any],
    named: Collection[str] = (),
    split: str | None = None,
    format: str | None = None,
) -> PredictionInput:
    """Open a table, a stream, or a split (by default `test`) of a published task in its own format.

    Labels are not needed and not read; the answers of SQuAD and RACE are not needed, but those that a file
    has must be valid. Broken rows are skipped and counted, or raise an error in a test set, whose every row
    must be answered. `named` are the keys of `columns` that the user set: the table must have these columns.
    """
    if split is not None and (isinstance(source, Stream) or is_url(source)):
        raise InputError(f"--split {split}: only the folder of a task has splits; leave it out")
    open_table = partial(_open_table, goal=goal, columns=columns, named=named)
    if isinstance(source, Stream):
        return open_table(source, format=format or "jsonl")
    if is_url(source):
        return open_table(source, format=format)
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
        return open_table(stream, format=format or find_format(path) or "jsonl")
    if is_compressed(path) or (format or find_format(path)) == "parquet":
        return open_table(path, format=format)
    file = Stream(path.open("rb"), name=str(path), is_live=False, num_bytes=path.stat().st_size)
    return open_table(file, format=format)


def _open_table(
    source: PathOrUrl | Stream,
    *,
    goal: Goal,
    columns: Mapping[str, Any],
    named: Collection[str],
    format: str | None,
) -> PredictionInput:
    name, content = (source.name, source.file) if isinstance(source, Stream) else (str(source), source)
    format = format or find_format(name)
    if format == "txt" and goal.facts.kind == "texts":
        format = "lines"  # only for token classification is a text file in CoNLL format
    own, defaults = _find_table(goal)
    fixed = {key: value for key, value in _FIXED.get(format, {}).items() if key in own.columns.model_fields}
    names = build_columns(own, {**defaults, **columns, **fixed})
    problems = Problems(name)
    found = iter_table(content, names, problems=problems, format=format)
    check = partial(check_named, names, named=named, read=[problems], is_labelled=False)
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
    """Check the columns at the first example, or without a header once all rows were read."""
    number = 0
    for number, example in enumerate(found, start=1):
        if number == 1 and has_header:
            check()
        yield example
    if number:
        check()


def _find_table(goal: Goal) -> tuple[OwnTask, dict[str, Any]]:
    """Return how a table of a task is read; for GLUE, with the column names of its files."""
    if goal.own is not None:
        return goal.own, {}
    assert goal.published is not None
    task = goal.published
    own = OWN_TASKS[_TABLES[task.kind]]
    return own, {"text": task.first, "text_pair": task.second} if task.kind == "texts" else {}


def _find_official(path: Path, goal: Goal, *, split: str | None) -> PredictionInput | None:
    """Open a split of a published task, by its folder or by the name of its file."""
    task = goal.published
    if task is None:
        return None
    if path.is_dir():
        named: str | None = split or SPLIT
        path = find_split(task, path, split=split or SPLIT)
    else:
        named = next((name for name, file in task.files.items() if file == path.name), None)
        if named is not None and split not in (None, named):
            raise InputError(
                f"--split {split}: {path} is the split {named}; leave it out, or give the folder"
            )
        if named is None and path.suffix == ".json":
            named = split or SPLIT  # SQuAD's format under another name
    if named is None:
        return None
    problems = open_problems(task, path, split=named)
    examples = iter_split(task, path, split=named, problems=problems, is_labelled=False)
    return PredictionInput(examples, problems, has_names=True)


def iter_arrived(
    items: Iterable[T], *, count_characters: Callable[[T], int], max_items: int, max_characters: int
) -> Iterator[list[T]]:
    """Yield lists of all items that have arrived, at least one each, without waiting for more.

    A thread reads the items a few ahead. An error there is raised here, after the items before it.
    """
    waiting: queue.Queue[Any] = queue.Queue(_MAX_WAITING)
    end = object()
    errors: list[BaseException] = []
    is_over = threading.Event()

    def fill() -> None:
        try:
            for item in items:
                waiting.put(item)
                if is_over.is_set():
                    return
        except BaseException as error:
            errors.append(error)
        waiting.put(end)

    # A daemon: a program that ends does not wait for a pipe on which nothing arrives.
    threading.Thread(target=fill, daemon=True).start()
    try:
        found = None
        while found is not end:
            group: list[T] = []
            num_characters = 0
            while (found := waiting.get()) is not end:
                group.append(found)
                num_characters += count_characters(found)
                if len(group) == max_items or num_characters >= max_characters or waiting.empty():
                    break
            if group:
                yield group
        if errors:
            raise errors[0]
    finally:
        is_over.set()
        while not waiting.empty():  # makes room for the item that the thread may be about to put
            waiting.get()
