"""What is measured of pairs: shapes, a batch and an optimiser, as settings that speed and memory share."""

from typing import Annotated

from pydantic import Field, PositiveInt

from albert.errors import InputError
from albert.model.config import ModelConfig
from albert.settings import Settings
from albert.study.steps.equal_shapes import Family, Shape, build_pair
from albert.training.settings import OptimizerName


class PairSettings(Settings):
    """ALBERT and BERT of each of the `shapes`, in training steps on sequences of `length` random pieces.

    `model` has other values than the shape's preset, for both sides. Of each process `num_steps` steps are
    timed, after one that is not. Without `num_threads` torch chooses.
    """

    shapes: Annotated[tuple[Shape, ...], Field(min_length=1)] = ("base",)
    model: dict[str, bool | int | float | str] = Field(default_factory=dict)
    length: Annotated[int, Field(ge=2)] = 128
    optimizer: OptimizerName = "lamb"
    num_steps: PositiveInt = 2
    num_threads: PositiveInt | None = None

    def build_pairs(self) -> dict[str, dict[Family, ModelConfig]]:
        """Both configurations of each shape; refused: what cannot be built, or cannot read that length."""
        pairs: dict[str, dict[Family, ModelConfig]] = {
            shape: build_pair(shape, changes=self.model) for shape in self.shapes
        }
        for shape, pair in pairs.items():
            limit = pair["ALBERT"].max_position_embeddings
            if self.length > limit:
                raise InputError(
                    f"length is {self.length}, and {shape} reads at most {limit} pieces; lower it"
                )
        return pairs
