"""The name of a task comes in; its files, columns, labels and lengths go out, from one table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from albert.errors import FileFormatError, InputError, suggest
from albert.tasks.kinds.logits import LabelKind
from albert.tasks.labels import Labels
from albert.tasks.readers.columns import (
    ChoiceColumns,
    Columns,
    SimilarityColumns,
    SpanColumns,
    TextColumns,
    WordColumns,
)
from albert.tasks.task_facts import KindName

Kind = Literal["texts", "spans", "choices"]
ONE_FILE_EACH: Mapping[str, str] = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
BINARY = Labels(("0", "1"))
ENTAILMENT = Labels(("entailment", "not_entailment"))
THREE_WAY = Labels(("entailment", "neutral", "contradiction"))


@dataclass(frozen=True)
class Task:
    """What is fixed about a published task.

    `files` leads from splits to the names below `folder`. Of GLUE: `labels` are spelled as in the files, in
    the order of GLUE's outputs (None: the label is a number), and `label_names` say what they mean; `header`
    names the columns of the splits `headless`, whose files do not; `submissions` are the names under which
    predictions are submitted. Where GLUE names two `metrics`, the score is their mean; class 1 is what F1
    counts. `model_of` is the task whose model answers this one.
    """

    name: str
    kind: Kind
    folder: str
    max_length: int = 512
    files: Mapping[str, str] = field(default_factory=lambda: ONE_FILE_EACH)
    first: str = "sentence1"
    second: str | None = "sentence2"
    label: str = "label"
    labels: Labels | None = None
    label_names: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    headless: tuple[str, ...] = ()
    submissions: Mapping[str, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    has_impossible: bool = False
    model_of: str | None = None


_TASKS = (
    Task(
        "cola", "texts", "CoLA", first="sentence", second=None, labels=BINARY,
        label_names=("unacceptable", "acceptable"), header=("source", "label", "mark", "sentence"),
        headless=("train", "dev"), metrics=("matthews",), submissions={"test": "CoLA.tsv"},
    ),
    Task(
        "sst-2", "texts", "SST-2", first="sentence", second=None, labels=BINARY,
        label_names=("negative", "positive"), metrics=("accuracy",), submissions={"test": "SST-2.tsv"},
    ),
    Task(
        "mrpc", "texts", "MRPC", first="#1 String", second="#2 String", label="Quality", labels=BINARY,
        label_names=("not_equivalent", "equivalent"), metrics=("accuracy", "f1"),
        submissions={"test": "MRPC.tsv"},
    ),
    Task(
        "qqp", "texts", "QQP", first="question1", second="question2", label="is_duplicate", labels=BINARY,
        label_names=("not_duplicate", "duplicate"), metrics=("accuracy", "f1"),
        submissions={"test": "QQP.tsv"},
    ),
    Task(
        "sts-b", "texts", "STS-B", label="score", metrics=("pearson", "spearman"),
        submissions={"test": "STS-B.tsv"},
    ),
    Task(
        "mnli", "texts", "MNLI", label="gold_label", labels=THREE_WAY, label_names=THREE_WAY.names,
        files={
            "train": "train.tsv", "dev": "dev_matched.tsv", "dev-mismatched": "dev_mismatched.tsv",
            "test": "test_matched.tsv", "test-mismatched": "test_mismatched.tsv",
        },
        metrics=("accuracy",), submissions={"test": "MNLI-m.tsv", "test-mismatched": "MNLI-mm.tsv"},
    ),
    Task(
        "qnli", "texts", "QNLI", first="question", second="sentence", labels=ENTAILMENT,
        label_names=ENTAILMENT.names, metrics=("accuracy",), submissions={"test": "QNLI.tsv"},
    ),
    Task(
        "rte", "texts", "RTE", labels=ENTAILMENT, label_names=ENTAILMENT.names,
        metrics=("accuracy",), submissions={"test": "RTE.tsv"},
    ),
    Task(
        "wnli", "texts", "WNLI", labels=BINARY, label_names=("not_entailment", "entailment"),
        metrics=("accuracy",), submissions={"test": "WNLI.tsv"},
    ),
    Task(
        "ax", "texts", "diagnostic", labels=THREE_WAY, label_names=THREE_WAY.names,
        files={"test": "diagnostic.tsv"}, metrics=("matthews",), submissions={"test": "AX.tsv"},
        model_of="mnli",
    ),
    Task(
        "squad-1.1", "spans", "squad", max_length=384,
        files={"train": "train-v1.1.json", "dev": "dev-v1.1.json"},
    ),
    Task(
        "squad-2.0", "spans", "squad", has_impossible=True,
        files={"train": "train-v2.0.json", "dev": "dev-v2.0.json"},
    ),
    Task("race", "choices", "race", files={"train": "train", "dev": "dev", "test": "test"}),
)  # fmt: skip
TASKS: Mapping[str, Task] = {task.name: task for task in _TASKS}
ALIASES: Mapping[str, str] = {"diagnostic": "ax"}


def find_task(name: str) -> Task:
    """The task of a name, in capitals or not; an unknown one is refused with the nearest."""
    plain = name.lower()
    task = TASKS.get(ALIASES.get(plain, plain))
    if task is None:
        raise InputError(f"no task {name!r}; {suggest(plain, TASKS)}")
    return task


def find_split(task: Task, data: Path, *, split: str) -> Path:
    """Where a split of a task lies: in the folder that is given, or in the task's own below it."""
    if split not in task.files:
        raise InputError(f"{task.name} has no split {split!r} but {', '.join(task.files)}")
    data = Path(data)
    for folder in (data / task.folder, data, data / "glue" / task.folder):
        if (folder / task.files[split]).exists():
            return folder / task.files[split]
    raise FileFormatError(
        f"{data / task.folder / task.files[split]}: not there, nor is {data / task.files[split]}; "
        f"give the folder that has {task.folder}/, or {task.folder}/ itself"
    )


@dataclass(frozen=True)
class OwnTask:
    """What a table teaches: `columns` are its columns' class, `fixed` what the task says about them."""

    name: str
    kind: KindName
    columns: type[Columns]
    label_kind: LabelKind = "one"
    metrics: tuple[str, ...] = ()
    fixed: tuple[tuple[str, Any], ...] = ()
    has_impossible: bool = False


_OWN_TASKS = (
    OwnTask(
        "classification", "texts", TextColumns, metrics=("accuracy", "macro_f1"),
        fixed=(("label_kind", "one"),),
    ),
    OwnTask(
        "multilabel", "texts", TextColumns, "several", ("multilabel_micro_f1", "multilabel_macro_f1"),
        fixed=(("label_kind", "several"),),
    ),
    OwnTask(
        "regression", "texts", TextColumns, "number", ("pearson", "spearman"),
        fixed=(("label_kind", "number"),),
    ),
    OwnTask("words", "words", WordColumns),
    OwnTask("questions", "spans", SpanColumns, has_impossible=True),
    OwnTask("embedding", "embedding", SimilarityColumns, "number"),
    OwnTask("choice", "choices", ChoiceColumns, metrics=("accuracy",)),
)  # fmt: skip
OWN_TASKS: Mapping[str, OwnTask] = {task.name: task for task in _OWN_TASKS}
