"""Fine-tuning as a job of the training loop: batches, losses and dev scores."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import nn

from albert.examples.randomness import ExampleOrder, share_step
from albert.inference.predictor import iter_batches
from albert.model.albert_model import AlbertModel
from albert.tasks.answering import ask_items
from albert.tasks.examples import Example
from albert.tasks.finetune_settings import FinetuneSettings
from albert.tasks.kinds.kind import Ints, Kind, TaskBatch, Terms
from albert.text.tokenizer import Tokenizer
from albert.training.distributed import DistributedContext
from albert.training.loop import Job
from albert.training.optimizers import build_optimizer
from albert.training.step import Objective

I = TypeVar("I")  # noqa: E741 - an item
A = TypeVar("A")


@dataclass(frozen=True)
class Renaming:
    """At each step replace another `share` of the vocabulary by other tokens.

    What two texts have in common stays, since a token is replaced by the same one in both; what could be
    memorized of an example changes whenever it comes again. Small models then compare texts instead
    (docs/log.md). The replacement depends on the seed and the step alone: a resumed run has the same, and so
    has every process.
    """

    ordinary: Ints
    vocab_size: int
    share: float
    seed: int

    @staticmethod
    def of(tokenizer: Tokenizer, *, share: float, seed: int) -> "Renaming | None":
        """Build it for a vocabulary, special tokens excluded; None where nothing is replaced."""
        special = tokenizer.special_ids
        ordinary = np.array([i for i in range(tokenizer.vocab_size) if i not in special], dtype=np.int64)
        return Renaming(ordinary, tokenizer.vocab_size, share, seed) if share else None

    def apply(self, batch: TaskBatch[A], *, step: int) -> TaskBatch[A]:
        """Replace the tokens of a batch."""
        return replace(batch, ids_T=self.draw_names(step)[batch.ids_T])

    def draw_names(self, step: int) -> Ints:
        """Draw the id that replaces each id at a step."""
        generator = np.random.default_rng((self.seed, step))
        names = np.arange(self.vocab_size)
        renamed = self.ordinary[generator.random(len(self.ordinary)) < self.share]
        names[renamed] = generator.choice(self.ordinary, len(renamed))
        return names


class TaskLosses(nn.Module, Generic[A]):
    """The model with the loss of its task type, as the loop trains it."""

    def __init__(self, model: AlbertModel, kind: Kind[Any, Any, A, Any, Any]) -> None:
        super().__init__()
        self.model, self.kind = model, kind

    def forward(self, batch: TaskBatch[A], *, depth: int | None = None) -> Terms:
        """Compute for each objective the summed loss and the number of correct predictions."""
        return self.kind.compute_terms(self.model, batch, depth=depth)


@dataclass(frozen=True)
class FinetuneJob(Job[TaskBatch[A]], Generic[I, A]):
    """A pretrained model that is trained on the items `train` and evaluated on the items `dev`."""

    model: AlbertModel
    kind: Kind[Any, I, A, Any, Any]
    settings: FinetuneSettings
    train: Sequence[I]
    dev: Sequence[I]
    dev_examples: Sequence[Example]
    world: DistributedContext = field(default_factory=DistributedContext)
    renaming: Renaming | None = None
    name: str = "finetune"

    @cached_property
    def num_steps(self) -> int:
        """As set, or as many as the epochs have."""
        settings = self.settings
        epochs = settings.num_epochs * len(self.train) / settings.batch_size
        return settings.num_steps or max(1, round(epochs))

    @cached_property
    def objective(self) -> Objective[TaskBatch[A]]:
        """The names and counts that the loop needs of a batch."""
        shortest = min(self.train, key=self.kind.measure)
        return Objective(
            names=self.kind.names,
            count=self.kind.count,
            placeholder=cache(lambda: self.kind.build_batch([shortest])),
        )

    def build_network(self) -> TaskLosses[A]:
        """Wrap the model with its loss."""
        return TaskLosses(self.model, self.kind)

    def iter_batches(self, first_step: int) -> Generator[list[TaskBatch[A]], None, None]:
        """Build the micro-batches of each step: its share of a shuffled row of epochs."""
        order = ExampleOrder(len(self.train), seed=self.settings.seed)
        for step in range(first_step, self.num_steps):
            parts = order.step(step, batch_size=self.settings.batch_size)
            shares = share_step(parts, rank=self.world.rank, world_size=self.world.size)
            numbers = np.concatenate([found for _, found in shares]) if shares else np.empty(0, np.int64)
            items = [self.train[number] for number in numbers]
            if self.kind.is_whole:
                batches = [self.kind.build_batch(items)] if items else []
            else:  # items of similar length together, so that each micro-batch is about as much work
                lengths = [self.kind.measure(item) for item in items]
                cut = iter_batches(lengths, max_tokens=self.settings.micro_batch_tokens)
                batches = [self.kind.build_batch([items[place] for place in places]) for places in cut]
            renaming = self.renaming
            yield batches if renaming is None else [renaming.apply(batch, step=step) for batch in batches]

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
        """Score the dev set."""
        max_tokens = self.settings.micro_batch_tokens
        answers = ask_items(self.model, self.kind, self.dev, max_tokens=max_tokens, world=self.world)
        return self.kind.score(answers, self.dev_examples)

    def score(self, figures: dict[str, float]) -> float:
        """The negative score: lower is better to the loop."""
        return -figures["score"]
