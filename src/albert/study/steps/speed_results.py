"""Rounds of a speed measurement come in; times, and the ratios of one side to the other, go out. No torch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from albert.model.config import ModelConfig
from albert.study.cells import summarise_ratios
from albert.study.steps.equal_shapes import Family
from albert.study.steps.step_process import Footprint
from albert.tasks.metrics.intervals import Interval

Time = Callable[[Footprint], float]


@dataclass(frozen=True)
class SpeedRound:
    """Both sides, one right after the other; or why there is nothing."""

    footprints: dict[Family, Footprint]
    failure: str | None = None


@dataclass(frozen=True)
class ShapeSpeed:
    """The rounds of ALBERT and BERT of one shape, and why there are no more of them."""

    shape: str
    pair: dict[Family, ModelConfig]
    rounds: tuple[SpeedRound, ...]
    failure: str | None = None

    @property
    def told_rounds(self) -> str:
        """How many there are, in words."""
        return f"{len(self.rounds)} round{'' if len(self.rounds) == 1 else 's'}"

    def iter_rounds(self) -> Iterator["ShapeSpeed"]:
        """Each round as if it were the only one."""
        return (replace(self, rounds=(each,)) for each in self.rounds)

    def find_median(self, family: Family, time: Time) -> float:
        """Of one side, over rounds."""
        return median(time(each.footprints[family]) for each in self.rounds)

    def find_ratio(self, time: Time) -> Interval:
        """BERT's time over ALBERT's in the same round: the median over rounds, the smallest and the largest.

        Above 1, ALBERT is faster.
        """
        return summarise_ratios(
            [time(each.footprints["BERT"]) / time(each.footprints["ALBERT"]) for each in self.rounds]
        )


def read_step(found: Footprint) -> float:
    """Seconds of a whole training step."""
    return found.step_seconds


def read_model(found: Footprint) -> float:
    """Seconds of the forward and the backward pass."""
    return found.model_seconds


def read_optimizer(found: Footprint) -> float:
    """Seconds of clipping and of updating the weights."""
    return found.optimizer_seconds


def read_inference(found: Footprint) -> float:
    """Seconds of a forward pass by itself."""
    assert found.inference_seconds is not None, "it was asked for"
    return found.inference_seconds


def find_largest(measured: Sequence[ShapeSpeed]) -> ShapeSpeed:
    """The shape of which the most was asked."""
    return max(measured, key=lambda each: each.rounds[0].footprints["BERT"].num_parameters)
