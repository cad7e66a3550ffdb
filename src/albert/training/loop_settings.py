"""How anything is trained: the settings of optimiser, guard and loop."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, model_validator

from albert.model.runtime import RuntimeSettings
from albert.settings import Settings
from albert.training.schedules import ScheduleSettings

Strategy = Literal["ddp", "fsdp"]
OptimizerName = Literal["lamb", "adamw", "muon"]
Beta = Annotated[float, Field(ge=0.0, lt=1.0)]


class OptimizerSettings(Settings):
    """How weights are updated.

    The defaults are the published ones, but for the learning rate, which belongs to a batch size.
    `muon` takes AdamW's learning rates. `max_grad_norm` 0 does not clip.
    """

    name: OptimizerName = "lamb"
    learning_rate: PositiveFloat = 0.00176
    beta1: Beta = 0.9
    beta2: Beta = 0.999
    eps: PositiveFloat = 1e-6
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.01
    max_grad_norm: Annotated[float, Field(ge=0.0)] = 1.0


class GuardSettings(Settings):
    """Which steps are left out: those whose loss or gradient is no number, or a spike.

    A spike exceeds the running mean by `spike_factor` mean deviations and by half; 0 watches for none. After
    `max_skipped` steps left out in a row, the run stops with advice.
    """

    spike_factor: Annotated[float, Field(ge=0.0)] = 10.0
    max_skipped: Annotated[int, Field(ge=1)] = 5


class LoopSettings(Settings):
    """How a job is trained, whatever it is. A checkpoint follows each evaluation and `save_minutes`.

    After `patience` evaluations in a row without a better score, it ends; None: at its last step. Of many
    processes each holds the whole model (`strategy` ddp) or a part of it (fsdp). `is_compiled` has torch
    compile the encoder, which takes a minute.
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
