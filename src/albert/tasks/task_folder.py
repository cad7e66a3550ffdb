"""Folders of fine-tuned models: write ours, and infer the config of those without task.json.

The folders of `transformers` are such: a head, at most the names of its labels, and no lengths.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from albert.errors import InputError
from albert.model.albert_model import AlbertModel
from albert.pretrained.folder import Pretrained, save_model
from albert.pretrained.huggingface import TASK_NAME
from albert.pretrained.sentence_transformers import format_sentence_files
from albert.tasks.kinds.logits import LabelKind
from albert.tasks.task_facts import KindName, TaskConfig, describe_labels, format_facts
from albert.text.tokenizer import Tokenizer

# The task that a head is for, and the kind of it; the first that a model has.
_TASKS: dict[str, tuple[str, KindName]] = {
    "classification": ("classification", "texts"),
    "token_classification": ("words", "words"),
    "span": ("questions", "spans"),
    "beam_span": ("questions", "spans"),
    "choice": ("choice", "choices"),
}
# What `transformers` calls the meaning of a classifier's outputs.
PROBLEM_TYPES: dict[LabelKind, str] = {
    "one": "single_label_classification", "several": "multi_label_classification", "number": "regression",
}  # fmt: skip
_OWN_TASKS: dict[LabelKind, str] = {"one": "classification", "several": "multilabel", "number": "regression"}
_SPAN_LENGTH = 384


def save_finetuned(
    path: Path,
    model: AlbertModel,
    *,
    facts: TaskConfig,
    tokenizer: Tokenizer,
    card: str | None = None,
    labels: Sequence[str] = (),
    extras: Mapping[str, str] | None = None,
) -> None:
    """Write the model and its task as albert, `transformers` and sentence-transformers open them.

    `labels` are names for a task that has none of its own; `extras` are files that come along.
    """
    is_labelled = facts.kind in ("texts", "words")
    # What sentence-transformers reads beside an encoder.
    sentence_files = (
        format_sentence_files(model.config, max_length=facts.max_length) if facts.kind == "embedding" else {}
    )
    save_model(
        path,
        model,
        tokenizer=tokenizer,
        labels=(facts.labels or labels) if is_labelled else (),
        problem_type=PROBLEM_TYPES[facts.label_kind] if facts.kind == "texts" else None,
        card=card,
        extras={**(extras or {}), TASK_NAME: format_facts(facts), **sentence_files},
    )


def guess_facts(loaded: Pretrained) -> TaskConfig | None:
    """Infer the config from the head of a folder; None without a fine-tuned one."""
    head = next((name for name in _TASKS if name in loaded.model.heads), None)
    if head is None:
        return None
    task, kind = _TASKS[head]
    limit = loaded.config.max_position_embeddings
    facts = TaskConfig(task=task, kind=kind, max_length=_SPAN_LENGTH if kind == "spans" else max(8, limit))
    if head == "classification":
        facts = facts.model_copy(update={"label_kind": _read_label_kind(loaded) or "one"})
    return adapt_facts(loaded, facts)


def _read_label_kind(loaded: Pretrained) -> LabelKind | None:
    """Read the problem type; without one, a single output is a number, as in `transformers`."""
    is_number = count_outputs(loaded.model, "classification") == 1
    kinds = {name: kind for kind, name in PROBLEM_TYPES.items()}
    return kinds.get(loaded.folder_config.problem_type or "", "number" if is_number else None)


def reject_other_labels(source: str, loaded: Pretrained, task: TaskConfig) -> None:
    """Reject a classifier whose problem type is not the task's."""
    if task.kind != "texts" or "classification" not in loaded.model.heads:
        return
    found = _read_label_kind(loaded)
    if found is not None and found != task.label_kind:
        raise InputError(
            f"{source}: gives {describe_labels(found)} (problem_type {PROBLEM_TYPES[found]}), and "
            f"{task.task} asks for {describe_labels(task.label_kind)}; give a model of {task.task}, or ask "
            f"for {_OWN_TASKS[found]}"
        )


def adapt_facts(loaded: Pretrained, task: TaskConfig) -> TaskConfig:
    """Adapt the config of a task to a folder without one: lengths that fit its positions, and its labels.

    Its names are taken where they mean something (LABEL_0 does not), or where the task has none. The same
    labels in another order keep the folder's order and the task's spelling.
    """
    limit = loaded.config.max_position_embeddings
    changes: dict[str, Any] = {**task.fit_lengths(min(task.max_length, limit))}
    heads = loaded.model.heads
    if task.kind == "spans" and "beam_span" in heads and "span" not in heads:
        changes["has_impossible"] = True
    if task.kind in ("texts", "words") and task.label_kind != "number":
        names = loaded.folder_config.labels
        spelled = {name.lower(): name for name in task.labels}
        if task.labels and (not names or all(name.startswith("LABEL_") for name in names)):
            names = task.labels
        elif not names:
            head = "classification" if task.kind == "texts" else "token_classification"
            names = tuple(f"LABEL_{place}" for place in range(count_outputs(loaded.model, head) or 0))
        elif sorted(name.lower() for name in names) == sorted(spelled):
            names = tuple(spelled[name.lower()] for name in names)
        changes["labels"] = names
    return task.model_copy(update=changes)


def count_outputs(model: AlbertModel, head: str) -> int | None:
    """How many outputs a head has; None where it is no single linear map."""
    linear = getattr(model.head(head), "linear", None)
    return None if linear is None else int(linear.out_features)
