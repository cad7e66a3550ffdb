"""Settings of training, and the recipes that hold them.

A recipe is a YAML file, by name or path, merged with the recipe that it is based on and with overrides.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from albert.errors import InputError, SettingsError, suggest
from albert.examples.settings import ExampleSettings
from albert.files import read_text
from albert.model.config import ALIASES, PRESETS, Initialization, ModelConfig, build_preset
from albert.model.runtime import RuntimeSettings
from albert.settings import Settings, apply_overrides, build_settings, check_overrides, parse_yaml
from albert.training.schedules import Curriculum, ScheduleSettings, Stages

Strategy = Literal["ddp", "fsdp"]
OptimizerName = Literal["lamb", "adamw", "muon"]
Beta = Annotated[float, Field(ge=0.0, lt=1.0)]
Weight = Annotated[float, Field(ge=0.0)]
_PRESET = "preset"


class OptimizerSettings(Settings):
    """Settings of the optimizer; the defaults are the published ones for a batch size of 4096.

    Args:
        name: lamb, adamw or muon.
        learning_rate: The peak learning rate; muon takes AdamW's.
        max_grad_norm: The norm at which gradients are clipped; 0 disables clipping.
    """

    name: OptimizerName = "lamb"
    learning_rate: PositiveFloat = 0.00176
    beta1: Beta = 0.9
    beta2: Beta = 0.999
    eps: PositiveFloat = 1e-6
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.01
    max_grad_norm: Annotated[float, Field(ge=0.0)] = 1.0


class LossSpikeSettings(Settings):
    """Settings of the filter that skips steps with a loss spike, or a loss or gradient that is not finite.

    Args:
        spike_factor: A spike exceeds the running mean by so many mean deviations, and by half; 0 disables it.
        max_skipped: The run stops after so many skipped steps in a row.
    """

    spike_factor: Annotated[float, Field(ge=0.0)] = 10.0
    max_skipped: Annotated[int, Field(ge=1)] = 5


class LoopSettings(Settings):
    """Settings that pretraining and fine-tuning share.

    Args:
        log_every: The number of steps that one record of the metrics summarizes.
        num_evaluations: The number of evaluations, evenly spread; the last one is at the end.
        patience: Stop after so many evaluations in a row without a better score.
        save_minutes: A checkpoint is written so often, and after each evaluation.
        num_checkpoints: The number of checkpoints to keep, besides the best.
        is_compiled: Compile the encoder, which takes a minute.
        strategy: Whether each of several processes holds the full model (ddp) or a shard of it (fsdp).
    """

    former_names: ClassVar[Mapping[str, str]] = {"guard": "loss_spike_filter"}

    optimizer: OptimizerSettings = OptimizerSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    loss_spike_filter: LossSpikeSettings = LossSpikeSettings()
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
            raise ValueError("optimizer.name muon needs strategy ddp: fsdp shards the matrices")
        return self


class HeldOutSettings(Settings):
    """Settings of the held-out text of a pretraining run, and of its evaluation.

    Args:
        data: A prepared corpus; by default the last documents of the training corpus are held out.
        share: The share of its tokens to hold out.
        max_tokens: The most tokens to hold out, about.
        min_documents: The fewest documents to hold out; two or more are whole, however long.
        num_examples: The number of held-out examples of an evaluation.
        evaluates_both: Evaluate the other sentence objective each time, not only at the end.
    """

    former_names: ClassVar[Mapping[str, str]] = {
        "max_pieces": "max_tokens",
        "asks_both": "evaluates_both",
    }

    data: str | None = None
    share: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.01
    max_tokens: Annotated[int, Field(ge=1)] = 200_000
    min_documents: Annotated[int, Field(ge=1)] = 1
    num_examples: Annotated[int, Field(ge=1)] = 512
    evaluates_both: bool = False


class DistillationSettings(Settings):
    """A teacher, and what a student learns from it; a weight of 0 leaves a loss out.

    A student starts from the mean of the teacher's layers that each block stands for, or from one of them
    (`init`). Of all examples, `single_share` are single texts without masks and the rest are pairs, which are
    masked if `mlm_weight` is not 0; `replaced_share` of the tokens of single texts are replaced by random
    ones, for student and teacher. Groups of `group_size` examples are compared with each other. `layers`
    matches layers of the student with the teacher's, [[3, 6]]; by default all at the same share of the depth.
    `exit_depths` are numbers of layers that the student is to be used with besides all of them.
    """

    teacher: str | None = None
    init: Literal["mean", "first", "middle", "last", "none"] = "mean"
    hidden_weight: Weight = 1.0
    relation_weight: Weight = 0.0
    embedding_weight: Weight = 2.0
    similarity_weight: Weight = 20.0
    exit_weight: Weight = 1.0
    mlm_weight: Weight = 0.0
    pair_weight: Weight = 0.0
    layers: tuple[tuple[int, int], ...] | None = None
    exit_depths: tuple[Annotated[int, Field(ge=1)], ...] = ()
    num_relation_heads: PositiveInt = 12
    single_share: Annotated[float, Field(ge=0.0, le=1.0)] = 0.65
    replaced_share: Annotated[float, Field(ge=0.0, le=0.5)] = 0.0
    group_size: Annotated[int, Field(ge=2)] = 16

    @model_validator(mode="after")
    def _check_weights(self) -> "DistillationSettings":
        if self.pair_weight and not self.mlm_weight:
            raise ValueError(f"pair_weight {self.pair_weight} needs pairs with masks; set mlm_weight above 0")
        if not any((self.hidden_weight, self.relation_weight, self.embedding_weight, self.similarity_weight)):
            raise ValueError("all weights of the teacher's losses are 0; set hidden_weight or another one")
        return self

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the losses that are not 0; that of the sentence head is `pair`."""
        losses = ("hidden", "relation", "embedding", "similarity", "exit", "mlm", "pair")
        weights = {name: float(getattr(self, f"{name}_weight")) for name in losses}
        if not self.exit_depths:
            del weights["exit"]
        return {name: weight for name, weight in weights.items() if weight}


