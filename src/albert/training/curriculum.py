"""The curriculum: depth, length and batch size of every step.

Because the block is shared, training may begin with few loops over it, and because examples are made on the
fly, with short sequences. Both cost less and neither needs new weights.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from albert.settings import Settings


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
    """One step: `stage` is that of its length, and `first_step` where its row of examples began.

    A stage of a length that was there before goes on with that one's examples.
    """

    depth: int
    length: int
    batch_size: int
    stage: int
    first_step: int


@dataclass(frozen=True)
class Curriculum:
    """The stages of a run of `num_steps`, resolved.

    A shorter length takes a larger batch, so that every step sees about the same number of pieces.
    """

    num_steps: int
    depth: int
    length: int
    batch_size: int
    depths: tuple[Stage, ...] = ()
    lengths: tuple[Stage, ...] = ()

    def find(self, step: int) -> StepShape:
        """Find the shape of a step."""
        stage_depth, _, _ = self._find(self.depths, step, self.depth)
        depth = min(stage_depth, self.depth)  # a recipe's stages, when the model was made less deep
        length, stage, first_step = self._find(self.lengths, step, self.length)
        first_step -= self._count_steps(length, until=stage)
        batch_size = max(1, round(self.batch_size * self.length / length))
        return StepShape(depth, length, batch_size, stage, first_step)

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

    def _count_steps(self, length: int, *, until: int) -> int:
        """Count the steps of a length in the stages before `until`."""
        borders = [0, *map(self._border, self.lengths)]
        stages = zip(self.lengths[:until], borders, borders[1:], strict=False)
        return sum(end - start for stage, start, end in stages if stage.value == length)

    def _border(self, stage: Stage) -> int:
        return round(stage.until * self.num_steps)

    def _find(self, stages: tuple[Stage, ...], step: int, full: int) -> tuple[int, int, int]:
        """Find the value at a step, the number of its stage, and the first step of that stage."""
        borders = [self._border(stage) for stage in stages]
        number = bisect_right(borders, step)
        value = stages[number].value if number < len(stages) else full
        return value, number, borders[number - 1] if number else 0
