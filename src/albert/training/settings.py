"""The settings of training: optimizer, loop, evaluation, and the recipe of a pretraining run."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from albert.examples.settings import ExampleSettings
from albert.model.config import Initialization, ModelConfig
from albert.model.runtime import RuntimeSettings
from albert.settings import Settings
from albert.training.curriculum import Curriculum, Stages
from albert.training.schedules import ScheduleSettings

Strategy = Literal["ddp", "fsdp"]
OptimizerName = Literal["lamb", "adamw", "muon"]
Beta = Annotated[float, Field(ge=0.0, lt=1.0)]


class OptimizerSettings(Settings):
    """The optimizer and its hyperparameters.

    The defaults are the published ones, except for the learning rate, which depends on the batch size. `muon`
    takes AdamW's learning rates. `max_grad_norm` 0 disables clipping.
    """

    name: OptimizerName = "lamb"
    learning_rate: PositiveFloat = 0.00176
    beta1: Beta = 0.9
    beta2: Beta = 0.999
    eps: PositiveFloat = 1e-6
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.01
    max_grad_norm: Annotated[float, Field(ge=0.0)] = 1.0


class GuardSettings(Settings):
    """Which steps are skipped: those with a loss or gradient that is not finite, or with a loss spike.

    A spike exceeds the running mean by `spike_factor` mean deviations and by half; 0 disables the check.
    After `max_skipped` skipped steps in a row, the run stops.
    """

    spike_factor: Annotated[float, Field(ge=0.0)] = 10.0
    max_skipped: Annotated[int, Field(ge=1)] = 5


class LoopSettings(Settings):
    """The settings that pretraining and fine-tuning share.

    A checkpoint is written after each evaluation and every `save_minutes`. Training stops after `patience`
    evaluations in a row without a better score; with None it stops at its last step. `strategy` says whether
    each of several processes holds the whole model (ddp) or a part of it (fsdp). `is_compiled` compiles the
    encoder with torch.compile, which takes a minute.
    """

    optimizer: OptimizerSettings = OptimizerSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    guard: GuardSettings = GuardSettings()
    log_every: Annotated[int, Field(ge=1)] = 10
    num_evaluations: Annotated[int, Field(ge=1)] = 20
    patience: Annotated[int, Field(ge=1)] | None = None
    save_minutes: PositiveFloat = 10.0
    num_checkpoints: Annotated[int, Field(ge=1)] = 2
    has_tensorboard: bool = True
    runtime: RuntimeSettings = RuntimeSettings()
    gradient_checkpointing: bool = False
    is_compiled: bool = False
    strategy: Strategy = "ddp"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

    @model_validator(mode="after")
    def _check_strategy(self) -> "LoopSettings":
        if self.strategy == "fsdp" and self.optimizer.name == "muon":
            raise ValueError(
                "optimizer.name muon needs whole matrices, and strategy fsdp gives each process a part of "
                "them; take strategy ddp, or optimizer.name adamw"
            )
        return self


class HeldOutSettings(Settings):
    """The held-out text of a pretraining run and what is evaluated on it.

    `data` is another prepared corpus. Without it, the last documents of the corpus are held out: `share` of
    its tokens, about `max_pieces` at most (whole documents up to three times as much; of a longer one its
    end), and at least `min_documents`; from two on these are whole, however long. The other sentence
    objective is evaluated at the end only, unless `asks_both`.
    """

    data: str | None = None
    share: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.01
    max_pieces: Annotated[int, Field(ge=1)] = 200_000
    min_documents: Annotated[int, Field(ge=1)] = 1
    num_examples: Annotated[int, Field(ge=1)] = 512
    asks_both: bool = False


class PretrainSettings(LoopSettings):
    """A pretraining recipe.

    `model` may be left out with `init_from`, a model folder. `batch_size` counts sequences of
    `examples.max_length`; a step is computed in micro-batches of about `micro_batch_tokens`. A stage of
    `length_schedule` has shorter sequences and more of them; a stage of `depth_schedule` has fewer layers
    (never more than the model has). Only the first `data_share` of the corpus is trained on (table 7).
    `position_init` sinusoidal initializes the position embeddings as waves. `num_matching_heads` heads of
    each block are kept to attending to the same word.
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
    def _check_combinations(self) -> "PretrainSettings":
        fault = self.schedule.find_fault(self.num_steps)
        if fault is not None:
            raise ValueError(fault)
        full = self.examples.max_length
        for stage in self.length_schedule:
            if not 8 <= stage.value <= full:
                raise ValueError(
                    f"length_schedule has a stage of {stage.value} pieces; from 8 to examples.max_length "
                    f"{full} are possible"
                )
        if self.num_matching_heads and self.strategy == "fsdp":
            raise ValueError(
                f"num_matching_heads {self.num_matching_heads} needs whole matrices, and strategy fsdp gives "
                "each process a part of them; take strategy ddp, or num_matching_heads 0"
            )
        if self.model is None:
            return self
        # What a warm start leaves out is taken from the folder, which is not known yet.
        named = self.model.model_fields_set if self.init_from is not None else set(ModelConfig.model_fields)
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

    @property
    def fresh_start(self) -> Initialization:
        """How the weights are initialized."""
        has_waves = self.position_init == "sinusoidal"
        return Initialization(has_waves=has_waves, num_matching_heads=self.num_matching_heads)

    def build_curriculum(self, model: ModelConfig) -> Curriculum:
        """Resolve the stages of depth and length for a model."""
        return Curriculum(
            num_steps=self.num_steps,
            depth=model.num_hidden_layers,
            length=self.examples.max_length,
            batch_size=self.batch_size,
            depths=self.depth_schedule,
            lengths=self.length_schedule,
        )
