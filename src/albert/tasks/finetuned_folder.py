"""A fine-tuned model and what it answers come in; a folder that knows its task goes out."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from albert.model.albert_model import AlbertModel
from albert.pretrained.folder import save_model
from albert.pretrained.huggingface import TASK_NAME
from albert.pretrained.sentence_transformers import format_sentence_files
from albert.tasks.foreign_folder import PROBLEM_TYPES
from albert.tasks.task_facts import TaskFacts, format_facts
from albert.text.tokenizer import Tokenizer


def save_finetuned(
    path: Path,
    model: AlbertModel,
    *,
    facts: TaskFacts,
    tokenizer: Tokenizer,
    card: str | None = None,
    labels: Sequence[str] = (),
    extras: Mapping[str, str] | None = None,
) -> None:
    """Write the model and its task as albert, `transformers` and sentence-transformers open them.

    `labels` are names for a task that has none of its own; `extras` are files that come along.
    """
    is_labelled = facts.kind in ("texts", "words")
    # What others want to find beside an encoder of sentences.
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
