"""Pretraining as a job of the loop: a corpus and settings come in; batches, losses and evaluations go out."""

import math
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import torch

from albert.errors import InputError
from albert.examples.batches import PretrainingBatch, build_placeholder
from albert.examples.loader import iter_steps
from albert.examples.source import ExampleSource, build_piece_table, build_source
from albert.model.albert_model import AlbertModel
from albert.model.word_matching import WordMatching
from albert.training.curriculum import Curriculum, StepShape
from albert.training.evaluation import PassScores, build_held_out_source, evaluate_pass
from albert.training.losses import WORDS, PretrainLosses, count_terms, list_heads
from albert.training.optimizers import build_optimizer
from albert.training.pretrain_data import PretrainData
from albert.training.settings import PretrainSettings
from albert.training.step import Objective
from albert.training.world import World

# In a row without an example, steps and examples: some may happen with very small batches, or shares of one.
_MAX_EMPTY_STEPS, _MAX_EMPTY_EXAMPLES = 20, 500


@dataclass(frozen=True)
class PretrainJob:
    """Masked words and, where the objective has one, the sentence question."""

    model: AlbertModel
    settings: PretrainSettings
    data: PretrainData
    world: World = field(default_factory=World)
    name: str = "pretrain"

    @property
    def num_steps(self) -> int:
        """All of them."""
        return self.settings.num_steps

    @property
    def pair_head(self) -> str | None:
        """The head of the sentence objective."""
        return self.settings.examples.pair_objective

    @cached_property
    def curriculum(self) -> Curriculum:
        """The shape of every step."""
        return self.settings.build_curriculum(self.model.config)

    @cached_property
    def objective(self) -> Objective[PretrainingBatch]:
        """What the loop asks of a batch."""
        return Objective(
            names=tuple(list_heads(pair_head=self.pair_head)),
            count=lambda batch: count_terms(batch, pair_head=self.pair_head),
            placeholder=cache(self._build_placeholder),
        )

    def _build_placeholder(self) -> PretrainingBatch:
        table = build_piece_table(self.data.tokenizer)
        return build_placeholder(table, has_labels=self.pair_head is not None)

    def build_network(self) -> PretrainLosses:
        """The model with its questions, as the loop trains it."""
        return PretrainLosses(self.model, pair_head=self.pair_head)

    def build_optimizer(self) -> torch.optim.Optimizer:
        """The one of the recipe; heads that look for the same word are held to it."""
        optimizer = build_optimizer(self.model, self.settings.optimizer)
        if self.settings.num_matching_heads:
            matching = WordMatching(self.model.encoder, num_heads=self.settings.num_matching_heads)
            matching.hold(optimizer)
        return optimizer

    def find_options(self, step: int) -> dict[str, Any]:
        """The depth of that step."""
        return {"depth": self.curriculum.find(step).depth}

    def build_source(self, length: int) -> ExampleSource:
        """The examples of that length; refused: another vocabulary, an empty corpus, nsp of one document."""
        settings = self.settings
        examples = settings.examples.model_copy(update={"max_length": length})
        return build_source(self.data.train, self.data.tokenizer, settings=examples, seed=settings.seed)

    def iter_batches(self, first_step: int) -> Generator[list[PretrainingBatch], None, None]:
        """The micro-batches of each step, made ahead by other processes; stage after stage."""
        step = first_step
        while step < self.num_steps:
            shape = self.curriculum.find(step)
            end = self._find_length_end(step, shape)
            yield from self._iter_stage(shape, step, end)
            step = end

    def _find_length_end(self, step: int, shape: StepShape) -> int:
        """The first step with another stage of lengths."""
        end = self.curriculum.find_end(step)
        while end < self.num_steps and self.curriculum.find(end).stage == shape.stage:
            end = self.curriculum.find_end(end)
        return end

    def _iter_stage(
        self, shape: StepShape, first: int, end: int
    ) -> Generator[list[PretrainingBatch], None, None]:
        batches = iter_steps(
            self.build_source(shape.length),
            batch_size=shape.batch_size,
            first_step=first - shape.first_step,
            num_steps=end - first,
            num_workers=self.settings.num_workers,
            max_tokens=self.settings.micro_batch_tokens,
            rank=self.world.rank,
            world_size=self.world.size,
        )
        share = shape.batch_size / self.world.size  # of a step, for each process
        max_empty = max(_MAX_EMPTY_STEPS, math.ceil(_MAX_EMPTY_EXAMPLES / share))
        # With more processes than sequences in a step, some have none of any.
        rank, size = self.world.rank, self.world.size
        has_share = rank * shape.batch_size // size < (rank + 1) * shape.batch_size // size
        num_empty = 0
        for found in batches:
            num_empty = 0 if found or not has_share else num_empty + 1
            if num_empty == max_empty:
                raise InputError(
                    f"{self.data.whole.name}: {max_empty} steps in a row had no example of two sentences, "
                    f"which the objective {self.settings.examples.objective} needs; use "
                    "examples.objective=none, or longer documents"
                )
            yield found

    def count_tokens(self, batch: PretrainingBatch) -> int:
        """Tokens; all of them are real."""
        return len(batch.ids_T)

    def is_new_stage(self, step: int) -> bool:
        """Whether depth or length change here."""
        return step > 0 and self.curriculum.find_end(step - 1) == step

    def find_cost(self, step: int) -> float:
        """The work before a step: pieces are about as many in each, but of the last layer little is computed,
        and attention costs more on longer sequences (rates measured at nano, within a fifth).
        """
        return sum(
            max(0, min(steps.stop, step) - steps.start) * (shape.depth - 0.35) * (1.0 + shape.length / 512)
            for shape, steps in self.curriculum.list_shapes()
        )

    def describe(self, step: int) -> dict[str, float]:
        """Depth, length and batch size."""
        shape = self.curriculum.find(step)
        return {"depth": shape.depth, "length": shape.length, "batch_size": shape.batch_size}

    def build_held_out(self, objective: str) -> ExampleSource:
        """The examples that are asked about, with that sentence question."""
        return build_held_out_source(
            self.data.held_out, self.data.tokenizer, self.settings.examples, objective=objective
        )

    def evaluate(self, step: int) -> dict[str, float]:
        """Masked words and sentence pairs of held-out documents, at full length.

        The depth is the one that was trained last: more loops than ever before would say nothing.
        """
        depth = self.curriculum.find(max(step, 1) - 1).depth
        found = self.ask(self.settings.examples.objective, depth=depth)
        figures = {f"{WORDS}_loss": found.word_loss.mean, f"{WORDS}_accuracy": found.word_accuracy.mean}
        if found.pair_accuracy is not None:
            figures[f"{self.pair_head}_accuracy"] = found.pair_accuracy.mean
        other = {"sop": "nsp", "nsp": "sop"}.get(self.pair_head or "")
        asks = self.settings.held_out.asks_both or step == self.num_steps
        if other is not None and asks and (other == "sop" or self.data.held_out.num_documents > 1):
            pairs = self.ask(other, depth=depth).pair_accuracy
            figures |= {} if pairs is None else {f"{other}_accuracy": pairs.mean}
        return figures

    def ask(self, objective: str, *, depth: int, num_examples: int | None = None) -> PassScores:
        """One pass over held-out examples with that sentence question."""
        return evaluate_pass(
            self.model,
            self.build_held_out(objective),
            num_examples=num_examples or self.settings.held_out.num_examples,
            max_tokens=self.settings.micro_batch_tokens,
            depth=depth,
            world=self.world,
        )

    def score(self, figures: dict[str, float]) -> float:
        """The loss of the masked words: what every objective has."""
        return figures[f"{WORDS}_loss"]

    def check(self) -> float:
        """Refuse a corpus that does not fill one batch; the share of examples that are left out goes back."""
        for shape, _ in self.curriculum.list_shapes():
            found = self.build_source(shape.length).num_examples
            if found < shape.batch_size:
                most = max(1, found * shape.length // self.settings.examples.max_length)
                raise InputError(
                    f"{self.data.whole.name}: {found} examples of {shape.length} pieces are less than one "
                    f"batch of {shape.batch_size}; use a batch_size of at most {most}, or more text"
                )
        first = self.curriculum.find(0)
        batches = self.build_source(first.length).build_step(0, batch_size=first.batch_size)
        return sum(batch.num_dropped for batch in batches) / first.batch_size
