"""One training step: accumulate the gradients of micro-batches and update the weights once."""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from albert.training.distributed import DistributedContext
from albert.training.settings import LossSpikeSettings

B = TypeVar("B")
_DECAY = 0.98  # of the running mean of losses, which covers about the last fifty steps
_MIN_SEEN = 50  # losses before a spike can be detected


@dataclass(frozen=True)
class Objective(Generic[B]):
    """The names of a batch's losses, and their numbers of predictions, counted before the model runs.

    A process with fewer micro-batches than another one runs the `placeholder` with a loss of weight 0. The
    loss of a step is the sum of the mean losses, each times its weight (1 by default).
    """

    names: tuple[str, ...]
    count: Callable[[B], Mapping[str, int]]
    placeholder: Callable[[], B]
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class StepReport:
    """Means over all micro-batches of a step, and its times; the loop sets the last two."""

    learning_rate: float
    losses: dict[str, float]
    accuracies: dict[str, float]
    grad_norm: float
    skipped: str | None
    num_tokens: int
    model_seconds: float = 0.0
    optimizer_seconds: float = 0.0
    waited_seconds: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class StepPlan:
    """Totals over all processes, known before the first forward pass of a step."""

    counts: dict[str, int]
    num_micro_batches: int
    num_tokens: int
    is_stopped: bool
    is_failed: bool
    is_saved: bool


@dataclass(frozen=True)
class TrainStep(Generic[B]):
    """Runs training steps; `network` maps a batch to summed losses and numbers of correct predictions."""

    network: nn.Module
    optimizer: torch.optim.Optimizer
    objective: Objective[B]
    spike_filter: "LossSpikeFilter"
    max_grad_norm: float
    autocast: Callable[[], AbstractContextManager[Any]]
    context: DistributedContext

    def plan(
        self, batches: Sequence[B], *, num_tokens: int = 0, flags: tuple[bool, bool, bool] = (False,) * 3
    ) -> StepPlan:
        """Add up counts and tokens over all processes; if one stops or fails to read its data, all do."""
        names = self.objective.names
        mine = Counter[str]()
        for batch in batches:
            mine.update(self.objective.count(batch))
        rows = self.context.gather_floats([*(mine[name] for name in names), len(batches), num_tokens, *flags])
        *counts, sizes, tokens, stops, failures, saves = zip(*rows, strict=True)
        return StepPlan(
            counts={name: int(sum(column)) for name, column in zip(names, counts, strict=True)},
            num_micro_batches=int(max(sizes)),
            num_tokens=int(sum(tokens)),
            is_stopped=any(stops),
            is_failed=any(failures),
            is_saved=bool(saves[0]),  # the first process decides by its clock
        )

    def run(
        self, batches: Sequence[B], plan: StepPlan, *, learning_rate: float, options: Mapping[str, Any]
    ) -> StepReport:
        """Accumulate the gradients of all micro-batches and update the weights, unless the step is skipped.

        Each sum is divided by the count of the whole step, so how a step is split into micro-batches and over
        processes changes only rounding and dropout masks.
        """
        start = time.perf_counter()
        if not plan.num_micro_batches:  # every example was dropped
            return StepReport(learning_rate, {}, {}, 0.0, None, plan.num_tokens)
        losses, accuracies = self._accumulate(batches, plan, options)
        model_end = time.perf_counter()
        grad_norm = self.context.clip_grad_norm(self.network, self.max_grad_norm or float("inf"))
        skipped = self.spike_filter.check(sum(losses.values()), grad_norm)
        if skipped is None:
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate
            with self.autocast():  # the matrix products of Muon, four times as fast in bf16 on CPUs with AMX
                self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        times = {"model_seconds": model_end - start, "optimizer_seconds": time.perf_counter() - model_end}
        return StepReport(learning_rate, losses, accuracies, grad_norm, skipped, plan.num_tokens, **times)

    def _accumulate(
        self, batches: Sequence[B], plan: StepPlan, options: Mapping[str, Any]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Run all micro-batches forward and backward; return mean losses and accuracies."""
        names = self.objective.names
        totals: dict[str, list[Tensor | float]] = {name: [0.0, 0] for name in names}
        for index in range(plan.num_micro_batches):
            is_real = index < len(batches)
            batch = batches[index] if is_real else self.objective.placeholder()
            with self.context.accumulate(self.network, is_last=index == plan.num_micro_batches - 1):
                with self.autocast():
                    terms = self.network(batch, **options)
                weights = self.objective.weights
                parts = [
                    weights.get(name, 1.0) * total / max(plan.counts[name], 1)
                    for name, (total, _) in terms.items()
                ]
                if parts:
                    # Processes average their gradients; a step is a sum over all of them.
                    (torch.stack(parts).sum() * (float(is_real) * self.context.size)).backward()
            if is_real:
                for name, (total, num_correct) in terms.items():
                    totals[name] = [totals[name][0] + total.detach(), totals[name][1] + num_correct]
        mine = [float(value) for name in names for value in totals[name]]
        sums = [sum(column) for column in zip(*self.context.gather_floats(mine), strict=True)]
        counts = plan.counts
        losses = {name: sums[2 * i] / counts[name] for i, name in enumerate(names) if counts[name]}
        accuracies = {name: sums[2 * i + 1] / counts[name] for i, name in enumerate(names) if counts[name]}
        return losses, accuracies


@dataclass
class LossSpikeFilter:
    """Rejects steps whose loss is a spike or not finite; its state is part of a checkpoint."""

    settings: LossSpikeSettings
    mean: float = 0.0
    deviation: float = 0.0
    num_seen: int = 0
    num_skipped: int = 0
    num_in_a_row: int = 0

    def check(self, loss: float, grad_norm: float) -> str | None:
        """Return why a step must be skipped, or None."""
        limit = max(self.mean + self.settings.spike_factor * self.deviation, 1.5 * self.mean)
        reason = None
        if not math.isfinite(loss):
            reason = f"the loss was {loss}"
        elif not math.isfinite(grad_norm):
            reason = f"the gradient norm was {grad_norm}"
        else:
            if self.settings.spike_factor and self.num_seen >= _MIN_SEEN and loss > limit:
                reason = f"the loss jumped to {loss:.3g} from about {self.mean:.3g}"
                loss = limit  # counted as the highest normal loss, so that repeated spikes become normal
            self.num_seen += 1
            weight = max(1.0 - _DECAY, 1.0 / self.num_seen)
            if self.num_seen > 1:
                self.deviation += weight * (abs(loss - self.mean) - self.deviation)
            self.mean += weight * (loss - self.mean)
        self.num_skipped += reason is not None
        self.num_in_a_row = 0 if reason is None else self.num_in_a_row + 1
        return reason

    def reset(self) -> None:
        """Restart the running mean, because the losses of a new stage are on another level."""
        self.mean = self.deviation = 0.0
        self.num_seen = 0

    def state(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key != "settings"}

    def restore(self, state: dict[str, Any]) -> None:
        for key, value in state.items():
            setattr(self, key, value)
        if self.num_in_a_row >= self.settings.max_skipped:  # the run that it stopped is resumed
            self.num_in_a_row = 0
