"""Fine-tuning as a job of the training loop: batches, losses and dev scores."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Generic, cast

import numpy as np

from albert.examples.randomness import ExampleOrder, share_step
from albert.inference.predictor import iter_batches
from albert.model.albert_model import AlbertModel
from albert.tasks.finetune_losses import FinetuneTeacher, StudentLosses, TaskLosses
from albert.tasks.finetune_settings import FinetuneSettings
from albert.tasks.models import predict_items
from albert.tasks.task import AnswerT, AnyTask, ExampleT, Ints, ItemT, LabelsT, Task, TaskBatch
from albert.text.tokenizer import Tokenizer
from albert.training.distributed import DistributedContext
from albert.training.loop import Job
from albert.training.step import Objective


@dataclass(frozen=True)
class TokenReplacement:
    """Replaces a random `share` of the vocabulary by other tokens at each step, the same in all texts.

    What two texts have in common stays, but an example differs in each epoch, so small models learn to
    compare texts instead of memorizing them (docs/log.md). The replacement depends only on the seed and the
    step, so that it is the same in a resumed run and in all processes.
    """

    ordinary: Ints
    vocab_size: int
    share: float
    seed: int

    @staticmethod
    def of(tokenizer: Tokenizer, *, share: float, seed: int) -> "TokenReplacement | None":
        """Build the replacement for a vocabulary, except its special tokens; None if `share` is 0."""
        special = tokenizer.special_ids
        ordinary = np.array([i for i in range(tokenizer.vocab_size) if i not in special], dtype=np.int64)
        return TokenReplacement(ordinary, tokenizer.vocab_size, share, seed) if share else None

    def apply(self, batch: TaskBatch[LabelsT], *, step: int) -> TaskBatch[LabelsT]:
        return replace(batch, ids_T=self.draw_ids(step)[batch.ids_T])

    def draw_ids(self, step: int) -> Ints:
        """Draw the new id of each token at a step."""
        generator = np.random.default_rng((self.seed, step))
        ids = np.arange(self.vocab_size)
        replaced = self.ordinary[generator.random(len(self.ordinary)) < self.share]
        ids[replaced] = generator.choice(self.ordinary, len(replaced))
        return ids


@dataclass(frozen=True)
class FinetuneJob(Job[TaskBatch[LabelsT]], Generic[ExampleT, ItemT, LabelsT, AnswerT]):
    """The fine-tuning job: train a model on the items `train` and evaluate it on the items `dev`.

    With a teacher, the items to train on, also `unlabeled` ones, are its `StudentItem`s.
    """

    model: AlbertModel
    task: Task[ExampleT, ItemT, LabelsT, AnswerT]
    settings: FinetuneSettings
    train: Sequence[ItemT]
    dev: Sequence[ItemT]
    dev_examples: Sequence[ExampleT]
    context: DistributedContext = field(default_factory=DistributedContext)
    replacement: TokenReplacement | None = None
    teacher: FinetuneTeacher | None = None
    unlabeled: Sequence[ItemT] = ()
    name: str = "finetune"

    @cached_property
    def losses(self) -> TaskLosses[ExampleT, ItemT, LabelsT, AnswerT]:
        if self.teacher is None:
            return TaskLosses(self.model, self.task)
        losses = StudentLosses(self.model, cast(AnyTask, self.task), self.teacher)
        return cast(TaskLosses[ExampleT, ItemT, LabelsT, AnswerT], losses)

    @property
    def num_unlabeled(self) -> int:
        """The number of unlabeled examples of a step; at least one example has a label."""
        size = self.settings.batch_size
        share = self.settings.teacher.unlabeled_share
        return max(1, min(size - 1, round(share * size))) if self.unlabeled else 0

    @property
    def num_labeled(self) -> int:
        return self.settings.batch_size - self.num_unlabeled

    @cached_property
    def num_steps(self) -> int:
        epochs = self.settings.num_epochs * len(self.train) / self.num_labeled
        return self.settings.num_steps or max(1, round(epochs))

    @cached_property
    def objective(self) -> Objective[TaskBatch[LabelsT]]:
        shortest = min(self.train, key=lambda item: item.num_tokens)
        return Objective(
            names=tuple(self.losses.weights),
            count=self.losses.count,
            placeholder=cache(lambda: self.losses.build_batch([shortest])),
            weights=self.losses.weights,
        )

    def build_network(self) -> TaskLosses[ExampleT, ItemT, LabelsT, AnswerT]:
        return self.losses

    def iter_batches(self, first_step: int) -> Generator[list[TaskBatch[LabelsT]], None, None]:
        """Yield the micro-batches of each step, from the shuffled examples of each epoch."""
        for step in range(first_step, self.num_steps):
            batches = self._build_batches(self.train, step, number=self.num_labeled)
            if self.unlabeled:
                batches += self._build_batches(self.unlabeled, step, number=self.num_unlabeled)
            if self.replacement is not None:
                batches = [self.replacement.apply(batch, step=step) for batch in batches]
            yield batches

    def _build_batches(self, items: Sequence[ItemT], step: int, *, number: int) -> list[TaskBatch[LabelsT]]:
        """Build the micro-batches of this process from the `number` items of a step."""
        parts = ExampleOrder(len(items), seed=self.settings.seed).step(step, batch_size=number)
        shares = share_step(parts, rank=self.context.rank, world_size=self.context.size)
        chosen = [items[index] for _, part in shares for index in part]
        if self.task.uses_in_batch_negatives:
            return [self.losses.build_batch(chosen)] if chosen else []
        # Micro-batches of items of similar length.
        lengths = [item.num_tokens for item in chosen]
        rows = iter_batches(lengths, max_tokens=self.settings.micro_batch_tokens)
        return [self.losses.build_batch([chosen[index] for index in row]) for row in rows]

    def find_options(self, step: int) -> dict[str, Any]:
        return {"depth": None}

    def describe(self, step: int) -> dict[str, float]:
        return {"epoch": round((step + 1) * self.num_labeled / len(self.train), 3)}

    def evaluate(self, step: int) -> dict[str, float]:
        max_tokens = self.settings.micro_batch_tokens
        answers = predict_items(self.model, self.task, self.dev, max_tokens=max_tokens, context=self.context)
        return self.task.score(answers, self.dev_examples)

    def score(self, figures: dict[str, float]) -> float:
        """Return the negative score, because the loop minimizes."""
        return -figures["score"]
