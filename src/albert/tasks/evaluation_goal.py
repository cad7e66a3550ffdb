"""The name of a task, its data and a split come in; what is asked of models, and the examples, go out."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert.errors import FileFormatError, InputError, suggest
from albert.tasks.assignment import DEV_NAMES, build_columns, describe_published, find_table, list_tasks
from albert.tasks.catalogue import ALIASES, TASKS, Task, find_split, find_task
from albert.tasks.examples import ChoiceExample, Example, SpanExample, TextExample, TokenExample
from albert.tasks.labels import Labels
from albert.tasks.own_tasks import OWN_TASKS, OwnTask
from albert.tasks.readers.published import read_split
from albert.tasks.readers.table import check_named, find_labels, read_table
from albert.tasks.task_facts import TaskFacts

SPLIT = "dev"
# What to do about each option that names a split, where there is one table and no other.
_CURES = {"--split": "leave it out", "--select-on": "choose on one half of it with --select"}


@dataclass(frozen=True)
class Goal:
    """A task as it is evaluated: published, or of a user's own table; `facts` are what it says by itself."""

    facts: TaskFacts
    published: Task | None = None
    own: OwnTask | None = None

    @property
    def name(self) -> str:
        """The task, as tables and files call it."""
        return self.facts.task


@dataclass(frozen=True)
class Questions:
    """What models are asked: the examples of a split, where they are from, and what was wrong there."""

    split: str
    path: Path
    examples: tuple[Example, ...]
    problems: tuple[str, ...]

    @property
    def is_labelled(self) -> bool:
        """Whether the answers are known; refused: those of some examples only."""
        unknown = [example for example in self.examples if not _is_labelled(example)]
        if unknown and len(unknown) < len(self.examples):
            raise InputError(
                f"{self.path}: {len(unknown):,} of {len(self.examples):,} examples have no answer to be "
                f"scored by (first: {unknown[0].id!r}); give all of them one, or none"
            )
        return not unknown


def find_goal(name: str) -> Goal:
    """The task of a name; an unknown one is refused with the nearest."""
    plain = name.lower()
    if plain in TASKS or plain in ALIASES:
        task = find_task(plain)
        return Goal(describe_published(task), published=task)
    if plain in OWN_TASKS:
        own = OWN_TASKS[plain]
        facts = TaskFacts(
            task=own.name, kind=own.kind, label_kind=own.label_kind, metrics=own.metrics, max_length=512
        )
        return Goal(facts, own=own)
    raise InputError(f"no task {name!r}; {suggest(plain, ['pretraining', *list_tasks()])}")


def find_questions(goal: Goal, data: Path, *, split: str | None, option: str = "--split") -> tuple[str, Path]:
    """The split that is meant, and where it lies: a file or folder of the task, or a table.

    Without a split it is the development set, or all that there is. A table is its own split. `option` is
    what the user names the split with.
    """
    if goal.published is not None:
        files = goal.published.files
        chosen = split or (SPLIT if SPLIT in files else next(iter(files)))
        return chosen, find_split(goal.published, data, split=chosen)
    if data.is_file():
        if split is not None:
            raise InputError(
                f"{option} {split}: {data} is one table; {_CURES[option]}, or give a folder of tables"
            )
        return data.name, data
    if not data.exists():
        raise FileFormatError(f"{data}: does not exist; give a table, or a folder with dev.*")
    chosen = split or SPLIT
    found = find_table(data, DEV_NAMES if chosen == SPLIT else (chosen,))
    if found is None:
        raise FileFormatError(
            f"{data}: has no table {chosen}.*; give the file itself, or {option} with the name of another"
        )
    return chosen, found


def find_names(goal: Goal, path: Path, *, columns: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the labels: the task's own, or all that a table has."""
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
    option: str = "--split",
) -> Questions:
    """The examples of a split of a published task, or of an own table with the labels that models know.

    `named` are those keys of `columns` that the user gives. Refused: a label in a table that is none of
    these, with its line; a table without the column of labels, or without a column that the user names.
    """
    chosen, path = find_questions(goal, data, split=split, option=option)
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
