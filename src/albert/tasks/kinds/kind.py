"""What a kind of task is to those who train and ask it: examples come in, outputs and scores go out."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from torch import Tensor

from albert.model.albert_model import AlbertModel, Heads
from albert.tasks.batches import TaskBatch
from albert.text.tokenizer import Tokenizer

X = TypeVar("X", contravariant=True)
I = TypeVar("I")  # noqa: E741 - an item
A = TypeVar("A")
O = TypeVar("O")  # noqa: E741 - an output
# For each objective the summed loss and the number of hits: what the loop adds up.
Terms = dict[str, tuple[Tensor, Tensor]]


class Kind(Protocol[X, I, A, O]):
    """Examples are encoded once into items; items make batches; a batch makes losses, or outputs by item."""

    @property
    def heads(self) -> Heads:
        """What the model needs on top."""

    @property
    def names(self) -> tuple[str, ...]:
        """The objectives, as the records call them."""

    def encode(self, examples: Sequence[X], tokenizer: Tokenizer) -> list[I]:
        """The examples in pieces."""

    def measure(self, item: I) -> int:
        """How many tokens an item is."""

    def build_batch(self, items: Sequence[I]) -> TaskBatch[A]:
        """Items, one behind the other."""

    def count(self, batch: TaskBatch[A]) -> Mapping[str, int]:
        """How many answers a batch holds for each objective, before the model has run."""

    def compute_terms(self, model: AlbertModel, batch: TaskBatch[A], *, depth: int | None) -> Terms:
        """What the model has to learn from the batch."""

    def predict(self, model: AlbertModel, batch: TaskBatch[A], *, depth: int | None) -> list[O]:
        """What the model says of each item."""

    def score(self, outputs: Sequence[O], items: Sequence[I]) -> dict[str, float]:
        """The metrics of the task, in points of 100, and `score`, by which it is judged."""
