"""One step: micro-batches come in, the optimiser moves once, and what was seen on the way goes out."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from albert.training.guard import Guard
from albert.training.losses import LossTerm

B = TypeVar("B")


@dataclass(frozen=True)
class Objective(Generic[B]):
    """What is asked of a batch: how many answers it holds, known before the model runs, and their losses."""

    count: Callable[[B], Mapping[str, int]]
    compute: Callable[[B, int], Mapping[str, LossTerm]]  # of a batch at a step


@dataclass(frozen=True)
class StepReport:
    """What a step gave: means over all its micro-batches, and where its time went."""

    step: int
    learning_rate: float
    losses: dict[str, float]
    accuracies: dict[str, float]
    grad_norm: float
    skipped: str | None
    model_seconds: float
    optimizer_seconds: float

    @property
    def loss(self) -> float:
        """The sum of the objectives, as it is minimised."""
        return sum(self.losses.values())


@dataclass(frozen=True)
class StepTaker(Generic[B]):
    """The parts of a step that stay the same from step to step."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    objective: Objective[B]
    guard: Guard
    max_grad_norm: float
    autocast: Callable[[], AbstractContextManager[Any]]

    def take(self, step: int, batches: Sequence[B], *, learning_rate: float) -> StepReport:
        """Add up the gradients of all micro-batches and move, unless the guard says no.

        The counts of the whole step are known first, and each sum is divided by them once: how a step is cut
        into micro-batches changes nothing but rounding.
        """
        began = time.perf_counter()
        if not batches:  # every example of the step was left out: nothing to learn from, and nothing moves
            return StepReport(step, learning_rate, {}, {}, 0.0, None, 0.0, 0.0)
        counts = _add_counts(self.objective.count(batch) for batch in batches)
        totals, hits = self._accumulate(step, batches, counts)
        losses = {name: total.item() / counts[name] for name, total in totals.items()}
        between = time.perf_counter()
        grad_norm = self._clip()
        skipped = self.guard.judge(sum(losses.values()), grad_norm)
        if skipped is None:
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return StepReport(
            step=step,
            learning_rate=learning_rate,
            losses=losses,
            accuracies={name: hit.item() / counts[name] for name, hit in hits.items()},
            grad_norm=grad_norm,
            skipped=skipped,
            model_seconds=between - began,
            optimizer_seconds=time.perf_counter() - between,
        )

    def _accumulate(
        self, step: int, batches: Sequence[B], counts: Mapping[str, int]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        totals: dict[str, Tensor] = {}
        hits: dict[str, Tensor] = {}
        for batch in batches:
            with self.autocast():
                terms = self.objective.compute(batch, step)
            if not terms:
                continue
            loss = torch.stack([term.total / counts[name] for name, term in terms.items()]).sum()
            loss.backward()
            for name, term in terms.items():
                totals[name] = totals.get(name, 0.0) + term.total.detach()
                hits[name] = hits.get(name, 0) + term.num_correct
        return totals, hits

    def _clip(self) -> float:
        limit = self.max_grad_norm or float("inf")
        return float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit))


def _add_counts(counts: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            total[name] = total.get(name, 0) + count
    return total