class PretrainSettings(LoopSettings):
    """Settings of pretraining, as in a recipe.

    Args:
        model: The config of the model; may be left out with `init_from`.
        init_from: A model folder whose weights the run starts from.
        batch_size: The number of sequences of `examples.max_length` in a step.
        micro_batch_tokens: A step is computed in micro-batches of about so many tokens.
        depth_schedule: Stages with fewer layers (never more than the model has).
        length_schedule: Stages with shorter sequences and more of them.
        data_share: Train on this share of the corpus only, from its beginning (table 7).
        position_init: How position embeddings are initialized; sinusoidal draws waves.
        num_matching_heads: The number of heads of each block that are kept to attending to the same word.
        distillation: A teacher to learn from.
        num_workers: The number of processes that build batches; 0 builds them in the training process.
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
    distillation: DistillationSettings | None = None
    num_workers: Annotated[int, Field(ge=0, le=256)] = 1

    @model_validator(mode="after")
    def _check_combinations(self) -> "PretrainSettings":
        if error := self.schedule.find_error(self.num_steps):
            raise ValueError(error)
        full = self.examples.max_length
        for stage in self.length_schedule:
            if not 8 <= stage.value <= full:
                raise ValueError(
                    f"length_schedule has a stage of {stage.value} tokens; the range is 8 to {full}"
                )
        if self.distillation is not None and self.batch_size % self.distillation.group_size:
            raise ValueError(
                f"batch_size {self.batch_size} is not a multiple of distillation.group_size "
                f"{self.distillation.group_size}"
            )
        if self.num_matching_heads and self.strategy == "fsdp":
            number = self.num_matching_heads
            raise ValueError(f"num_matching_heads {number} needs strategy ddp: fsdp shards the matrices")
        # What a warm start leaves out is taken from the folder, which is not known yet.
        key = "max_position_embeddings"
        if self.model is not None and (self.init_from is None or key in self.model.model_fields_set):
            limit = self.model.max_position_embeddings
            if full > limit:
                raise ValueError(f"examples.max_length {full} exceeds model.{key} {limit}; lower it")
        return self

    @property
    def initialization(self) -> Initialization:
        is_sinusoidal, num_heads = self.position_init == "sinusoidal", self.num_matching_heads
        return Initialization(has_sinusoidal_positions=is_sinusoidal, num_matching_heads=num_heads)

    def with_warmup_share(self) -> "PretrainSettings":
        if self.schedule.warmup_steps is None:
            return self
        share = self.schedule.warmup_steps / self.num_steps
        schedule = self.schedule.model_copy(update={"warmup_steps": None, "warmup_share": share})
        return self.model_copy(update={"schedule": schedule})

    def build_curriculum(self, model: ModelConfig) -> Curriculum:
        """Resolve the stages of depth and length for a model."""
        depth, length = model.num_hidden_layers, self.examples.max_length
        full = Curriculum(num_steps=self.num_steps, depth=depth, length=length, batch_size=self.batch_size)
        return replace(full, depths=self.depth_schedule, lengths=self.length_schedule)


def read_recipe(
    recipe: str | Path, *, overrides: Iterable[str] = (), batch_size: int | None = None, job: str = "pretrain"
) -> PretrainSettings:
    """Read a recipe of pretraining or of another job (distill) and apply the overrides.

    Another `batch_size` multiplies the learning rate by √(B/B₀) and the steps by B₀/B; warm-up keeps its
    share. `model.preset` names a shape that the other keys of `model` change.
    """
    values, source = RecipeFolder(job).read_values(recipe)
    if batch_size is not None:
        settings = build_settings(PretrainSettings, values=_expand_model(values), source=source)
        values = _merge(values, _rescale(settings, batch_size))
    overrides = check_overrides(overrides)
    if any(override.startswith(f"model.{_PRESET}=") for override in overrides):
        values.pop("model", None)
    values = apply_overrides(values, overrides)
    return build_settings(PretrainSettings, values=_expand_model(values), source=source)


def _rescale(settings: PretrainSettings, batch_size: int) -> dict[str, Any]:
    if batch_size < 1:
        raise InputError(f"batch_size is {batch_size}; set it to at least 1")
    factor, warmup = batch_size / settings.batch_size, settings.schedule.warmup_steps
    return {
        "batch_size": batch_size,
        "num_steps": max(1, round(settings.num_steps / factor)),
        "optimizer": {"learning_rate": settings.optimizer.learning_rate * math.sqrt(factor)},
        "schedule": {"warmup_steps": None if warmup is None else round(warmup / factor)},
    }


def _expand_model(values: dict[str, Any]) -> dict[str, Any]:
    model = values.get("model")
    if not isinstance(model, dict) or _PRESET not in model:
        return values
    preset = str(model[_PRESET])
    if preset not in {**PRESETS, **ALIASES}:
        build_preset(preset)  # raises with a suggestion
    changes = {key: value for key, value in model.items() if key != _PRESET}
    return {**values, "model": {**PRESETS[ALIASES.get(preset, preset)], **changes}}


@dataclass(frozen=True)
class RecipeFolder:
    """The package's recipes for a job; `fit` adapts a base recipe to the values that are merged over it."""

    job: str
    fit: Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]] = lambda base, _: base

    def list_names(self) -> list[str]:
        return sorted(path.stem for path in self._folder.glob("*.yaml"))

    def read_values(self, recipe: str | Path) -> tuple[dict[str, Any], str]:
        """Read a recipe, merged over the one it is based on; return the values and a name for errors."""
        name, known = str(recipe), self.list_names()
        if name in known:
            text, source = (self._folder / f"{name}.yaml").read_text("utf-8"), f"recipe {name}"
        elif Path(recipe).is_file():
            text, source = read_text(Path(recipe)), name
        else:
            hint = suggest(name, known, lead="known recipes:", more="; or give a YAML file")
            raise InputError(f"unknown recipe {name!r}; {hint}")
        values = parse_yaml(text, source=source)
        if not isinstance(values, dict):
            raise SettingsError(f"{source}: holds a {type(values).__name__}; write `key: value` lines")
        based_on = values.pop("based_on", None)
        if based_on is None:
            return values, source
        base, _ = self.read_values(str(based_on))
        return _merge(self.fit(base, values), values), source

    @property
    def _folder(self) -> Path:
        return Path(__file__).parents[1] / "recipes" / self.job


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge sections recursively; a section of `changes` with a `preset` replaces that of the base."""
    merged = {} if _PRESET in changes else dict(base)
    for key, value in changes.items():
        section = merged.get(key)
        is_merged = isinstance(section, dict) and isinstance(value, dict)
        merged[key] = _merge(section, value) if is_merged else value  # type: ignore[arg-type]
    return merged
