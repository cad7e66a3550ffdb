"""A task, the folder of its data and the name of a split come in; all examples of the split go out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from albert.tasks.catalogue import Kind, Task, find_split
from albert.tasks.examples import ChoiceExample, Example, Numbered, SpanExample, TextExample
from albert.tasks.problems import Problems
from albert.tasks.readers.glue import iter_glue
from albert.tasks.readers.race import iter_race
from albert.tasks.readers.squad import iter_squad

E = TypeVar("E", bound=Example)


@dataclass(frozen=True)
class Split(Generic[E]):
    """The examples of a split in the order of its file, and what was wrong with its rows."""

    path: Path
    examples: tuple[E, ...]
    problems: Problems


def read_text_split(task: Task, data: Path, *, split: str) -> Split[TextExample]:
    """A split of a GLUE task."""
    path, problems = _open(task, data, split, unit="line")
    return _read_all(path, iter_glue(path, task, split=split, problems=problems), problems)


def read_span_split(task: Task, data: Path, *, split: str) -> Split[SpanExample]:
    """A split of SQuAD."""
    path, problems = _open(task, data, split, unit="question")
    found = iter_squad(path, has_impossible=task.has_impossible, problems=problems)
    return _read_all(path, found, problems)


def read_choice_split(task: Task, data: Path, *, split: str) -> Split[ChoiceExample]:
    """A split of RACE."""
    path, problems = _open(task, data, split, unit="question")
    return _read_all(path, iter_race(path, problems=problems), problems)


READERS: dict[Kind, Callable[..., Split[Any]]] = {
    "texts": read_text_split, "spans": read_span_split, "choices": read_choice_split,
}  # fmt: skip


def read_split(task: Task, data: Path, *, split: str) -> Split[Any]:
    """All examples of a split, by the task's kind."""
    return READERS[task.kind](task, data, split=split)


def _open(task: Task, data: Path, split: str, *, unit: str) -> tuple[Path, Problems]:
    """Where the split lies; of a test, whose every row must be answered, a broken row is refused."""
    path = find_split(task, data, split=split)
    return path, Problems(path, unit=unit, is_strict=split.startswith("test"))


def _read_all(path: Path, found: Iterator[Numbered[E]], problems: Problems) -> Split[E]:
    examples = tuple(each.example for each in found)
    problems.check(len(examples))
    return Split(path, examples, problems)
