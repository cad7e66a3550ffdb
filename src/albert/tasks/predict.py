"""Predict with fine-tuned models: one line of JSON for each example of a table, a stream or a split."""

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import Field

from albert.data.rows import Problems, find_format
from albert.data.storage import PathOrUrl, is_compressed, is_url, to_path
from albert.errors import FileFormatError, InputError
from albert.files import dump_json, open_output
from albert.model.runtime import RuntimeSettings
from albert.progress import NullReporter, Reporter
from albert.settings import Settings
from albert.tasks.catalogue import (
    TABLE_TASKS,
    PublishedTask,
    TableTask,
    TaskDefinition,
    build_task,
    find_task,
)
from albert.tasks.ensemble import Member, merge_answers, merge_configs, open_members
from albert.tasks.models import FinetunedModel
from albert.tasks.sequences import iter_groups
from albert.tasks.tables import Numbered, check_named, iter_table
from albert.tasks.task import AnyTask, Example

T = TypeVar("T")
# Predicted at a time: enough to sort by length.
MAX_EXAMPLES = 2048
MAX_CHARACTERS = 1 << 22
SILENT_SECONDS = 2.0  # before progress is shown
_MAX_QUEUED = 512  # items that are read ahead
# The columns of files without a header.
_FIXED_COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "lines": {"id": None},
    **{format: {"words": "words", "id": None} for format in ("conll", "bio", "txt")},
}


class PredictionSettings(Settings):
    """Settings of `albert predict`: the names of a table's columns."""

    columns: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True)
class Stream:
    """An open stream, such as standard input, its name for messages, and its size if known."""

    file: BinaryIO
    name: str = "standard input"
    is_live: bool = True
    num_bytes: int = 0


@dataclass(frozen=True)
class PredictionSummary:
    """How many examples were predicted, how many rows were skipped, and why."""

    num_answers: int
    num_skipped: int
    problems: tuple[str, ...]
    seconds: float


def predict(
    task: str,
    *,
    models: Sequence[str | Path],
    source: PathOrUrl | Stream,
    target: Path | BinaryIO,
    columns: Mapping[str, Any] | None = None,
    split: str | None = None,
    format: str | None = None,
    depth: int | None = None,
    patience: int | None = None,
    runtime: RuntimeSettings | None = None,
    backend: str = "torch",
    reporter: Reporter | None = None,
) -> PredictionSummary:
    """Predict all examples and write one line of JSON for each, in order.

    Invalid rows are skipped and counted; each line has the id or line number of its row.

    Args:
        task: A published task or a task type.
        models: Folders, runs or hub names; several are an ensemble.
        source: A table, a stream, or the folder or an official file of a published task.
        target: A stream, written as soon as predictions are available, or a file, written atomically.
        columns: Columns that differ from those of the first model.
        split: A split of a published task; test by default.
        format: The format of a table; by default that of its file name.
        depth: The number of layers to run.
        patience: Skip the remaining layers after one that agrees with so many before it (early exits).
        runtime: Device and precision.
        backend: torch, or onnx or onnx-int8 for exported folders.
        reporter: Receives progress and warnings.

    Returns:
        The numbers of predictions and skipped rows, with warnings.

    Raises:
        InputError: If the models do not fit the task, or the input cannot be read.
    """
    reporter, runtime = reporter or NullReporter(), runtime or RuntimeSettings()
    start = time.monotonic()
    definition = find_predicted_task(task, models)
    members, names = open_members(definition, models, runtime=runtime, columns=columns or {}, backend=backend)
    inputs = open_input(source, definition, columns=names, named=columns or (), split=split, format=format)
    merged = build_task(merge_configs(members, definition))
    num_answers = 0
    with _open_target(target, source=source) as file:
        loaded = [member.load(runtime).with_patience(patience) for member in members]
        iterate = iter_arrived if inputs.is_live else iter_groups
        groups = iterate(
            inputs.examples,
            count_characters=lambda each: each.example.num_characters,
            max_items=MAX_EXAMPLES,
            max_characters=MAX_CHARACTERS,
        )
        for group in groups:
            answers = describe_answers([each.example for each in group], members, loaded, merged, depth=depth)
            for answer, each in zip(answers, group, strict=True):
                file.write(format_line(answer, None if inputs.has_ids else each.line).encode())
            file.flush()
            num_answers += len(group)
            if time.monotonic() - start > SILENT_SECONDS:
                speed = num_answers / (time.monotonic() - start)
                share = None if inputs.find_share is None else inputs.find_share()
                reporter.show("predict", f"{num_answers:,} answers, {speed:,.0f} a second", fraction=share)
        if not num_answers and inputs.problems.num_skipped:
            inputs.problems.check(0)
    problems = (
        *inputs.problems.describe(),
        *(warning for model in loaded for warning in model.describe_truncated(num_answers)),
    )
    for problem in problems:
        reporter.say(problem)
    return PredictionSummary(num_answers, inputs.problems.num_skipped, problems, time.monotonic() - start)


