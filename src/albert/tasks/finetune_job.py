"""Fine-tuning as a job of the loop: items and a kind of task come in; batches, losses and scores go out."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import nn

from albert.examples.randomness import ExampleOrder, share_step
from albert.inference.predictor import iter_batches
from albert.model.albert_model import AlbertModel
from albert.tasks.asking import ask_items
from albert.tasks.batches import TaskBatch
from albert.tasks.examples import Example
from albert.tasks.finetune_settings import FinetuneSettings
from albert.tasks.kinds.kind import Kind, Terms
from albert.tasks.renaming import Renaming
from albert.training.optimizers import build_optimizer
from albert.training.step import Objective
from albert.training.world import World

I = TypeVar("I")  # noqa: E741 - an item
A = TypeVar("A")


class TaskLosses(nn.Module, Generic[A]):
    """The model with its question, as the loop trains it."""

    def __init__(self, model: AlbertModel, kind: Kind[Any, Any, A, Any, Any]) -> None:
        super().__init__()
        self.model, self.kind = model, kind

    def forward(self, batch: TaskBatch[A], *, depth: int | None = None) -> Terms:
        """For each objective the summed loss and the number of hits."""
        return self.kind.compute_terms(self.model, batch, depth=depth)


@dataclass(frozen=True)
class FinetuneJob(Generic[I, A]):
    """A pretrained model that learns a task from `train`, and is asked about `dev`, in items and examples."""

    model: AlbertModel
    kind: Kind[Any, I, A, Any, Any]
    settings: FinetuneSettings
    train: Sequence[I]
    dev: Sequence[I]
    dev_examples: Sequence[Example]
    world: World = field(default_factory=World)
    renaming: Renaming | None = None
    name: str = "finetune"

    @cached_property
    def num_steps(self) -> int:
        """As many as were asked for, or as the epochs have."""
        settings = self.settings
        epochs = settings.num_epochs * len(self.train) / settings.batch_size
        return settings.num_steps or max(1, round(epochs))

    @cached_property
    def objective(self) -> Objective[TaskBatch[A]]:
        """What the loop asks of a batch."""
        shortest = min(self.train, key=self.kind.measure)
        return Objective(
            names=self.kind.names,
            count=self.kind.count,
            placeholder=cache(lambda: self.kind.build_batch([shortest])),
        )

    def build_network(self) -> TaskLosses[A]:
        """The model with its question."""
        return TaskLosses(self.model, self.kind)

    def iter_batches(self, first_step: int) -> Generator[list[TaskBatch[A]], None, None]:
        """The micro-batches of each step: the examples of its place in a shuffled row of epochs."""
        order = ExampleOrder(len(self.train), seed=self.settings.seed)
        for step in range(first_step, self.num_steps):
            parts = order.step(step, batch_size=self.settings.batch_size)
            shares = share_step(parts, rank=self.world.rank, world_size=self.world.size)
            numbers = np.concatenate([found for _, found in shares]) if shares else np.empty(0, np.int64)
            batches = self._cut([self.train[number] for number in numbers])
            renaming = self.renaming
            yield batches if renaming is None else [renaming.apply(batch, step=step) for batch in batches]

    def _cut(self, items: Sequence[I]) -> list[TaskBatch[A]]:
        """In shares of similar length, so that each is about as much work; uncut where items are compared."""
        if self.kind.is_whole:
            return [self.kind.build_batch(items)] if items else []
        lengths = [self.kind.measure(item) for item in items]
        batches = iter_batches(lengths, max_tokens=self.settings.micro_batch_tokens)
        return [self.kind.build_batch([items[place] for place in places]) for places in batches]

    def count_tokens(self, batch: TaskBatch[A]) -> int:
        """Tokens; all of them are real."""
        return len(batch.ids_T)

    def build_optimizer(self) -> torch.optim.Optimizer:
        """The one of the recipe."""
        return build_optimizer(self.model, self.settings.optimizer)

    def find_options(self, step: int) -> dict[str, Any]:
        """The model's own depth."""
        return {"depth": None}

    def is_new_stage(self, step: int) -> bool:
        """There is one stage."""
        return False

    def find_cost(self, step: int) -> float:
        """Steps are alike."""
        return float(step)

    def describe(self, step: int) -> dict[str, float]:
        """The epoch."""
        return {"epoch": round((step + 1) * self.settings.batch_size / len(self.train), 3)}

    def evaluate(self, step: int) -> dict[str, float]:
        """The metrics of the task on the development set."""
        answers = ask_items(
            self.model,
            self.kind,
            self.dev,
            max_tokens=self.settings.micro_batch_tokens,
            world=self.world,
        )
        return self.kind.score(answers, self.dev_examples)

    def score(self, figures: dict[str, float]) -> float:
        """The task's own score; lower is better to the loop."""
        return -figures["score"]
