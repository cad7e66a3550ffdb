"""The name of a task and the place of its data come in; examples, and what they teach, go out."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from albert.data.rows import FORMATS, find_format
from albert.errors import FileFormatError, InputError, suggest
from albert.settings import build_settings
from albert.tasks.assignment_checks import (
    check_learnable,
    check_numbers,
    check_pairs,
    check_scorable,
    check_table,
    list_oddities,
    list_one_sided,
    require_answer,
)
from albert.tasks.catalogue import ALIASES, TASKS, Task, find_task
from albert.tasks.examples import Example, SpanExample
from albert.tasks.metrics.glue import GLUE_METRICS
from albert.tasks.own_tasks import OWN_TASKS, OwnTask
from albert.tasks.readers.columns import Columns
from albert.tasks.readers.published import read_split
from albert.tasks.readers.table import check_named, read_table
from albert.tasks.selection import group_examples, list_texts
from albert.tasks.task_facts import TaskFacts

DEV_NAMES = ("dev", "validation", "valid", "val")
_DEV_STREAM = 7001
# Texts that many rows share may make the part that is kept so many times as large as it should be.
_MAX_SURPLUS = 2


@dataclass(frozen=True)
class Assignment:
    """What is to be learned: the examples to learn from and those to be asked about.

    `facts` are what the data says of the task; the recipe adds lengths to them.
    """

    facts: TaskFacts
    train: tuple[Example, ...]
    dev: tuple[Example, ...]
    problems: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """A hash of every example: a run goes on with the data it began with."""
        digest = hashlib.sha256()
        for example in (*self.train, "dev", *self.dev):
            digest.update(repr(example).encode())
        return digest.hexdigest()


def list_tasks() -> list[str]:
    """The names of all tasks, published ones and those of own tables."""
    return [*TASKS, *OWN_TASKS]


def open_assignment(
    name: str, data: str | Path, *, dev: str | Path | None, columns: Mapping[str, Any], dev_share: float
) -> Assignment:
    """Read what a task learns from and is asked about.

    The data of a published task is its folder; an own table is a file, or a folder with train.* and dev.* in
    it. Without a table to be asked about, `dev_share` of the examples are kept from learning.
    """
    task = find_teachable(name)
    if isinstance(task, OwnTask):
        return _open_own(task, Path(data), dev=dev, columns=columns, dev_share=dev_share)
    if columns or dev is not None:
        extra = "columns" if columns else "--dev"
        raise InputError(
            f"{name} has files of its own; leave {extra} out, or ask for one of {', '.join(OWN_TASKS)}"
        )
    return _open_published(task, Path(data))


def find_teachable(name: str) -> Task | OwnTask:
    """The task of a name, if there is something to learn it from; else refused with the nearest."""
    plain = name.lower()
    if plain in OWN_TASKS:
        return OWN_TASKS[plain]
    if plain in TASKS or plain in ALIASES:
        task = find_task(name)
        if task.model_of is not None:
            raise InputError(
                f"{task.name} has no examples to learn from; fine-tune {task.model_of} and evaluate that "
                "model"
            )
        return task
    raise InputError(f"no task {name!r}; {suggest(plain, list_tasks())}")


def describe_published(task: Task) -> TaskFacts:
    """What is known of a published task before its data."""
    return TaskFacts(
        task=task.name,
        kind=task.kind,
        label_kind="number" if task.kind == "texts" and task.labels is None else "one",
        labels=task.label_names,
        metrics=task.metrics or GLUE_METRICS.get(task.name, ()),
        max_length=task.max_length,
        has_impossible=task.has_impossible,
    )


def _open_published(task: Task, data: Path) -> Assignment:
    train, dev = (read_split(task, data, split=split) for split in ("train", "dev"))
    check_scorable(dev.examples, source=dev.path)
    problems = (*train.problems.describe(), *dev.problems.describe())
    return Assignment(describe_published(task), train.examples, dev.examples, problems)


def _open_own(
    task: OwnTask, data: Path, *, dev: str | Path | None, columns: Mapping[str, Any], dev_share: float
) -> Assignment:
    train_path, found_path = find_tables(data)
    dev_path = found_path if dev is None else Path(dev)
    check_table(train_path, option="--data")
    refuse_fixed(task, columns)
    names = build_columns(task, columns)
    train = read_table(train_path, names)
    read = [train.problems]
    facts = TaskFacts(
        task=task.name,
        kind=task.kind,
        label_kind=task.label_kind,
        labels=() if train.labels is None else train.labels.names,
        metrics=task.metrics,
        columns=names.model_dump(mode="json"),
        has_impossible=task.has_impossible and any(each.is_impossible for each in train.examples),
    )
    check_learnable(facts, train.examples, source=train_path)
    if dev_path is None:
        learned, asked = keep_some(train.examples, share=dev_share, source=str(train_path))
        number = f"{len(asked):,} of {len(train.examples):,}"
        said = [f"{train_path}: {number} examples are kept to be asked about"]
        if shared := find_shared(learned, asked):
            said.append(
                f"{train_path}: {shared:,} of those share a text with what is learned from: it is in too "
                "many rows to keep them together; give others with --dev"
            )
    else:
        check_table(dev_path, option="--dev")
        has_none = task.has_impossible and not facts.has_impossible
        check = require_answer if has_none else None
        found = read_table(dev_path, names, labels=train.labels, check=check)
        learned, asked, said = train.examples, found.examples, found.problems.describe()
        read.append(found.problems)
        if dev_path.samefile(train_path):
            said.append(f"{dev_path}: is learned from as well, so that its scores say nothing of other texts")
    check_named(names, named=columns, read=read)
    source = dev_path or f"{train_path}, those to be asked about"
    check_numbers(facts, asked, source=source)
    check_pairs(facts, asked, source=source)
    odd = list_oddities(facts, learned, source=train_path)
    one_sided = list_one_sided(facts, asked, source=source)
    return Assignment(facts, learned, asked, (*train.problems.describe(), *said, *odd, *one_sided))


def refuse_fixed(task: OwnTask, columns: Mapping[str, Any]) -> None:
    """What the task says itself is not the user's to say otherwise: another task does."""
    for key, value in task.fixed:
        asked = columns.get(key, value)
        if asked != value:
            others = [other.name for other in OWN_TASKS.values() if (key, asked) in other.fixed]
            raise InputError(
                f"columns.{key}={asked} is not for {task.name}, where it is {value}; leave it out, or ask "
                f"for {' or '.join(others) or 'another task'}"
            )