def find_predicted_task(name: str, models: Sequence[str | Path]) -> TaskDefinition:
    """Find a task to predict with models; raise an `InputError` for pretraining, or without models."""
    if name.lower() == "pretraining":
        raise InputError("predict does not support the task 'pretraining'; use fill-mask or sentence-order")
    if not models:
        raise InputError("no model to predict with; give at least one --model")
    return find_task(name)


def describe_answers(
    examples: Sequence[Example],
    members: Sequence[Member],
    models: Sequence[FinetunedModel],
    merged: AnyTask,
    *,
    depth: int | None,
) -> list[dict[str, Any]]:
    """Predict examples with the loaded models of an ensemble, and describe the merged answers."""
    own = [
        member.align(model.predict(examples, depth=depth))
        for member, model in zip(members, models, strict=True)
    ]
    answers = merge_answers(merged, own)
    return [merged.describe(answer, example) for answer, example in zip(answers, examples, strict=True)]


def format_line(answer: Mapping[str, Any], line: int | None) -> str:
    """Format an answer as a line of JSON, with its line number if it has no id."""
    record = dict(answer)
    if line is not None:
        del record["id"]
        record = {"line": line, **record}
    text = dump_json(record, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can hold and UTF-8 cannot
        text = dump_json(record)
    return text + "\n"


@contextmanager
def _open_target(target: Path | BinaryIO, *, source: PathOrUrl | Stream) -> Iterator[BinaryIO]:
    if not isinstance(target, Path):
        yield target
        return
    if isinstance(source, str | Path) and target.exists() and target.resolve() == Path(source).resolve():
        raise InputError(f"{target}: is the input file; choose another --out")
    with open_output(target) as file:
        yield file


@dataclass(frozen=True)
class PredictionInput:
    """The examples to predict, identified by their ids (`has_ids`) or line numbers.

    If `is_live`, reading the next example may block. `find_share` returns the share of a file that was read.
    """

    examples: Iterator[Numbered[Example]]
    problems: Problems
    has_ids: bool
    is_live: bool = False
    find_share: Callable[[], float] | None = None


def open_input(
    source: PathOrUrl | Stream,
    definition: TaskDefinition,
    *,
    columns: Mapping[str, Any],
    named: Collection[str] = (),
    split: str | None = None,
    format: str | None = None,
) -> PredictionInput:
    """Open a table, a stream, or a split (by default `test`) of a published task.

    Labels are not read; answers of SQuAD and RACE may be missing, but not invalid. Invalid rows are skipped
    and counted, or raise an error in a test set, which must be predicted completely. `named` are the keys of
    `columns` that the user set; the table must have these columns.
    """
    if split is not None and (isinstance(source, Stream) or is_url(source)):
        raise InputError(f"--split {split}: only a task folder has splits; remove it")
    open_table = partial(_open_table, definition=definition, columns=columns, named=named)
    if isinstance(source, Stream):
        return open_table(source, format=format or "jsonl")
    if is_url(source):
        return open_table(source, format=format)
    path = to_path(source)
    if not path.exists():
        raise FileFormatError(f"{path}: does not exist; give a table, a task folder, or - for a stream")
    if isinstance(definition, PublishedTask) and not columns and not format:
        official = _open_official(path, definition, split=split)
        if official is not None:
            return official
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give a table, such as {path / 'test.jsonl'}")
    if split is not None:
        raise InputError(f"--split {split}: {path} is a file; remove it, or give the task folder")
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
    definition: TaskDefinition,
    columns: Mapping[str, Any],
    named: Collection[str],
    format: str | None,
) -> PredictionInput:
    name, content = (source.name, source.file) if isinstance(source, Stream) else (str(source), source)
    format = format or find_format(name)
    table, defaults = _find_table_task(definition)
    format = table.columns.text_format if format == "txt" else format
    fixed = {
        key: value
        for key, value in _FIXED_COLUMNS.get(format, {}).items()
        if key in table.columns.model_fields
    }
    names = table.build_columns({**defaults, **columns, **fixed})
    problems = Problems(name)
    found = iter_table(content, names, problems=problems, format=format)
    check = partial(check_named, names, named=named, read=[problems], is_labeled=False)
    examples = _iter_checked(found, check, has_header=format != "jsonl")
    has_ids = names.model_dump()["id"] is not None
    if not isinstance(source, Stream):
        return PredictionInput(examples, problems, has_ids)
    file, size = source.file, source.num_bytes
    share = (lambda: file.tell() / size) if size else None
    return PredictionInput(examples, problems, has_ids, source.is_live, share)


