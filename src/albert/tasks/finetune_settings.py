"""Settings of fine-tuning, and the choice of a recipe.

The paper's learning rates are those of wide models; narrower ones need higher rates, the narrowest also Muon.
"""

from collections.abc import Container, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from albert.settings import Settings, apply_overrides, build_settings, check_overrides
from albert.training.schedules import ScheduleSettings
from albert.training.settings import LoopSettings, LossSpikeSettings, OptimizerSettings, RecipeFolder, Weight

ClassifierPooling = Literal["cls", "mean", "segments"]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]
# Hidden sizes: the least of a wide model, the greatest of a narrow one.
_WIDE = 512
_NARROW = 256
# Tasks that share the recipe of another one for small models.
_SHARED_RECIPES = {
    "squad-1.1": "question-answering",
    "squad-2.0": "question-answering",
    "mnli": "classification",
    "qnli": "classification",
}


class TeacherSettings(Settings):
    """Settings of the losses with a teacher (`--teacher`).

    Args:
        soft_weight: The weight of the loss against the teacher's outputs.
        label_weight: The weight of the loss against the true labels.
        temperature: Divides the logits of student and teacher. At 1 both losses are cross-entropies of the
            same scale; higher ones give unlikely labels (in question answering, hundreds of tokens) more
            weight.
        hidden_weight: The weight of the squared distance of matched hidden states, in units of the teacher's
            variance; only for a teacher of the same vocabulary and width.
        unlabeled_share: The share of a step's examples that are unlabeled, with `--unlabeled`.
    """

    soft_weight: Weight = 1.0
    label_weight: Weight = 1.0
    temperature: PositiveFloat = 1.0
    hidden_weight: Weight = 0.0
    unlabeled_share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5

    @model_validator(mode="after")
    def _check_weights(self) -> "TeacherSettings":
        if not self.soft_weight and not self.hidden_weight:
            raise ValueError("teacher.soft_weight and teacher.hidden_weight are 0; set one of them above 0")
        return self


class FinetuneSettings(LoopSettings):
    """Settings of fine-tuning, as in a recipe; the defaults are for small models.

    Args:
        num_steps: The number of steps; overrides `num_epochs`.
        max_length: The maximum length of a sequence, in tokens.
        micro_batch_tokens: A step is computed in micro-batches of about so many tokens.
        dropout: Dropout of the encoder; None keeps the model's own.
        head_dropout: Dropout of the classifier; None keeps the model's own.
        rename_share: The share of the vocabulary that is replaced by other tokens at each step, the same in
            all texts, so that a small model compares texts instead of memorizing them.
        class_weights: "balanced" gives rare classes a higher weight in the loss.
        classifier_pooling: The input of a classifier of texts: "cls", [CLS] after the pooler; "mean", the
            mean of all tokens; "segments", this mean and a comparison of the means of both texts.
        has_exits: Train a classifier after each layer, for early exit.
        columns: The names of a table's columns.
        dev_share: The share of a table that is held out if there is no dev set.
        max_answer: The maximum number of tokens of a predicted answer.
        similarity_temperature: Divides the cosines of embeddings.
        min_similarity: Skip pairs of embeddings with a lower score.
        teacher: The losses with a teacher.
    """

    batch_size: PositiveInt = 32
    num_epochs: PositiveFloat = 3.0
    num_steps: PositiveInt | None = None
    max_length: Annotated[int, Field(ge=8, le=65_536)] = 128
    micro_batch_tokens: PositiveInt = 2048
    dropout: Share | None = None
    head_dropout: Share | None = 0.1
    rename_share: Share = 0.0
    class_weights: Literal["equal", "balanced"] = "equal"
    classifier_pooling: ClassifierPooling = "cls"
    has_exits: bool = False
    columns: dict[str, Any] = Field(default_factory=dict)
    dev_share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.1
    max_answer: PositiveInt = 30
    similarity_temperature: PositiveFloat = 0.05
    min_similarity: float = 4.0
    teacher: TeacherSettings = TeacherSettings()
    optimizer: OptimizerSettings = OptimizerSettings(name="adamw", learning_rate=1e-4)
    schedule: ScheduleSettings = ScheduleSettings(name="linear", warmup_share=0.1)
    # No loss-spike filter: a batch with a rare class has a high loss.
    loss_spike_filter: LossSpikeSettings = LossSpikeSettings(spike_factor=0.0)
    num_evaluations: Annotated[int, Field(ge=1)] = 6

    @model_validator(mode="after")
    def _check_exits(self) -> "FinetuneSettings":
        if self.has_exits and self.classifier_pooling != "cls":
            raise ValueError(
                f"classifier_pooling {self.classifier_pooling} has no early exits; set has_exits=false"
            )
        return self


def choose_recipe(task: str, *, hidden_size: int) -> str:
    """Choose the recipe of a task: the paper's for wide models, others for small and narrow ones."""
    shared = _SHARED_RECIPES.get(task, task)
    if hidden_size >= _WIDE:
        names = [f"paper-{task}", f"wide-{task}", "paper"]
    elif hidden_size > _NARROW:
        names = [shared, "small"]
    else:
        names = [f"narrow-{shared}", shared, "narrow"]
    known = _RECIPES.list_names()
    return next(name for name in names if name in known)


def read_finetune_recipe(recipe: str | Path, *, overrides: Iterable[str] = ()) -> FinetuneSettings:
    """Read a recipe and apply the overrides.

    Overridden epochs replace the recipe's steps. With another number of either, the warm-up keeps its share,
    unless it is overridden, too.
    """
    values, source = _RECIPES.read_values(recipe)
    overrides = check_overrides(overrides)
    values = _fit_length(values, {each.partition("=")[0].partition(".")[0] for each in overrides})
    values = apply_overrides(values, overrides, literal="columns")
    return build_settings(FinetuneSettings, values=values, source=source)


def _fit_length(values: dict[str, Any], changed: Container[str]) -> dict[str, Any]:
    """Adapt a recipe to another number of steps or epochs; the warm-up keeps its share."""
    if "num_epochs" not in changed and "num_steps" not in changed:
        return values
    fitted = dict(values)
    schedule, num_steps = values.get("schedule"), values.get("num_steps")
    if isinstance(schedule, dict) and "schedule" not in changed:
        warmup_steps = schedule.get("warmup_steps")
        if isinstance(num_steps, int) and isinstance(warmup_steps, int) and num_steps and warmup_steps:
            share = warmup_steps / num_steps
            fitted["schedule"] = {**schedule, "warmup_steps": None, "warmup_share": share}
    if "num_steps" not in changed:
        fitted["num_steps"] = None
    return fitted


_RECIPES = RecipeFolder("finetune", fit=_fit_length)
