"""One side of the fine-tuning comparison: time rounds of sentences from a file.

`python -m bench.finetuning_sides TASK ENGINE BATCH_SIZE PADDING FILE`: each line on standard input starts a
round of training or evaluation, by our loop or by the `Trainer` of `transformers`.
"""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from albert.examples.randomness import ExampleOrder
from albert.model.albert_model import build_model
from albert.model.config import build_preset
from albert.progress import NullReporter
from albert.tasks.classification import ClassificationConfig, ClassificationTask, EncodedText, TextExample
from albert.tasks.finetune_job import FinetuneJob
from albert.tasks.finetune_settings import FinetuneSettings
from albert.tasks.sequences import TaskSequence
from albert.training.loop import TrainingLoop
from bench.against_transformers import THREADS, build_theirs
from bench.sentiment import MAX_LENGTH, Row

PRESET = "albert-base-v2"


@dataclass
class RoundClock:
    """Time each round from a line on standard input to the end of the round."""

    began: float = 0.0

    def begin(self) -> bool:
        """Wait for the next line; return whether there is another round."""
        has_line = bool(sys.stdin.readline())
        self.began = time.perf_counter()
        return has_line

    def end(self) -> None:
        """Print the seconds of the round."""
        print(json.dumps({"seconds": time.perf_counter() - self.began}), flush=True)


@dataclass(frozen=True)
class TimedJob(FinetuneJob[TextExample, EncodedText, Any, Any]):
    """Fine-tuning that waits for the next round when the loop writes a record: at the end of a round."""

    clock: RoundClock = field(default_factory=RoundClock)

    def describe(self, step: int) -> dict[str, float]:
        """End the round, and wait for the next."""
        self.clock.end()
        self.clock.begin()
        return super().describe(step)


def build_items(rows: Sequence[Row]) -> list[EncodedText]:
    """Build the items of our tasks from rows."""
    return [
        EncodedText(str(index), TaskSequence(row.ids, len(row.ids)), row.label, 0)
        for index, row in enumerate(rows)
    ]


def build_job(rows: Sequence[Row], *, num_steps: int, batch_size: int, log_every: int) -> TimedJob:
    """Build a job at base width that trains on the rows in their order."""
    settings = FinetuneSettings(
        batch_size=batch_size,
        num_steps=num_steps,
        log_every=log_every,
        num_evaluations=1,
        has_tensorboard=False,
    )
    items = build_items(rows)
    train = list(items)
    order = ExampleOrder(len(items), seed=settings.seed).numbers(np.arange(len(items)), epoch=0)
    for item, index in zip(items, order, strict=True):
        train[index] = item
    config = ClassificationConfig(
        task="sst-2", labels=("0", "1"), metrics=("accuracy",), max_length=MAX_LENGTH
    )
    task = ClassificationTask(config)
    model = build_model(build_preset(PRESET), heads=task.heads)
    texts = [TextExample(item.id, "", None, item.label) for item in items[:1]]
    return TimedJob(model, task, settings, train=train, dev=items[:1], dev_examples=texts)


def train_ours(rounds: Sequence[list[Row]], *, batch_size: int) -> None:
    """Train with the loop of `albert finetune`: micro-batches without padding, clipping, fused AdamW."""
    num_steps = len(rounds[0]) // batch_size
    rows = [row for part in rounds for row in part]
    job = build_job(rows, num_steps=num_steps * len(rounds), batch_size=batch_size, log_every=num_steps)
    with tempfile.TemporaryDirectory() as name:
        loop = TrainingLoop(job, run_dir=Path(name), reporter=NullReporter())
        job.clock.begin()
        loop.run()


def evaluate_ours(rounds: Sequence[list[Row]], *, batch_size: int) -> None:
    """Evaluate like `albert finetune`: predictions and metrics."""
    job = build_job(rounds[0], num_steps=1, batch_size=batch_size, log_every=1)
    job.model.eval()
    for rows in rounds:
        items = build_items(rows)
        texts = [TextExample(item.id, "", None, item.label) for item in items]
        current = replace(job, dev=items, dev_examples=texts)
        if not current.clock.begin():
            return
        current.evaluate(0)
        current.clock.end()


def build_features(rows: Sequence[Row], *, is_full: bool) -> list[dict[str, Any]]:
    """Build the output of a `transformers` tokenizer; `is_full` pads each row to the maximum length."""
    features = []
    for row in rows:
        padding = MAX_LENGTH - len(row.ids) if is_full else 0
        features.append(
            {
                "input_ids": [*row.ids, *[0] * padding],
                "token_type_ids": [0] * (len(row.ids) + padding),
                "attention_mask": [1] * len(row.ids) + [0] * padding,
                "label": row.label,
            }
        )
    return features


def build_trainer(rows: Sequence[Row], folder: str, *, batch_size: int, is_full: bool) -> Any:
    """Build a Trainer with its defaults except for batch size, order of the rows, and logging.

    With a tokenizer, its default collator pads to the longest of a batch. It uses only the padding id of it.
    """
    import tokenizers
    import transformers

    words = tokenizers.models.WordLevel({"<pad>": 0, "<unk>": 1}, unk_token="<unk>")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(words), pad_token="<pad>", unk_token="<unk>"
    )
    arguments = transformers.TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=batch_size,
        per_device_eval_batch_size=batch_size,
        num_train_epochs=1,
        train_sampling_strategy="sequential",
        use_cpu=True,
        dataloader_pin_memory=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(
        build_theirs(),
        arguments,
        train_dataset=build_features(rows, is_full=is_full),
        data_collator=transformers.default_data_collator if is_full else None,
        processing_class=tokenizer,
        compute_metrics=lambda found: {"accuracy": float((found[0].argmax(-1) == found[1]).mean())},
    )
    trainer.remove_callback(transformers.PrinterCallback)  # standard output has the times
    return trainer


def train_theirs(rounds: Sequence[list[Row]], *, batch_size: int, is_full: bool) -> None:
    """Run `Trainer.train`, waiting after each round."""
    import transformers

    clock, num_steps = RoundClock(), len(rounds[0]) // batch_size

    class Wait(transformers.TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            clock.begin()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % num_steps == 0:
                clock.end()
                clock.begin()

    with tempfile.TemporaryDirectory() as name:
        rows = [row for part in rounds for row in part]
        trainer = build_trainer(rows, name, batch_size=batch_size, is_full=is_full)
        trainer.add_callback(Wait())
        trainer.train()


def evaluate_theirs(rounds: Sequence[list[Row]], *, batch_size: int, is_full: bool) -> None:
    """Run `Trainer.evaluate` on each round."""
    clock = RoundClock()
    with tempfile.TemporaryDirectory() as name:
        trainer = build_trainer(rounds[0], name, batch_size=batch_size, is_full=is_full)
        for rows in rounds:
            features = build_features(rows, is_full=is_full)
            if not clock.begin():
                return
            trainer.evaluate(features)
            clock.end()


def main(task: str, engine: str, batch_size: int, padding: str, path: Path) -> None:
    """Run the rounds of the file."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    rounds = [[Row(tuple(ids), label) for ids, label in rows] for rows in json.loads(path.read_text())]
    if engine == "ours":
        run = train_ours if task == "training" else evaluate_ours
        run(rounds, batch_size=batch_size)
    else:
        run_theirs = train_theirs if task == "training" else evaluate_theirs
        run_theirs(rounds, batch_size=batch_size, is_full=padding == "full")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
