"""Tasks on a user's own tables: the name of one comes in; how it is read, learned and scored goes out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from albert.settings import Settings
from albert.tasks.kinds.logits import LabelKind
from albert.tasks.readers.kinds import (
    CHOICES,
    SIMILARITY,
    SPANS,
    TEXTS,
    WORDS,
    ChoiceColumns,
    SimilarityColumns,
    SpanColumns,
    TableKind,
    TextColumns,
    WordColumns,
)
from albert.tasks.task_facts import KindName


@dataclass(frozen=True)
class OwnTask:
    """What a table teaches: `columns` are its columns' class, `fixed` what the task says about them."""

    name: str
    kind: KindName
    table: TableKind[Any, Any]
    columns: type[Settings]
    label_kind: LabelKind = "one"
    metrics: tuple[str, ...] = ()
    fixed: tuple[tuple[str, Any], ...] = ()
    has_impossible: bool = False


_TASKS = (
    OwnTask(
        "classification", "texts", TEXTS, TextColumns, metrics=("accuracy", "macro_f1"),
        fixed=(("label_kind", "one"),),
    ),
    OwnTask(
        "multilabel", "texts", TEXTS, TextColumns, "several", ("multilabel_micro_f1", "multilabel_macro_f1"),
        fixed=(("label_kind", "several"),),
    ),
    OwnTask(
        "regression", "texts", TEXTS, TextColumns, "number", ("pearson", "spearman"),
        fixed=(("label_kind", "number"),),
    ),
    OwnTask("words", "words", WORDS, WordColumns),
    OwnTask("questions", "spans", SPANS, SpanColumns, has_impossible=True),
    OwnTask("embedding", "embedding", SIMILARITY, SimilarityColumns, "number"),
    OwnTask("choice", "choices", CHOICES, ChoiceColumns, metrics=("accuracy",)),
)  # fmt: skip
OWN_TASKS: Mapping[str, OwnTask] = {task.name: task for task in _TASKS}
