"""Fine-tune the tiny model on examples of a task."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from albert.model.albert_model import AlbertModel
from albert.pretrained.folder import load_model, load_vocabulary
from albert.progress import NullReporter
from albert.tasks.finetune_job import FinetuneJob, TokenReplacement
from albert.tasks.finetune_settings import FinetuneSettings
from albert.training.loop import LoopOutcome, TrainingLoop

Job = FinetuneJob[Any, Any, Any, Any]


def load_for(task: Any, folder: Path) -> AlbertModel:
    """The model with new heads for the task."""
    with pytest.warns(match=", ".join(f"heads.{name}" for name in task.heads)):
        return load_model(folder, heads=task.heads, seed=1).model


def finetune(
    folder: Path,
    out: Path,
    task: Any,
    *,
    train: Sequence[Any],
    dev: Sequence[Any],
    num_steps: int,
    **changes: object,
) -> tuple[LoopOutcome, Job]:
    tokenizer = load_vocabulary(folder)
    values = {
        "num_steps": num_steps,
        "batch_size": 16,
        "optimizer": {"name": "adamw", "learning_rate": 3e-3},
        "num_evaluations": 2,
        "has_tensorboard": False,
        **changes,
    }
    settings = FinetuneSettings.model_validate(values)
    job: Job = FinetuneJob(
        load_for(task, folder),
        task,
        settings,
        train=[item for item in task.encode(train, tokenizer) if task.has_label(item)],
        dev=task.encode(dev, tokenizer),
        dev_examples=dev,
        replacement=TokenReplacement.of(tokenizer, share=settings.rename_share, seed=settings.seed),
    )
    return TrainingLoop(job, run_dir=out, reporter=NullReporter()).run(), job
