"""Folders of the tiny model with a new head, as fine-tuning writes them."""

import warnings
from pathlib import Path
from typing import Any

from albert.pretrained.folder import load_model, load_vocabulary
from albert.pretrained.huggingface import TASK_NAME
from albert.tasks.catalogue import build_task, find_task
from albert.tasks.classification import ClassificationConfig
from albert.tasks.embedding import EmbeddingConfig
from albert.tasks.models import save_finetuned
from albert.tasks.multiple_choice import MultipleChoiceConfig
from albert.tasks.question_answering import QuestionAnsweringConfig
from albert.tasks.task import TaskConfig
from albert.tasks.token_classification import TokenClassificationConfig

SENTIMENT = ClassificationConfig(task="classification", labels=("bad", "fine", "good"), max_length=40)
TOPICS = ClassificationConfig(task="multilabel", label_kind="several", labels=("a", "b"), max_length=40)
STARS = ClassificationConfig(task="regression", label_kind="number", max_length=40)
PLACES = TokenClassificationConfig(
    task="token-classification", labels=("O", "B-PLACE", "I-PLACE"), max_length=40
)
ANSWERS = QuestionAnsweringConfig(task="question-answering", max_length=40, stride=8, max_question=8)
OPTIONS = MultipleChoiceConfig(task="multiple-choice", max_length=40, max_ending=16)
VECTORS = EmbeddingConfig(task="embedding", max_length=40)
EARLY = SENTIMENT.model_copy(update={"has_exits": True})


def config_of(task: str, **changes: Any) -> TaskConfig:
    """The config of a published task, for the 40 positions of the tiny model."""
    config = find_task(task).config
    return config.model_copy(update={**config.fit_length(40), **changes})


def write_finetuned_folder(
    out: Path, tiny_folder: Path, config: TaskConfig, *, seed: int = 1, has_config: bool = True
) -> Path:
    """Write the tiny model with a random head; without `has_config`, as another library would."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the head is new
        model = load_model(tiny_folder, heads=build_task(config).heads, seed=seed).model
    save_finetuned(out, model, config=config, tokenizer=load_vocabulary(tiny_folder))
    if not has_config:
        (out / TASK_NAME).unlink()
    return out
