"""One step: micro-batches come in, the optimiser moves once, and what was seen on the way goes out."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from albert.training.guard import Guard
from albert.training.world import World

B = TypeVar("B")


@dataclass(frozen=True)
class Objective(Generic[B]):
    """What is asked of a batch.

    `count` says how many answers it holds for each of the `names`, before the model has run. A process that
    has fewer micro-batches than another runs the `placeholder` instead, whose loss counts nothing.
    """

    names: tuple[str, ...]
    count: Callable[[B], Mapping[str, int]]
    placeholder: Callable[[], B]


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
class StepPlan:
    """What all processes agree on before the first forward pass of a step."""

    counts: dict[str, int]
    num_micro_batches: int
    num_tokens: int
    is_stopped: bool
    is_failed: bool
    is_saved: bool


@dataclass(frozen=True)
class StepTaker(Generic[B]):
    """The parts of a step that stay the same from step to step.

    `network` takes a batch and gives, for each objective, the sum of its losses and its number of hits.
    """

    network: nn.Module
    optimizer: torch.optim.Optimizer
    objective: Objective[B]
    guard: Guard
    max_grad_norm: float
    autocast: Callable[[], AbstractContextManager[Any]]
    world: World

    def plan(
        self,
        batches: Sequence[B],
        *,
        num_tokens: int = 0,
        is_stopped: bool = False,
        is_failed: bool = False,
        is_saved: bool = False,
    ) -> StepPlan:
        """Add up the counts of all micro-batches, and the tokens, of all processes.

        One process that is asked to stop, or that has no data, stops all; the first one's clock says when to
        save after the step.
        """
        names = self.objective.names
        mine = dict.fromkeys(names, 0)
        for batch in batches:
            for name, count in self.objective.count(batch).items():
                mine[name] += count
        flags = [float(is_stopped), float(is_failed), float(is_saved)]
        rows = self.world.exchange([*(mine[name] for name in names), len(batches), num_tokens, *flags])
        *counts, sizes, tokens, stops, failures, saves = zip(*rows, strict=True)
        return StepPlan(
            counts={name: int(sum(column)) for name, column in zip(names, counts, strict=True)},
            num_micro_batches=int(max(sizes)),
            num_tokens=int(sum(tokens)),
            is_stopped=any(stops),
            is_failed=any(failures),
            is_saved=bool(saves[0]),
        )

    def take(
        self,
        step: int,
        batches: Sequence[B],
        plan: StepPlan,
        *,
        learning_rate: float,
        options: Mapping[str, Any],
    ) -> StepReport:
        """Add up the gradients of all micro-batches and move, unless the guard says no.

        The counts of the whole step are known first, and each sum is divided by them once: how a step is cut
        into micro-batches and over processes changes nothing but rounding (and what dropout draws).
        """
        began = time.perf_counter()
        if not plan.num_micro_batches:  # every example was left out: nothing to learn, and nothing moves
            return StepReport(step, learning_rate, {}, {}, 0.0, None, 0.0, 0.0)
        losses, accuracies = self._accumulate(batches, plan, options)
        between = time.perf_counter()
        grad_norm = self.world.clip(self.network, self.max_grad_norm or float("inf"))
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
            accuracies=accuracies,
            grad_norm=grad_norm,
            skipped=skipped,
            model_seconds=between - began,
            optimizer_seconds=time.perf_counter() - between,
        )

    def _accumulate(
        self, batches: Sequence[B], plan: StepPlan, options: Mapping[str, Any]
    ) -> tuple[dict[str, float], dict[str, float]]:
        totals: dict[str, Tensor] = {}
        hits: dict[str, Tensor] = {}
        for number in range(plan.num_micro_batches):
            is_real = number < len(batches)
            batch = batches[number] if is_real else self.objective.placeholder()
            is_last = number == plan.num_micro_batches - 1
            with self.world.accumulate(self.network, is_last=is_last):
                with self.autocast():
                    terms = self.network(batch, **options)
                self._backward(terms, plan.counts, weight=float(is_real))
            if is_real:
                for name, (total, num_correct) in terms.items():
                    totals[name] = totals.get(name, 0.0) + total.detach()
                    hits[name] = hits.get(name, 0) + num_correct
        return self._average(totals, hits, plan.counts)

    def _backward(
        self, terms: Mapping[str, tuple[Tensor, Tensor]], counts: Mapping[str, int], *, weight: float
    ) -> None:
        parts = [total / max(counts[name], 1) for name, (total, _) in terms.items()]
        if parts:
            loss = torch.stack(parts).sum() * (weight * self.world.loss_factor)
            loss.backward()

    def _average(
        self, totals: Mapping[str, Tensor], hits: Mapping[str, Tensor], counts: Mapping[str, int]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Losses and shares of right answers over all processes."""
        names = self.objective.names
        mine = [float(found[name]) if name in found else 0.0 for found in (totals, hits) for name in names]
        sums = [sum(column) for column in zip(*self.world.exchange(mine), strict=True)]
        asked = [name for name in names if counts[name]]
        losses = {name: sums[names.index(name)] / counts[name] for name in asked}
        accuracies = {name: sums[len(names) + names.index(name)] / counts[name] for name in asked}
        return losses, accuracies
