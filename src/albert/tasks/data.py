"""Read and validate the train and dev sets of a task, published or of a user's table."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from albert.data.rows import FORMATS, quote
from albert.errors import FileFormatError, InputError
from albert.tasks.catalogue import (
    DEV_NAMES,
    TABLE_TASKS,
    TableTask,
    TaskDefinition,
    build_task,
    find_table,
    find_trainable_task,
)
from albert.tasks.predict import open_input
from albert.tasks.splits import count_shared, hold_out
from albert.tasks.tables import Labels, check_named, read_table
from albert.tasks.task import Example, TaskConfig


@dataclass(frozen=True)
class TaskData:
    """The examples of a task to train on, with and without labels, the dev set, the config, and warnings."""

    config: TaskConfig
    train: tuple[Example, ...]
    dev: tuple[Example, ...]
    problems: tuple[str, ...]
    unlabeled: tuple[Example, ...] = ()

    @property
    def fingerprint(self) -> str:
        """The hash of all examples; a run can be resumed only with the same data."""
        digest = hashlib.sha256()
        unlabeled = ("unlabeled", *self.unlabeled) if self.unlabeled else ()
        for example in (*self.train, "dev", *self.dev, *unlabeled):
            digest.update(repr(example).encode())
        return digest.hexdigest()

    def score_majority(self) -> float:
        """Score the majority baseline on the dev set; 0 if the task type has none."""
        task = build_task(self.config)
        predict = task.list_baselines().get("majority")
        return 0.0 if predict is None else task.score(predict(self.train, self.dev), self.dev)["score"]


def open_task_data(
    name: str,
    data: str | Path,
    *,
    dev: str | Path | None,
    columns: Mapping[str, Any],
    dev_share: float,
    unlabeled: str | Path | None = None,
) -> TaskData:
    """Read the examples of a task.

    Args:
        name: A published task or a task type.
        data: The folder of a published task; a table; or a folder with train.* and dev.* tables.
        dev: A table for the dev set.
        columns: The columns of a table.
        dev_share: The share of a table that is held out if there is no dev set.
        unlabeled: A table or an official file of examples whose labels are not read.

    Raises:
        InputError: If the data cannot be read, have no labels, or `dev` or `columns` do not apply.
    """
    definition = find_trainable_task(name)
    if isinstance(definition, TableTask):
        opened = _open_tables(definition, Path(data), dev=dev, columns=columns, dev_share=dev_share)
    elif columns or dev is not None:
        extra = "columns" if columns else "--dev"
        raise InputError(
            f"{extra} does not apply to the official files of {name}; remove it, or use a task type: "
            f"{', '.join(TABLE_TASKS)}"
        )
    else:
        opened = _open_published(definition, Path(data))
    if unlabeled is None:
        return opened
    inputs = open_input(unlabeled, definition, columns=columns, named=columns)
    examples = tuple(each.example for each in inputs.examples)
    inputs.problems.check(len(examples))
    return replace(opened, unlabeled=examples, problems=(*opened.problems, *inputs.problems.describe()))


def _open_published(definition: TaskDefinition, data: Path) -> TaskData:
    train, dev = (definition.read_split(data, split, columns={}, labels=()) for split in ("train", "dev"))
    for example in dev.examples:
        if not example.is_labeled:
            raise InputError(f"{dev.path}: example {quote(example.id)} has no label; give a labeled dev set")
    return TaskData(definition.config, train.examples, dev.examples, (*train.problems, *dev.problems))


def _open_tables(
    definition: TableTask, data: Path, *, dev: str | Path | None, columns: Mapping[str, Any], dev_share: float
) -> TaskData:
    train_path, dev_path = _find_tables(data)
    dev_path = dev_path if dev is None else Path(dev)
    _check_file(train_path, option="--data")
    names = definition.build_columns(columns)
    table = read_table(train_path, names)
    labels = () if table.labels is None else table.labels.names
    updates = {"labels": labels, "columns": names.model_dump(mode="json")}
    config = definition.config.model_copy(update=updates).fit_table(table.examples)
    read, warnings = [table.problems], list(table.problems.describe())
    train = table.examples
    if dev_path is None:
        train, dev_examples = hold_out(table.examples, share=dev_share, source=str(train_path))
        warnings.append(
            f"{train_path}: held out {len(dev_examples):,} of {len(table.examples):,} examples as the dev set"
        )
        if num_shared := count_shared(train, dev_examples):
            warnings.append(
                f"{train_path}: {num_shared:,} dev examples share a text with a training example: too many "
                "rows have it; give a dev set with --dev"
            )
        dev_source = f"{train_path}, dev set"
    else:
        _check_file(dev_path, option="--dev")
        dev_table = read_table(dev_path, names, labels=table.labels)
        dev_examples, dev_source = dev_table.examples, str(dev_path)
        read.append(dev_table.problems)
        warnings += dev_table.problems.describe()
        if dev_path.samefile(train_path):
            warnings.append(f"{dev_path}: is also the training data, so dev scores are meaningless")
    check_named(names, named=columns, read=read)
    warnings += config.check_data(train, dev_examples, source=str(train_path), dev_source=dev_source)
    warnings += _check_labels(config, train, source=train_path)
    return TaskData(config, train, dev_examples, tuple(warnings))


def _find_tables(data: Path) -> tuple[Path, Path | None]:
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


def _check_file(path: Path, *, option: str) -> None:
    if not path.exists():
        raise FileFormatError(f"{path}: does not exist; give a table with {option}")
    if path.is_dir():
        raise FileFormatError(f"{path}: is a folder; give a table with {option}")


def _check_labels(config: TaskConfig, train: Sequence[Example], *, source: object) -> Iterator[str]:
    """Warn about labels that look alike, and labels without training examples."""
    for one, other in Labels(config.labels).find_alike():
        yield (
            f"{source}: labels {quote(one)} and {quote(other)} differ only in case or white space; use one "
            "spelling if they are the same label"
        )
    seen = {index for example in train for index in example.label_indices}
    missing = [name for index, name in enumerate(config.labels) if index not in seen]
    if missing:
        yield f"{source}: no training example has the label {', '.join(map(quote, missing[:5]))}"
