"""Several fine-tuning runs in one process of torchrun: a folder of data comes in, and what each saw goes out.

`python -m tests.tasks.finetune_many MODEL DATA OUT` leaves OUT/TASK, OUT/early and OUT/rank-N.json.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from albert.tasks import finetune as door
from albert.tasks.finetune import FinetuneResult, finetune

TASKS = ("classification", "questions", "words")
# Ragged batches that are cut, an odd batch size that two processes cannot halve, and no dropout, which draws
# by process.
SETTINGS = (
    "num_steps=20", "batch_size=9", "micro_batch_tokens=60", "max_length=16", "num_evaluations=4", "dropout=0",
    "head_dropout=0", "optimizer.learning_rate=3e-3", "has_tensorboard=false",
)  # fmt: skip
# A rate at which nothing is learned for long: the best evaluation is an early one, and patience ends it.
EARLY = (*SETTINGS, "num_steps=60", "num_evaluations=30", "patience=3", "optimizer.learning_rate=1.0")


def train_all(model: Path, data: Path, out: Path) -> dict[str, dict[str, Any]]:
    """One run after the other, and how each ended."""
    results = {
        task: finetune(task, model=model, data=data / task, out=out / task, overrides=SETTINGS)
        for task in TASKS
    }
    early = finetune("classification", model=model, data=data / TASKS[0], out=out / "early", overrides=EARLY)
    return {name: _describe(result) for name, result in {**results, "early": early}.items()}


def _describe(result: FinetuneResult) -> dict[str, Any]:
    assert result.scores is not None
    progress = result.outcome.progress
    return {
        "metrics": dict(result.scores.metrics),
        "model_step": result.scores.step,
        "step": progress.step,
        "best_step": progress.best_step,
        "num_stale": progress.num_stale,
    }


def main() -> None:
    model, data, out = map(Path, sys.argv[1:])
    rank = os.environ["RANK"]
    write = door.write_finetuned

    def count_writes(run_dir: Path, *arguments: Any, **options: Any) -> Any:
        with (out / f"written-{run_dir.name}").open("a", encoding="utf-8") as file:
            file.write(rank)
        return write(run_dir, *arguments, **options)

    door.write_finetuned = count_writes  # type: ignore[assignment]
    torch.set_num_threads(1)
    (out / f"rank-{rank}.json").write_text(json.dumps(train_all(model, data, out)), encoding="utf-8")


if __name__ == "__main__":
    main()
