"""Read the train and dev examples of a task, published or of a user's table, and validate them."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from albert.data.rows import FORMATS, BadRow, find_format, quote
from albert.errors import FileFormatError, InputError, suggest
from albert.settings import build_settings
from albert.tasks.catalogue import ALIASES, OWN_TASKS, TASKS, OwnTask, Task, find_task
from albert.tasks.examples import (
    ChoiceExample,
    Example,
    SpanExample,
    TextExample,
    group_examples,
    list_label_places,
    list_texts,
)
from albert.tasks.labels import Labels
from albert.tasks.readers.columns import Columns
from albert.tasks.readers.published import read_split
from albert.tasks.readers.table import check_named, read_table
from albert.tasks.task_facts import TaskConfig

DEV_NAMES = ("dev", "validation", "valid", "val")
_DEV_STREAM = 7001
# Texts that many rows share may make the part that is kept so many times as large as it should be.
_MAX_SURPLUS = 2
_WIDE_NUMBER = 100.0  # a new head answers about 0, and moves a few units in a hundred steps


@dataclass(frozen=True)
class Assignment:
    """The train and dev examples of a task; `facts` is its config as far as the data gives it."""

    facts: TaskConfig
    train: tuple[Example, ...]
    dev: tuple[Example, ...]
    problems: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """Hash every example: a run resumes only with the data it began with."""
        digest = hashlib.sha256()
        for example in (*self.train, "dev", *self.dev):
            digest.update(repr(example).encode())
        return digest.hexdigest()


def list_tasks() -> list[str]:
    """List the names of all tasks, published ones and task types."""
    return [*TASKS, *OWN_TASKS]


def open_assignment(
    name: str, data: str | Path, *, dev: str | Path | None, columns: Mapping[str, Any], dev_share: float
) -> Assignment:
    """Read the train and dev examples of a task.

    The data of a published task is its folder; an own table is a file, or a folder with train.* and dev.* in
    it. Without a dev set, `dev_share` of the examples are held out.
    """
    task = find_teachable(name)
    if isinstance(task, OwnTask):
        return _open_own(task, Path(data), dev=dev, columns=columns, dev_share=dev_share)
    if columns or dev is not None:
        extra = "columns" if columns else "--dev"
        raise InputError(
            f"{name} has files of its own; leave {extra} out, or ask for one of {', '.join(OWN_TASKS)}"
        )
    train, held = (read_split(task, Path(data), split=split) for split in ("train", "dev"))
    for example in held.examples:
        if (isinstance(example, SpanExample) and not example.answers and not example.is_impossible) or (
            isinstance(example, ChoiceExample) and example.label is None
        ):
            raise InputError(
                f"{held.path}: question {quote(example.id)} comes without its answer, and a model is chosen "
                "by how it answers here; give a development set with answers"
            )
    problems = (*train.problems.describe(), *held.problems.describe())
    return Assignment(describe_published(task), train.examples, held.examples, problems)


def find_teachable(name: str) -> Task | OwnTask:
    """Find a task that can be fine-tuned; an unknown name is rejected with the nearest."""
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


def describe_published(task: Task) -> TaskConfig:
    """Build the config of a published task."""
    return TaskConfig(
        task=task.name,
        kind=task.kind,
        label_kind="number" if task.kind == "texts" and task.labels is None else "one",
        labels=task.label_names,
        metrics=task.metrics,
        max_length=task.max_length,
        has_impossible=task.has_impossible,
    )


def _open_own(
    task: OwnTask, data: Path, *, dev: str | Path | None, columns: Mapping[str, Any], dev_share: float
) -> Assignment:
    train_path, found_path = find_tables(data)
    dev_path = found_path if dev is None else Path(dev)
    check_table(train_path, option="--data")
    reject_fixed(task, columns)
    names = build_columns(task, columns)
    train = read_table(train_path, names)
    read = [train.problems]
    facts = TaskConfig(
        task=task.name,
        kind=task.kind,
        label_kind=task.label_kind,
        labels=() if train.labels is None else train.labels.names,
        metrics=task.metrics,
        columns=names.model_dump(mode="json"),
        has_impossible=task.has_impossible and any(each.is_impossible for each in train.examples),
    )
    check_numbers(facts, train.examples, source=train_path)
    if task.has_impossible and not any(each.answers for each in train.examples):
        number = f"{len(train.examples):,}"
        raise FileFormatError(
            f"{train_path}: none of its {number} questions has an answer; check the column of the answers"
        )
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


def reject_fixed(task: OwnTask, columns: Mapping[str, Any]) -> None:
    """Reject columns that would make it another task."""
    for key, value in task.fixed:
        asked = columns.get(key, value)
        if asked != value:
            others = [other.name for other in OWN_TASKS.values() if (key, asked) in other.fixed]
            raise InputError(
                f"columns.{key}={asked} is not for {task.name}, where it is {value}; leave it out, or ask "
                f"for {' or '.join(others) or 'another task'}"
            )


def build_columns(task: OwnTask, columns: Mapping[str, Any]) -> Columns:
    """Build the column settings from what the user gives and what the task fixes."""
    return build_settings(
        task.columns, values={**columns, **dict(task.fixed)}, source=f"columns of {task.name}"
    )


def find_tables(data: Path) -> tuple[Path, Path | None]:
    """Find the train and dev tables in a file or a folder."""
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
    """Find the first table of one of these names; two of one name are rejected."""
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
    """Hold out a share of the examples as the dev set: the same ones whatever the seed.

    What shares a text, a context or a passage stays together, as far as there are several of them, so that
    the dev set has no training texts. Where some questions have an answer and some have none, both are held
    out, if both are left to train on as well.
    """
    number = round(share * len(examples))
    if not 1 <= number < len(examples):
        raise FileFormatError(
            f"{source}: of {len(examples)} examples, {share:.0%} cannot be kept to be asked about; give "
            "more, or a table of their own with --dev"
        )
    # What is tied together leaves something to learn from, and so does the last group, which is never taken.
    most = min(_MAX_SURPLUS * number, len(examples) - 1)
    rows: dict[int, list[int]] = {}
    for place, group in enumerate(group_examples(examples, most=most)):
        rows.setdefault(group, []).append(place)
    groups = list(rows.values())
    order = np.random.default_rng(_DEV_STREAM).permutation(len(groups)).tolist()
    drawn = [groups[chosen] for chosen in order]
    kept = _take(drawn, number)
    is_impossible = [isinstance(each, SpanExample) and each.is_impossible for each in examples]
    kinds = {is_impossible[place] for place in kept}
    if len(kinds) == 1:
        others = [group for group in drawn if any(is_impossible[place] not in kinds for place in group)]
        if len(others) > 1:
            # The first of them and the first drawn are taken whatever their size, so that both are held out.
            rest = [group for group in drawn[1:] if group is not others[0]]
            kept = _take([others[0] + drawn[0], *rest], number)
    return (
        tuple(each for place, each in enumerate(examples) if place not in kept),
        tuple(each for place, each in enumerate(examples) if place in kept),
    )


def _take(groups: Sequence[list[int]], number: int) -> set[int]:
    """Take groups until they have `number` rows or more; the last group is never taken."""
    taken: set[int] = set()
    for group in groups[:-1]:
        if len(taken) >= number:
            break
        taken.update(group)
    return taken


def find_shared(learned: Sequence[Example], asked: Sequence[Example]) -> int:
    """Count the dev examples that share a text with a train example."""
    known = {text for example in learned for text in list_texts(example)}
    return sum(not known.isdisjoint(list_texts(example)) for example in asked)


def check_table(path: Path, *, option: str) -> None:
    """Reject what is no file."""
    if not path.exists():
        raise FileFormatError(f"{path}: does not exist; give a table with {option}")
    if path.is_dir():
        raise FileFormatError(f"{path}: is a folder, and a table is needed; give a file with {option}")


def require_answer(example: SpanExample) -> None:
    """Reject a question without an answer."""
    if example.is_impossible:
        raise BadRow("a question without an answer", "those to learn from all have one", is_fatal=True)


def check_numbers(facts: TaskConfig, examples: Sequence[Example], *, source: object) -> None:
    """Reject numbers that are all the same: they have no correlation with anything."""
    if facts.label_kind != "number" or facts.kind != "texts":
        return
    numbers = {each.label for each in examples if isinstance(each, TextExample)}
    if len(numbers) == 1:
        raise FileFormatError(
            f"{source}: every number of its {len(examples):,} examples is {numbers.pop()}, and at least 2 "
            "different ones are needed; check the column of the labels"
        )


def check_pairs(facts: TaskConfig, examples: Sequence[Example], *, source: object) -> None:
    """Reject a dev set of embeddings with single texts, or with numbers for some pairs only."""
    texts = [each for each in examples if isinstance(each, TextExample)] if facts.kind == "embedding" else []
    for text in texts:
        if text.second is None:
            raise InputError(
                f"{source}: the text {quote(text.id)} has no second to be compared with, and a model is "
                "chosen by pairs; give pairs with --dev, and their column as in columns.text_pair=paraphrase"
            )
        if (text.label is None) != (texts[0].label is None):
            raise InputError(
                f"{source}: the pairs {quote(texts[0].id)} and {quote(text.id)}: one has a number that says "
                "how similar it is, and the other has none; give all of them one, or none"
            )


def list_oddities(facts: TaskConfig, train: Sequence[Example], *, source: object) -> Iterator[str]:
    """Warn about labels that look alike, labels without examples and large numbers; a line each."""
    for one, other in Labels(facts.labels).find_alike():
        yield (
            f"{source}: {quote(one)} and {quote(other)} are two labels, and differ only in capitals or spaces"
            "; if they are one, spell them alike"
        )
    if facts.labels:
        taught = {place for example in train for place in list_label_places(example)}
        missing = [name for place, name in enumerate(facts.labels) if place not in taught]
        if missing:
            yield f"{source}: no example is left to learn the label {', '.join(map(quote, missing[:5]))} from"
    widest = 0.0
    if facts.label_kind == "number":
        labels = [each.label for each in train if isinstance(each, TextExample)]
        widest = max((abs(label) for label in labels if isinstance(label, int | float)), default=0.0)
    if widest > _WIDE_NUMBER:
        yield (
            f"{source}: numbers reach {widest:,.0f}; a model learns a few units best, so divide them by "
            f"{widest / 5:,.0f} or so"
        )


def list_one_sided(facts: TaskConfig, asked: Sequence[Example], *, source: object) -> Iterator[str]:
    """Warn where all dev questions have an answer, or none has: no threshold can be chosen."""
    kinds = {each.is_impossible for each in asked if isinstance(each, SpanExample)}
    if facts.has_impossible and len(kinds) == 1:
        which = "none" if kinds.pop() else "all"
        yield (
            f"{source}: {which} of {len(asked):,} questions have an answer, so that no threshold can be "
            "chosen by them: those likelier to have none than one stay unanswered; give both kinds with --dev"
        )
