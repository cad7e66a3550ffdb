"""A kind of task and examples come in; the tiny model, fine-tuned on them, and its job go out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from albert.model.albert_model import AlbertModel
from albert.pretrained.folder import load_model, load_vocabulary
from albert.progress import NullReporter
from albert.tasks.finetune_job import FinetuneJob, Renaming
from albert.tasks.finetune_settings import FinetuneSettings
from albert.training.loop import LoopOutcome, TrainingLoop


def load_for(kind: Any, folder: Path) -> AlbertModel:
    with pytest.warns(match="started fresh"):
        return load_model(folder, heads=kind.heads, seed=1).model


def finetune(
    folder: Path,
    out: Path,
    kind: Any,
    *,
    train: Sequence[Any],
    dev: Sequence[Any],
    num_steps: int,
    **changes: object,
) -> tuple[LoopOutcome, FinetuneJob[Any, Any]]:
    tokenizer = load_vocabulary(folder)
    settings = FinetuneSettings.model_validate(
        {
            "num_steps": num_steps,
            "batch_size": 16,
            "optimizer": {"name": "adamw", "learning_rate": 3e-3},
            "num_evaluations": 2,
            "has_tensorboard": False,
            **changes,
        }
    )
    model = load_for(kind, folder)
    items = [item for item in kind.encode(train, tokenizer) if kind.teaches(item)]
    job: FinetuneJob[Any, Any] = FinetuneJob(
        model,
        kind,
        settings,
        train=items,
        dev=kind.encode(dev, tokenizer),
        dev_examples=dev,
        renaming=Renaming.of(tokenizer, share=settings.rename_share, seed=settings.seed),
    )
    loop = TrainingLoop(job, run_dir=out, reporter=NullReporter())
    return loop.run(), job