def _find_table_task(definition: TaskDefinition) -> tuple[TableTask, dict[str, Any]]:
    """Return the task type that reads tables of a task, and its default columns."""
    if isinstance(definition, PublishedTask):
        return TABLE_TASKS[definition.table], definition.table_columns
    assert isinstance(definition, TableTask)
    return definition, {}


def _iter_checked(
    found: Iterator[Numbered[Example]], check: Callable[[], None], *, has_header: bool
) -> Iterator[Numbered[Example]]:
    """Check the columns at the first example, or after the last one without a header."""
    number = 0
    for number, example in enumerate(found, start=1):
        if number == 1 and has_header:
            check()
        yield example
    if number:
        check()


def _open_official(path: Path, task: PublishedTask, *, split: str | None) -> PredictionInput | None:
    """Open a split of a published task, by its folder or by the name of its file."""
    if path.is_dir():
        name, path = task.find_split(path, split or "test")
    else:
        found = next((name for name, file in task.files.items() if file == path.name), None)
        if found is not None and split not in (None, found):
            raise InputError(
                f"--split {split}: {path} is the split {found}; remove it, or give the task folder"
            )
        if found is None and path.suffix != ".json":  # files of SQuAD may have other names
            return None
        name = found or split or "test"
    problems = task.open_problems(path, split=name)
    examples = task.iter_examples(path, split=name, problems=problems, is_labeled=False)
    return PredictionInput(examples, problems, has_ids=True)


def iter_arrived(
    items: Iterable[T], *, count_characters: Callable[[T], int], max_items: int, max_characters: int
) -> Iterator[list[T]]:
    """Yield lists of the items that are available, at least one each, without waiting for more.

    A thread reads ahead. Its errors are raised here, after the items before them.
    """
    items_read: queue.Queue[Any] = queue.Queue(_MAX_QUEUED)
    end = object()
    errors: list[BaseException] = []
    is_done = threading.Event()

    def read() -> None:
        try:
            for item in items:
                items_read.put(item)
                if is_done.is_set():
                    return
        except BaseException as error:
            errors.append(error)
        items_read.put(end)

    # A daemon, so that the program can exit while it waits for a pipe.
    threading.Thread(target=read, daemon=True).start()
    try:
        item = None
        while item is not end:
            group: list[T] = []
            num_characters = 0
            while (item := items_read.get()) is not end:
                group.append(item)
                num_characters += count_characters(item)
                if len(group) == max_items or num_characters >= max_characters or items_read.empty():
                    break
            if group:
                yield group
        if errors:
            raise errors[0]
    finally:
        is_done.set()
        while not items_read.empty():  # the thread may be blocked by a full queue
            items_read.get()
