"""Schedules: the learning rate, depth and sequence length of each step.

All are pure functions of the step, so that a checkpoint needs no state of theirs.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from albert.settings import Settings

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class ScheduleSettings(Settings):
    """Settings of the learning-rate schedule.

    Args:
        name: linear (as published), cosine, constant, or stable, which decays at the end only.
        warmup_steps: The number of warm-up steps.
        warmup_share: The share of warm-up steps, instead of their number.
        decay_share: The share of the steps in which `stable` decays.
    """

    name: Literal["linear", "cosine", "stable", "constant"] = "linear"
    warmup_steps: Annotated[int, Field(ge=0)] | None = None
    warmup_share: Share | None = None
    decay_share: Share = 0.2

    @model_validator(mode="after")
    def _check_warmup(self) -> "ScheduleSettings":
        if self.warmup_steps is not None and self.warmup_share is not None:
            raise ValueError("warmup_steps and warmup_share are both set; set one of them to null")
        return self

    def find_error(self, num_steps: int) -> str | None:
        """Return an error message if the warm-up does not fit into `num_steps`, else None."""
        if self.warmup_steps is None or self.warmup_steps < num_steps:
            return None
        hint = "lower it, or set it to null and give schedule.warmup_share, as in 0.06"
        return f"schedule.warmup_steps {self.warmup_steps} is not less than num_steps {num_steps}; {hint}"

    def count_warmup(self, num_steps: int) -> int:
        """Count the warm-up steps of a run of `num_steps`."""
        share = round((self.warmup_share or 0.0) * num_steps)
        return share if self.warmup_steps is None else self.warmup_steps

    def find_factor(self, step: int, *, num_steps: int) -> float:
        """Compute the factor on the peak learning rate at a step, counted from 0."""
        if self.name != "constant" and step >= num_steps:
            return 0.0
        warmup = self.count_warmup(num_steps)
        if step < warmup:
            return step / warmup
        if self.name == "linear":
            # As published, the line starts at step 0, so warm-up ends a little below the peak.
            return 1.0 - step / num_steps
        if self.name == "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * (step - warmup) / (num_steps - warmup)))
        if self.name == "stable":
            return min(1.0, (num_steps - step) / max(1, round(self.decay_share * num_steps)))
        return 1.0


class Stage(Settings):
    """A value that applies until a share (`until`) of the steps is done."""

    until: Annotated[float, Field(gt=0.0, le=1.0)]
    value: Annotated[int, Field(ge=1)]


def _check_order(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    ends = [stage.until for stage in stages]
    if ends != sorted(set(ends)):
        raise ValueError(f"stages end at {ends}; each must end after the one before it")
    return stages


# After the last stage, and without any, the full value applies.
Stages = Annotated[tuple[Stage, ...], AfterValidator(_check_order)]


@dataclass(frozen=True)
class StepShape:
    """The shape of a step; `stage` is the index of its length, whose examples start at `first_step`."""

    depth: int
    length: int
    batch_size: int
    stage: int
    first_step: int


@dataclass(frozen=True)
class Curriculum:
    """The depth, length and batch size of every step of a run of `num_steps`.

    Training may start with few layers, because they share one block, and with short sequences, because
    examples are made on the fly. Both cost less and neither needs new weights. Shorter sequences come in
    larger batches, so that every step has about the same number of tokens.
    """

    num_steps: int
    depth: int
    length: int
    batch_size: int
    depths: tuple[Stage, ...] = ()
    lengths: tuple[Stage, ...] = ()

    def find(self, step: int) -> StepShape:
        """Find the shape of a step."""
        depth, _ = self._find_stage(self.depths, step, self.depth)
        length, stage = self._find_stage(self.lengths, step, self.length)
        ends = [0, *map(self._find_stage_end, self.lengths)]
        # A stage continues with the examples of earlier stages of the same length.
        earlier = zip(self.lengths[:stage], ends, ends[1:], strict=False)
        num_earlier = sum(end - start for each, start, end in earlier if each.value == length)
        return StepShape(
            depth=min(depth, self.depth),  # a stage of a recipe may be deeper than the model
            length=length,
            batch_size=max(1, round(self.batch_size * self.length / length)),
            stage=stage,
            first_step=ends[stage] - num_earlier,
        )

    def find_end(self, step: int) -> int:
        """Find the first later step with another shape, or the end of the run."""
        ends = [self._find_stage_end(stage) for stage in (*self.depths, *self.lengths)]
        return min((end for end in ends if end > step), default=self.num_steps)

    def list_shapes(self) -> list[tuple[StepShape, range]]:
        """List each shape of the run in order, with its steps."""
        shapes, step = [], 0
        while step < self.num_steps:
            end = self.find_end(step)
            shapes.append((self.find(step), range(step, end)))
            step = end
        return shapes

    def _find_stage_end(self, stage: Stage) -> int:
        return round(stage.until * self.num_steps)

    def _find_stage(self, stages: tuple[Stage, ...], step: int, full: int) -> tuple[int, int]:
        index = bisect_right([self._find_stage_end(stage) for stage in stages], step)
        return stages[index].value if index < len(stages) else full, index
