"""Tasks on a user's own tables: the name of one comes in; how it is read, learned and scored goes out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from albert.tasks.kinds.logits import LabelKind
from albert.tasks.readers.columns import (
    ChoiceColumns,
    Columns,
    SimilarityColumns,
    SpanColumns,
    TextColumns,
    WordColumns,
)
from albert.tasks.task_facts import KindName


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


_TASKS = (
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
OWN_TASKS: Mapping[str, OwnTask] = {task.name: task for task in _TASKS}
