"""A fine-tuned model comes in; the files that other libraries look for beside its weights go out."""

from albert.model.albert_model import AlbertModel
from albert.pretrained.sentence_transformers import format_sentence_files
from albert.tasks.task_facts import TaskFacts


def list_extras(model: AlbertModel, facts: TaskFacts) -> dict[str, str]:
    """What others want to find beside an encoder of sentences."""
    if facts.kind != "embedding":
        return {}
    return format_sentence_files(model.config, max_length=facts.max_length)
