"""Estimate how long a fine-tuning run will take, by timing a few batches."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from albert.inference.predictor import iter_batches
from albert.model.albert_model import AlbertModel
from albert.pretrained.folder import load_model, load_vocabulary
from albert.progress import NullReporter, format_seconds
from albert.tasks.assignment import open_assignment
from albert.tasks.finetune import complete_facts, load_start
from albert.tasks.finetune_settings import choose_recipe, read_finetune_recipe
from albert.tasks.kinds.kind import AnyKind
from albert.tasks.task_facts import build_kind

_NUM_SAMPLED = 200  # examples are enough to know the lengths
_NUM_BATCHES = 3
_FIXED_SECONDS = 5.0  # reading, tokenizing, writing the model


@dataclass(frozen=True)
class Cost:
    """What one run of a task is made of, and how long it will take."""

    num_train: int
    num_dev: int
    train_pieces: float
    pieces_per_second: float
    seconds: float

    def describe(self) -> str:
        """For a person."""
        return (
            f"{self.num_train:,} examples to learn from, {self.train_pieces:,.0f} pieces a run at "
            f"{self.pieces_per_second:,.0f} a second: {format_seconds(self.seconds)} a run"
        )


def estimate_cost(
    task: str, *, model: Path, data: Path, recipe: str | None = None, overrides: Sequence[str]
) -> Cost:
    """Time a few batches of the task, with and without the backward pass."""
    config = load_model(model, heads={}).config
    name = recipe or choose_recipe(task, hidden_size=config.hidden_size)
    settings = read_finetune_recipe(name, overrides=overrides)
    assignment = open_assignment(task, data, dev=None, columns={}, dev_share=settings.dev_share)
    facts = complete_facts(
        assignment, settings, limit=config.max_position_embeddings, reporter=NullReporter()
    )
    kind, tokenizer = build_kind(facts), load_vocabulary(model)
    network = load_start(str(model), kind, settings, task=facts)
    # For train and dev: items and tokens of all examples, and tokens per second.
    num_items, num_tokens, speeds = [], [], []
    for examples, is_training in ((assignment.train, True), (assignment.dev, False)):
        sample = examples[:: max(1, len(examples) // _NUM_SAMPLED)]
        items = kind.encode(sample, tokenizer)
        scale = len(examples) / len(sample)
        num_items.append(scale * len(items))
        num_tokens.append(scale * sum(map(kind.measure, items)))
        max_tokens = settings.micro_batch_tokens
        speeds.append(_time(network, kind, items, max_tokens=max_tokens, is_training=is_training))
    epochs = settings.num_epochs
    if settings.num_steps is not None:
        epochs = settings.num_steps * settings.batch_size / num_items[0]
    num_evaluations = settings.num_evaluations + 1  # and once more for the model that is written
    seconds = (
        epochs * num_tokens[0] / speeds[0] + num_evaluations * num_tokens[1] / speeds[1] + _FIXED_SECONDS
    )
    return Cost(len(assignment.train), len(assignment.dev), epochs * num_tokens[0], speeds[0], seconds)


def _time(
    model: AlbertModel, kind: AnyKind, items: Sequence[Any], *, max_tokens: int, is_training: bool
) -> float:
    """Measure tokens per second over batches of short, middle and long items, after a warm-up batch."""
    rows = list(iter_batches([kind.measure(item) for item in items], max_tokens=max_tokens))
    chosen = rows[:: max(1, len(rows) // _NUM_BATCHES)]
    batches = [kind.build_batch([items[place] for place in places]) for places in (chosen[0], *chosen)]
    model.train(is_training)
    num_pieces, began = 0, 0.0
    with torch.set_grad_enabled(is_training):
        for number, batch in enumerate(batches):
            if number == 1:
                began = time.perf_counter()
            if is_training:
                sum(loss for loss, _ in kind.compute_terms(model, batch, depth=None).values()).backward()  # type: ignore[union-attr]
            else:
                kind.predict(model, batch, depth=None)
            num_pieces += len(batch.ids_T) if number else 0
    return num_pieces / (time.perf_counter() - began)
