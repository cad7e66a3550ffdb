"""The model of a fine-tuning run: a pretrained folder and a kind of task come in, a model goes out."""

import warnings
from typing import Any

from albert.model.albert_model import AlbertModel
from albert.model.runtime import select_device
from albert.pretrained.folder import NewWeightsWarning, load_model
from albert.pretrained.hub import resolve_source
from albert.tasks.finetune_settings import FinetuneSettings
from albert.tasks.kinds.kind import Kind
from albert.tasks.task_facts import TaskFacts, read_facts


def load_start(
    source: str, kind: Kind[Any, Any, Any, Any, Any], settings: FinetuneSettings, *, task: TaskFacts
) -> AlbertModel:
    """The pretrained encoder with the head of the task: the folder's, if it was taught the same labels.

    Else it is fresh from the seed; of a folder that does not say what it was taught, also where the number of
    labels is another.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NewWeightsWarning)  # a fresh head is what fine-tuning is for
        model = load_model(
            source,
            heads=kind.heads,
            seed=settings.seed,
            device=select_device(settings.runtime.device),
            gradient_checkpointing=settings.gradient_checkpointing,
            dropouts=list_dropouts(settings),
            has_fresh_heads=_was_taught_another(source, task),
        ).model
    if settings.is_compiled:
        model.encoder.compile(dynamic=True)
    return model


def _was_taught_another(source: str, task: TaskFacts) -> bool:
    """Whether the folder's head answers another question, which tells nothing of this one."""
    known = read_facts(resolve_source(source))
    keys = ("kind", "label_kind", "labels")
    return known is not None and any(getattr(known, key) != getattr(task, key) for key in keys)


def list_dropouts(settings: FinetuneSettings) -> dict[str, float]:
    """The probabilities that a recipe changes, by their keys in config.json."""
    encoder = (
        {}
        if settings.dropout is None
        else dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), settings.dropout)
    )
    head = {} if settings.head_dropout is None else {"classifier_dropout_prob": settings.head_dropout}
    return encoder | head
