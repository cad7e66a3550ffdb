"""Several fine-tuning runs in one launch of torchrun, whose start takes as long as a dozen of them.

`python -m tests.tasks.finetune_many MODEL DATA OUT` writes OUT/TASK, OUT/student (of DATA/teacher), OUT/early
and OUT/rank-N.json; then it runs `albert finetune` with two seeds into OUT/seeds, and with a table that is
rejected.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from albert.cli.main import _run
from albert.tasks import finetune as finetune_module
from albert.tasks.finetune import FinetuneResult, finetune

TASKS = ("classification", "question-answering", "token-classification")
# Ragged micro-batches, an odd batch size, and no dropout, which differs by process.
SETTINGS = (
    "num_steps=20", "batch_size=9", "micro_batch_tokens=60", "max_length=16", "num_evaluations=1",
    "dropout=0", "head_dropout=0", "optimizer.learning_rate=3e-3", "optimizer.eps=1e-4",
    "has_tensorboard=false",
)  # fmt: skip
# A rate at which nothing is learned: patience ends the run.
EARLY = (*SETTINGS, "num_steps=40", "num_evaluations=20", "patience=2", "optimizer.learning_rate=1.0")
SHORT = ("num_steps=4", "batch_size=8", "num_evaluations=1", "has_tensorboard=false")


def train_all(model: Path, data: Path, out: Path) -> dict[str, dict[str, Any]]:
    """Train one run after the other and describe how each ended."""
    results = {
        task: finetune(task, model=model, data=data / task, out=out / task, overrides=SETTINGS)
        for task in TASKS
    }
    table = data / TASKS[0] / "dev.jsonl"
    settings = (*SETTINGS, "rename_share=0")
    student = finetune(
        TASKS[0],
        model=model,
        data=data / TASKS[0],
        out=out / "student",
        overrides=settings,
        teacher=data / "teacher",
        unlabeled=table,
    )
    early = finetune("classification", model=model, data=data / TASKS[0], out=out / "early", overrides=EARLY)
    return {
        name: _describe(result) for name, result in {**results, "student": student, "early": early}.items()
    }


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
    save = finetune_module.save_finetuned  # type: ignore[attr-defined]

    def count_writes(path: Path, *arguments: Any, **options: Any) -> None:
        with (out / f"written-{path.parent.name}").open("a", encoding="utf-8") as file:
            file.write(rank)
        save(path, *arguments, **options)

    finetune_module.save_finetuned = count_writes  # type: ignore[attr-defined]
    torch.set_num_threads(1)
    (out / f"rank-{rank}.json").write_text(json.dumps(train_all(model, data, out)), encoding="utf-8")
    words = ["finetune", "classification", "--model", str(model)]
    whole = ["--data", str(data / "classification"), "--out", str(out / "seeds"), "--seeds", "2", "--json"]
    assert _run([*words, *whole, *SHORT]) == 0
    bad = ["--data", str(data / "classification" / "train.jsonl"), "--dev", str(data / "bad.jsonl")]
    sys.exit(_run([*words, *bad, "--out", str(out / "bad"), *SHORT]))


if __name__ == "__main__":
    main()
