"""What a pretraining run is made of: the settings that a recipe holds."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from albert.examples.settings import ExampleSettings
from albert.model.config import ModelConfig
from albert.model.fresh_start import FreshStart
from albert.training.curriculum import Curriculum, Stages
from albert.training.evaluation_settings import HeldOutSettings
from albert.training.loop_settings import LoopSettings


class PretrainSettings(LoopSettings):
    """A recipe of pretraining, complete.

    `model` is left out where `init_from`, a model folder, brings one. `batch_size` counts sequences of
    `examples.max_length`. A step is computed in shares of about `micro_batch_tokens`. A stage of
    `length_schedule` has shorter sequences and as many more of them; one of `depth_schedule` fewer layers,
    and never more than the model has.
    Of the corpus, the first `data_share` is learned from (table 7 asks what more text is worth).
    `position_init` sinusoidal starts the position embeddings as waves instead of at random, and
    `num_matching_heads` makes so many heads of each block ones that look for the same word, and holds them.
    """

    model: ModelConfig | None = None
    init_from: str | None = None
    examples: ExampleSettings = ExampleSettings()
    batch_size: PositiveInt = 4096
    num_steps: PositiveInt = 125_000
    micro_batch_tokens: PositiveInt = 4096
    depth_schedule: Stages = ()
    length_schedule: Stages = ()
    held_out: HeldOutSettings = HeldOutSettings()
    data_share: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    position_init: Literal["normal", "sinusoidal"] = "normal"
    num_matching_heads: Annotated[int, Field(ge=0)] = 0
    num_workers: Annotated[int, Field(ge=0, le=256)] = 1

    @model_validator(mode="after")
    def _check_warmup(self) -> "PretrainSettings":
        fault = self.schedule.find_fault(self.num_steps)
        if fault is not None:
            raise ValueError(fault)
        return self

    @model_validator(mode="after")
    def _check_stages(self) -> "PretrainSettings":
        full = self.examples.max_length
        for stage in self.length_schedule:
            if not 8 <= stage.value <= full:
                raise ValueError(
                    f"length_schedule has a stage of {stage.value} pieces; from 8 to examples.max_length "
                    f"{full} are possible"
                )
        if self.model is None:
            return self
        named = self.model.model_fields_set if self.init_from is not None else set(ModelConfig.model_fields)
        # What a warm start leaves out is the folder's, which is not known yet.
        if "type_vocab_size" in named and self.model.type_vocab_size < 2:
            raise ValueError(
                f"model.type_vocab_size {self.model.type_vocab_size} cannot tell the two segments of an "
                "example apart; set it to 2"
            )
        if "max_position_embeddings" in named and full > self.model.max_position_embeddings:
            raise ValueError(
                f"examples.max_length {full} exceeds model.max_position_embeddings "
                f"{self.model.max_position_embeddings}; lower the first or raise the second"
            )
        return self

    @model_validator(mode="after")
    def _check_matching(self) -> "PretrainSettings":
        if self.num_matching_heads and self.strategy == "fsdp":
            raise ValueError(
                f"num_matching_heads {self.num_matching_heads} needs whole matrices, and strategy fsdp gives "
                "each process a part of them; take strategy ddp, or num_matching_heads 0"
            )
        return self

    @property
    def fresh_start(self) -> FreshStart:
        """How its weights begin."""
        has_waves = self.position_init == "sinusoidal"
        return FreshStart(has_waves=has_waves, num_matching_heads=self.num_matching_heads)

    def build_curriculum(self, model: ModelConfig) -> Curriculum:
        """The shape of every step."""
        return Curriculum(
            num_steps=self.num_steps,
            depth=model.num_hidden_layers,
            length=self.examples.max_length,
            batch_size=self.batch_size,
            depths=self.depth_schedule,
            lengths=self.length_schedule,
        )
