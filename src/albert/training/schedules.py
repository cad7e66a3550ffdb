"""The learning rate schedule: pure functions of the step, so that a resumed run follows it."""

import math
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field, model_validator

from albert.settings import Settings

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class ScheduleSettings(Settings):
    """The learning rate schedule; `linear` is the published one.

    Warm-up is a number of steps or a share of them. `stable` stays at the peak and decays over the last
    `decay_share` of the steps.
    """

    name: Literal["linear", "cosine", "stable", "constant"] = "linear"
    warmup_steps: Annotated[int, Field(ge=0)] | None = None
    warmup_share: Share | None = None
    decay_share: Share = 0.2

    @model_validator(mode="after")
    def _check_warmup(self) -> "ScheduleSettings":
        if self.warmup_steps is not None and self.warmup_share is not None:
            raise ValueError(
                f"warmup_steps {self.warmup_steps} and warmup_share {self.warmup_share} are two answers to "
                "one question; give one and set the other to null"
            )
        return self

    def find_fault(self, num_steps: int) -> str | None:
        """Explain what is wrong with it for a run of `num_steps`, or return None."""
        if self.warmup_steps is None or self.warmup_steps < num_steps:
            return None
        return (
            f"schedule.warmup_steps {self.warmup_steps} is all of num_steps {num_steps}; lower it, or set it "
            "to null and give schedule.warmup_share, as in 0.06"
        )

    def count_warmup(self, num_steps: int) -> int:
        """Count the warm-up steps of a run of `num_steps`."""
        if self.warmup_steps is not None:
            return self.warmup_steps
        return round((self.warmup_share or 0.0) * num_steps)


def find_factor(settings: ScheduleSettings, step: int, *, num_steps: int) -> float:
    """Compute the factor of the peak learning rate at a step, counted from 0."""
    if settings.name != "constant" and step >= num_steps:
        return 0.0
    warmup = settings.count_warmup(num_steps)
    if step < warmup:
        return step / warmup
    return _SHAPES[settings.name](step, warmup, num_steps, settings.decay_share)


def _linear(step: int, warmup: int, num_steps: int, decay_share: float) -> float:
    # Published: the line leads from the very first step to 0, so warm-up ends a little below the peak.
    return 1.0 - step / num_steps


def _cosine(step: int, warmup: int, num_steps: int, decay_share: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * (step - warmup) / (num_steps - warmup)))


def _stable(step: int, warmup: int, num_steps: int, decay_share: float) -> float:
    decay = max(1, round(decay_share * num_steps))
    return min(1.0, (num_steps - step) / decay)


def _constant(step: int, warmup: int, num_steps: int, decay_share: float) -> float:
    return 1.0


_SHAPES: dict[str, Callable[[int, int, int, float], float]] = {
    "linear": _linear,
    "cosine": _cosine,
    "stable": _stable,
    "constant": _constant,
}
