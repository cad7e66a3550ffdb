"""What the training loop is told and tells: a job comes in; where a run is, and how it ended, go out."""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from torch import nn

from albert.training.step import Objective

B = TypeVar("B")


class Job(Protocol[B]):
    """What is trained, on what, and how it is asked what it has learned."""

    @property
    def name(self) -> str:
        """What its progress is called."""

    @property
    def num_steps(self) -> int:
        """All of them."""

    @property
    def objective(self) -> Objective[B]:
        """What is asked of a batch."""

    def iter_batches(self, first_step: int) -> Generator[list[B], None, None]:
        """The micro-batches of each step from that one on."""

    def count_tokens(self, batch: B) -> int:
        """Real tokens in a batch."""

    def build_network(self) -> nn.Module:
        """The model with its questions: a batch comes in, sums of losses and numbers of hits go out."""

    def build_optimizer(self) -> torch.optim.Optimizer:
        """What takes the steps, over the parameters as they are spread."""

    def find_options(self, step: int) -> dict[str, Any]:
        """What the network is told at a step besides its batch."""

    def is_new_stage(self, step: int) -> bool:
        """Whether another loss than before is to be expected from this step on."""

    def find_cost(self, step: int) -> float:
        """All the work before a step, in any unit, so that the time left can be told."""

    def describe(self, step: int) -> dict[str, float]:
        """What is particular about a step, for its record."""

    def evaluate(self, step: int) -> dict[str, float]:
        """Figures on held-out data after so many steps; the model is in evaluation mode."""

    def score(self, figures: dict[str, float]) -> float:
        """The figure to judge by; lower is better."""


@dataclass
class Progress:
    """Where a run is: all that a checkpoint keeps besides tensors and the guard's memory.

    `figures` are those of the last evaluation.
    """

    step: int = 0
    num_tokens: int = 0
    seconds: float = 0.0
    best_step: int | None = None
    best_score: float | None = None
    num_stale: int = 0  # evaluations since the best
    figures: dict[str, float] = field(default_factory=dict)


class StoppedError(Exception):
    """A signal, by its name, has stopped a run; what was learned is saved, and the next start goes on."""


@dataclass(frozen=True)
class LoopOutcome:
    """How a run ended: `signal` is what stopped it before the end."""

    progress: Progress
    is_finished: bool
    signal: str | None = None

    def check_finished(self) -> None:
        """Refused with a `StoppedError`: what was stopped."""
        if not self.is_finished:
            raise StoppedError(self.signal or "a signal")