def build_columns(task: OwnTask, columns: Mapping[str, Any]) -> Columns:
    """The names of a table's columns, as the user gives them; what the task says itself is not theirs."""
    return build_settings(
        task.columns, values={**columns, **dict(task.fixed)}, source=f"columns of {task.name}"
    )


def find_tables(data: Path) -> tuple[Path, Path | None]:
    """The table to learn from and the one to be asked about, of a file or of a folder with both."""
    if not data.exists():
        raise FileFormatError(f"{data}: does not exist; give a table, or a folder with train.* and dev.*")
    if data.is_file():
        return data, None
    train = find_table(data, ("train",))
    if train is None:
        raise FileFormatError(
            f"{data}: has no train.{', train.'.join(FORMATS)}; give a table, or a folder with one"
        )
    return train, find_table(data, DEV_NAMES)


def find_table(folder: Path, names: Sequence[str]) -> Path | None:
    """The first table of one of these names; two of one name are refused."""
    for name in names:
        found = sorted(
            path
            for path in folder.iterdir()
            if path.name.split(".")[0] == name and find_format(path) in FORMATS
        )
        if len(found) > 1:
            raise FileFormatError(f"{found[0]} and {found[1].name}: which one? Give the file, or remove one")
        if found:
            return found[0]
    return None


def keep_some(
    examples: tuple[Example, ...], *, share: float, source: str
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """The examples to learn from and those kept to be asked about: the same ones whatever the seed.

    What shares a text, a context or a passage stays together, as far as there are several of them: a model
    that has learned from the one is not asked about the other. Where some questions have an answer and some
    have none, both kinds are kept, if both are left to learn from as well.
    """
    number = round(share * len(examples))
    if not 1 <= number < len(examples):
        raise FileFormatError(
            f"{source}: of {len(examples)} examples, {share:.0%} cannot be kept to be asked about; give "
            "more, or a table of their own with --dev"
        )
    # What is tied together leaves something to learn from, and so does the last group, which is never taken.
    most = min(_MAX_SURPLUS * number, len(examples) - 1)
    groups = _list_groups(examples, most=most)
    order = np.random.default_rng(_DEV_STREAM).permutation(len(groups)).tolist()
    drawn = [groups[chosen] for chosen in order]
    kept = _take(drawn, number)
    if other := _find_other_kind(examples, drawn, kept):
        # Both are taken whatever their size: the one alone would be of one kind again.
        kept = _take([other + drawn[0], *(each for each in drawn[1:] if each is not other)], number)
    return (
        tuple(each for place, each in enumerate(examples) if place not in kept),
        tuple(each for place, each in enumerate(examples) if place in kept),
    )


def _take(groups: Sequence[list[int]], number: int) -> set[int]:
    """The places in the first groups that are together `number` or more; the last group is never taken."""
    taken: set[int] = set()
    for group in groups[:-1]:
        if len(taken) >= number:
            break
        taken.update(group)
    return taken


def _find_other_kind(
    examples: Sequence[Example], groups: Sequence[list[int]], kept: set[int]
) -> list[int] | None:
    """The first group with questions of the kind that those kept lack, if another such group is left."""
    is_impossible = [isinstance(each, SpanExample) and each.is_impossible for each in examples]
    kinds = {is_impossible[place] for place in kept}
    if len(kinds) > 1:
        return None
    found = [group for group in groups if any(is_impossible[place] not in kinds for place in group)]
    return found[0] if len(found) > 1 else None


def find_shared(learned: Sequence[Example], asked: Sequence[Example]) -> int:
    """How many of those asked about share a text with what was learned from."""
    known = {text for example in learned for text in list_texts(example)}
    return sum(not known.isdisjoint(list_texts(example)) for example in asked)


def _list_groups(examples: Sequence[Example], *, most: int) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for place, group in enumerate(group_examples(examples, most=most)):
        groups.setdefault(group, []).append(place)
    return list(groups.values())
