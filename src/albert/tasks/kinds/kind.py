"""What a kind of task is to those who train, ask and score it: examples in, answers and scores out."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from torch import Tensor

from albert.model.albert_model import AlbertModel, Heads
from albert.tasks.batches import TaskBatch
from albert.tasks.examples import Example
from albert.text.tokenizer import Tokenizer

X = TypeVar("X", bound=Example, contravariant=True)
I = TypeVar("I")  # noqa: E741 - an item
A = TypeVar("A")
O = TypeVar("O")  # noqa: E741 - an output
R = TypeVar("R")  # an answer
# For each objective the summed loss and the number of hits: what the loop adds up.
Terms = dict[str, tuple[Tensor, Tensor]]


class Kind(Protocol[X, I, A, O, R]):
    """Examples are encoded once into items, one or several each (the windows of a long text).

    Items make batches; a batch makes losses, or one output for each item; the outputs of an example's items
    together are its answer, and answers are scored.
    """

    @property
    def heads(self) -> Heads:
        """What the model needs on top."""

    @property
    def names(self) -> tuple[str, ...]:
        """The objectives, as the records call them."""

    @property
    def is_whole(self) -> bool:
        """Whether a step is one batch, never cut, since its items are compared with each other."""

    def encode(self, examples: Sequence[X], tokenizer: Tokenizer) -> list[I]:
        """The examples in pieces, in their order; those of one example stand together."""

    def teaches(self, item: I) -> bool:
        """Whether there is something to learn from an item; those that teach nothing are only asked."""

    def is_cut(self, item: I) -> bool:
        """Whether an item is shorter than what was written, and not because the rest is in other windows."""

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

    def conclude(self, items: Sequence[I], outputs: Sequence[O]) -> list[R]:
        """One answer for each example, from what the model said of its items."""

    def merge(self, answers: Sequence[R]) -> R:
        """What several models say of one example, as one answer."""

    def score(self, answers: Sequence[R], examples: Sequence[X]) -> dict[str, float]:
        """The metrics of the task, in points of 100, and `score`, by which it is judged."""

    def describe(self, answer: R, example: X) -> dict[str, Any]:
        """An answer as JSON for a person: names instead of places, texts instead of positions."""
