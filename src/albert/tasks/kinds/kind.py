"""The interface of a task type: what fine-tuning, evaluation and prediction call."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from albert.model.albert_model import AlbertModel, Heads
from albert.model.tokens import Tokens
from albert.tasks.encoding.sequence import TaskSequence
from albert.tasks.examples import Example
from albert.tasks.metrics.intervals import Interval, bootstrap_times
from albert.tasks.metrics.task_score import WeightedScores
from albert.text.tokenizer import Tokenizer

X = TypeVar("X", bound=Example)
I = TypeVar("I")  # noqa: E741 - an item
A = TypeVar("A")
O = TypeVar("O")  # noqa: E741 - an output
R = TypeVar("R")  # an answer
# For each objective the summed loss and the number of correct predictions: what the loop adds up.
Terms = dict[str, tuple[Tensor, Tensor]]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TaskBatch(Generic[A]):
    """Sequences laid end to end, and their labels in the form of the task type."""

    ids_T: Ints
    positions_T: Ints
    segments_T: Ints
    lengths: Ints
    answers: A

    def build_tokens(self, device: torch.device | str = "cpu") -> Tokens:
        """Move the batch to the device, as the model reads it."""
        flat = (torch.from_numpy(part) for part in (self.ids_T, self.positions_T, self.segments_T))
        ids_T, positions_T, segments_T = (part.to(device, non_blocking=True) for part in flat)
        return Tokens(ids_T, positions_T, segments_T, tuple(self.lengths.tolist()))


def lay_out(sequences: Sequence[TaskSequence], answers: A) -> TaskBatch[A]:
    """Lay the sequences out one behind the other, in their order."""
    lengths = np.array([len(sequence.ids) for sequence in sequences], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    positions_T = np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(starts, lengths)
    firsts = np.array([sequence.num_first for sequence in sequences], dtype=np.int64)
    return TaskBatch(
        ids_T=np.fromiter((i for sequence in sequences for i in sequence.ids), np.int64, int(lengths.sum())),
        positions_T=positions_T,
        segments_T=(positions_T >= np.repeat(firsts, lengths)).astype(np.int64),
        lengths=lengths,
        answers=answers,
    )


class Kind(ABC, Generic[X, I, A, O, R]):
    """A task type.

    Examples are encoded once into items, one or several each (the windows of a long text). Items make
    batches; a batch makes losses, or one output for each item; the outputs of an example's items together are
    its answer, and answers are scored.
    """

    @property
    @abstractmethod
    def heads(self) -> Heads:
        """The heads that the model needs."""

    @property
    def names(self) -> tuple[str, ...]:
        """The objectives, as the records call them."""
        return ("task",)

    @property
    def is_whole(self) -> bool:
        """Whether a step is one batch, never split, since its items are compared with each other."""
        return False

    @abstractmethod
    def encode(self, examples: Sequence[X], tokenizer: Tokenizer) -> list[I]:
        """Tokenize the examples, in their order; the items of one example stand together."""

    @abstractmethod
    def teaches(self, item: I) -> bool:
        """Whether an item has a label to train on."""

    def is_cut(self, item: I) -> bool:
        """Whether an item was truncated (text that is in another window does not count)."""
        return item.num_cut > 0  # type: ignore[attr-defined, no-any-return]

    @abstractmethod
    def measure(self, item: I) -> int:
        """The number of tokens of an item."""

    @abstractmethod
    def build_batch(self, items: Sequence[I]) -> TaskBatch[A]:
        """Lay items out in one flat batch."""

    @abstractmethod
    def count(self, batch: TaskBatch[A]) -> Mapping[str, int]:
        """How many labels a batch holds for each objective, before the model has run."""

    @abstractmethod
    def compute_terms(self, model: AlbertModel, batch: TaskBatch[A], *, depth: int | None = None) -> Terms:
        """Compute the summed losses of a batch."""

    @abstractmethod
    def predict(self, model: AlbertModel, batch: TaskBatch[A], *, depth: int | None = None) -> list[O]:
        """Compute one output for each item."""

    def conclude(self, items: Sequence[I], outputs: Sequence[O]) -> list[R]:
        """Aggregate the outputs of each example's items into its answer; by default an item is an example."""
        return list(outputs)  # type: ignore[arg-type]

    @abstractmethod
    def merge(self, answers: Sequence[R]) -> R:
        """Merge what several models answer to one example."""

    def prepare_scores(self, answers: Sequence[R], examples: Sequence[X]) -> WeightedScores:
        """Prepare the metrics of the task, in points of 100, and `score`, by which it is judged.

        A type whose metrics take no weights overrides `score` and `find_intervals` instead.
        """
        raise NotImplementedError

    def score(self, answers: Sequence[R], examples: Sequence[X]) -> dict[str, float]:
        """Score all examples with weight 1."""
        return self.prepare_scores(answers, examples)(np.ones(len(examples)))

    def find_intervals(
        self, answers: Sequence[R], examples: Sequence[X], *, seed: int
    ) -> dict[str, Interval]:
        """Estimate the 95% intervals of the metrics by drawing examples (whole texts, not words)."""
        return bootstrap_times(len(examples), measure=self.prepare_scores(answers, examples), seed=seed)

    @abstractmethod
    def describe(self, answer: R, example: X) -> dict[str, Any]:
        """Describe an answer as JSON: names instead of numbers, texts instead of positions."""


AnyKind = Kind[Any, Any, Any, Any, Any]
