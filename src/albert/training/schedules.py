"""What changes with the step: the learning rate, and the depth and length of the examples.

All are pure functions of the step, so that a resumed run follows them.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from albert.settings import Settings

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class ScheduleSettings(Settings):
    """The learning rate; `linear` is the published schedule, `stable` decays in the last `decay_share`."""

    name: Literal["linear", "cosine", "stable", "constant"] = "linear"
    warmup_steps: Annotated[int, Field(ge=0)] | None = None
    warmup_share: Share | None = None
    decay_share: Share = 0.2

    @model_validator(mode="after")
    def _check_warmup(self) -> "ScheduleSettings":
        if self.warmup_steps is not None and self.warmup_share is not None:
            raise ValueError("warmup_steps and warmup_share exclude each other; set one of them to null")
        return self

    def find_fault(self, num_steps: int) -> str | None:
        """Explain what is wrong with it for a run of `num_steps`, or return None."""
        if self.warmup_steps is None or self.warmup_steps < num_steps:
            return None
        hint = "lower it, or set it to null and give schedule.warmup_share, as in 0.06"
        return f"schedule.warmup_steps {self.warmup_steps} is not less than num_steps {num_steps}; {hint}"

    def count_warmup(self, num_steps: int) -> int:
        share = round((self.warmup_share or 0.0) * num_steps)
        return share if self.warmup_steps is None else self.warmup_steps

    def find_factor(self, step: int, *, num_steps: int) -> float:
        """Compute the factor of the peak learning rate at a step, counted from 0."""
        if self.name != "constant" and step >= num_steps:
            return 0.0
        warmup = self.count_warmup(num_steps)
        if step < warmup:
            return step / warmup
        if self.name == "linear":
            # Published: the line starts at the very first step, so warm-up ends a little below the peak.
            return 1.0 - step / num_steps
        if self.name == "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * (step - warmup) / (num_steps - warmup)))
        if self.name == "stable":
            return min(1.0, (num_steps - step) / max(1, round(self.decay_share * num_steps)))
        return 1.0


class Stage(Settings):
    """A value that applies until a share of the steps is done."""

    until: Annotated[float, Field(gt=0.0, le=1.0)]
    value: Annotated[int, Field(ge=1)]


def _check_order(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    ends = [stage.until for stage in stages]
    if ends != sorted(set(ends)):
        raise ValueError(f"stages end at {ends}; each must end later than the one before it")
    return stages


# After the last stage, and without any, the full value applies.
Stages = Annotated[tuple[Stage, ...], AfterValidator(_check_order)]


@dataclass(frozen=True)
class StepShape:
    """The shape of a step: `stage` is the index of its length, `first_step` where its examples began."""

    depth: int
    length: int
    batch_size: int
    stage: int
    first_step: int


@dataclass(frozen=True)
class Curriculum:
    """The depth, length and batch size of every step of a run of `num_steps`.

    Because the block is shared, training may begin with few loops over it, and because examples are made on
    the fly, with short sequences. Both cost less and neither needs new weights. A shorter length takes a
    larger batch, so that every step sees about the same number of tokens.
    """

    num_steps: int
    depth: int
    length: int
    batch_size: int
    depths: tuple[Stage, ...] = ()
    lengths: tuple[Stage, ...] = ()

    def find(self, step: int) -> StepShape:
        depth, _ = self._find_stage(self.depths, step, self.depth)
        length, stage = self._find_stage(self.lengths, step, self.length)
        borders = [0, *map(self._border, self.lengths)]
        # Steps of the same length in earlier stages: this one continues with their examples.
        earlier = zip(self.lengths[:stage], borders, borders[1:], strict=False)
        num_earlier = sum(end - start for each, start, end in earlier if each.value == length)
        return StepShape(
            depth=min(depth, self.depth),  # the stages of a recipe, when the model was made less deep
            length=length,
            batch_size=max(1, round(self.batch_size * self.length / length)),
            stage=stage,
            first_step=borders[stage] - num_earlier,
        )

    def find_end(self, step: int) -> int:
        """Find the first later step with another shape, or the end of the run."""
        borders = sorted({self._border(stage) for stage in (*self.depths, *self.lengths)} | {self.num_steps})
        return next((border for border in borders if border > step), self.num_steps)

    def list_shapes(self) -> list[tuple[StepShape, range]]:
        """List each shape of the run in order, with its steps."""
        found, step = [], 0
        while step < self.num_steps:
            end = self.find_end(step)
            found.append((self.find(step), range(step, end)))
            step = end
        return found

    def _border(self, stage: Stage) -> int:
        return round(stage.until * self.num_steps)

    def _find_stage(self, stages: tuple[Stage, ...], step: int, full: int) -> tuple[int, int]:
        index = bisect_right([self._border(stage) for stage in stages], step)
        return stages[index].value if index < len(stages) else full, index
