"""What a fine-tuning run was started with: a model and an assignment come in, facts go out."""

import hashlib
from pathlib import Path
from typing import Literal

from albert.model.albert_model import AlbertModel
from albert.tasks.finetune_settings import FinetuneSettings
from albert.tasks.task_facts import TaskFacts
from albert.training.run_folder import RunFacts, read_run


class FinetuneFacts(RunFacts):
    """The task, the model it starts from, and hashes by which both are known again.

    `guess` is the score of one that does not read the texts.
    """

    job: Literal["finetune"] = "finetune"
    recipe: str
    task: TaskFacts
    model: str
    dev: str | None = None
    weights: str
    examples: str
    num_train: int
    num_dev: int
    num_steps: int | None = None
    guess: float | None = None


def identify_weights(model: AlbertModel) -> str:
    """A hash of the encoder: heads may be fresh."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def read_finetune_run(run_dir: Path) -> tuple[FinetuneSettings, FinetuneFacts]:
    """How a fine-tuning run was begun."""
    return read_run(run_dir, FinetuneSettings, FinetuneFacts)
