"""The task of an evaluation or prediction, and the examples of a split."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert.errors import FileFormatError, InputError, suggest
from albert.tasks.assignment import DEV_NAMES, build_columns, describe_published, find_table, list_tasks
from albert.tasks.catalogue import ALIASES, OWN_TASKS, TASKS, OwnTask, Task, find_split, find_task
from albert.tasks.examples import ChoiceExample, Example, SpanExample, TextExample, TokenExample
from albert.tasks.labels import Labels
from albert.tasks.readers.published import read_split
from albert.tasks.readers.table import check_named, find_labels, read_table
from albert.tasks.task_facts import TaskConfig

SPLIT = "dev"


@dataclass(frozen=True)
class Goal:
    """A task to evaluate: published, or of a user's own table; `facts` is its config."""

    facts: TaskConfig
    published: Task | None = None
    own: OwnTask | None = None

    @property
    def name(self) -> str:
        """The task, as tables and files call it."""
        return self.facts.task


@dataclass(frozen=True)
class Questions:
    """The examples of a split, their file, and the problems of its rows."""

    split: str
    path: Path
    examples: tuple[Example, ...]
    problems: tuple[str, ...]

    @property
    def is_labelled(self) -> bool:
        """Whether the examples have labels; labels for some only are rejected."""
        unknown = [example for example in self.examples if not _is_labelled(example)]
        if unknown and len(unknown) < len(self.examples):
            raise InputError(
                f"{self.path}: {len(unknown):,} of {len(self.examples):,} examples have no answer to be "
                f"scored by (first: {unknown[0].id!r}); give all of them one, or none"
            )
        return not unknown


def find_goal(name: str) -> Goal:
    """Find a task by name; an unknown one is rejected with the nearest."""
    plain = name.lower()
    if plain in TASKS or plain in ALIASES:
        task = find_task(plain)
        return Goal(describe_published(task), published=task)
    if plain in OWN_TASKS:
        own = OWN_TASKS[plain]
        facts = TaskConfig(
            task=own.name, kind=own.kind, label_kind=own.label_kind, metrics=own.metrics, max_length=512
        )
        return Goal(facts, own=own)
    raise InputError(f"no task {name!r}; {suggest(plain, ['pretraining', *list_tasks()])}")


def find_questions(goal: Goal, data: Path, *, split: str | None) -> tuple[str, Path]:
    """Find the split and its path; by default the dev set, or all there is. A table is its own split."""
    if goal.published is not None:
        files = goal.published.files
        chosen = split or (SPLIT if SPLIT in files else next(iter(files)))
        return chosen, find_split(goal.published, data, split=chosen)
    if data.is_file():
        if split is not None:
            raise InputError(
                f"--split {split}: {data} is one table; leave it out, or give a folder of tables"
            )
        return data.name, data
    if not data.exists():
        raise FileFormatError(f"{data}: does not exist; give a table, or a folder with dev.*")
    chosen = split or SPLIT
    found = find_table(data, DEV_NAMES if chosen == SPLIT else (chosen,))
    if found is None:
        raise FileFormatError(
            f"{data}: has no table {chosen}.*; give the file itself, or --split with the name of another"
        )
    return chosen, found


def find_names(goal: Goal, path: Path, *, columns: Mapping[str, Any]) -> tuple[str, ...]:
    """Find the names of the labels: the task's own, or all that a table has."""
    if goal.own is None:
        return goal.facts.labels
    found = find_labels(path, build_columns(goal.own, columns))
    return () if found is None else found.names


def read_questions(
    goal: Goal,
    data: Path,
    *,
    split: str | None,
    columns: Mapping[str, Any],
    labels: Sequence[str],
    named: Collection[str] = (),
) -> Questions:
    """Read the examples of a published split, or of an own table with the labels that models know.

    `named` are those keys of `columns` that the user gives. Unknown labels are rejected with their line, and
    tables without the column of labels or without a column that the user names.
    """
    chosen, path = find_questions(goal, data, split=split)
    if goal.published is not None:
        found = read_split(goal.published, data, split=chosen)
        return Questions(chosen, path, found.examples, tuple(found.problems.describe()))
    assert goal.own is not None
    names = Labels(tuple(labels)) if labels else None
    settings = build_columns(goal.own, columns)
    table = read_table(path, settings, labels=names)
    check_named(settings, named=named, read=[table.problems])
    return Questions(chosen, path, table.examples, tuple(table.problems.describe()))


def _is_labelled(example: Example) -> bool:
    if isinstance(example, SpanExample):
        return bool(example.answers) or example.is_impossible
    if isinstance(example, TokenExample):
        return example.labels is not None
    assert isinstance(example, TextExample | ChoiceExample)
    return example.label is not None
