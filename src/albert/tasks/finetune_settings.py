"""The settings of fine-tuning, and the recipes that hold them."""

from collections.abc import Container, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from albert.settings import apply_overrides, build_settings
from albert.training.schedules import ScheduleSettings
from albert.training.settings import LoopSettings, LossSpikeSettings, OptimizerSettings, RecipeFolder

Share = Annotated[float, Field(ge=0.0, lt=1.0)]
# The paper's rates are those of wide models; narrower ones learn with higher ones, the narrowest with Muon.
_WIDE = 512
_NARROW = 256
# Tasks that use the recipe of another for small models.
_LIKE = {
    "squad-1.1": "question-answering",
    "squad-2.0": "question-answering",
    "mnli": "classification",
    "qnli": "classification",
}


class FinetuneSettings(LoopSettings):
    """A complete recipe of fine-tuning; the defaults are for small models.

    Args:
        num_steps: Overrides `num_epochs`.
        dropout: Of the encoder; None keeps the model's own.
        head_dropout: Of the classifier; None keeps the model's own.
        rename_share: The share of the vocabulary that is replaced by other tokens at each step, the same in
            all texts: a small model then compares texts instead of memorizing them.
        class_weights: "balanced" weighs the loss of rare classes higher.
        patience: The run ends after so many evaluations without a better score.
        has_exits: Train a classifier after each layer for early exit.
        columns: The names of a table's columns.
        dev_share: The share of a table that is held out if there is no dev set.
        max_answer: The most tokens of a predicted answer.
        similarity_temperature: Divides the cosines of embeddings.
        min_similarity: Pairs of embeddings with a score below it are not trained on.
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
    has_exits: bool = False
    columns: dict[str, Any] = Field(default_factory=dict)
    dev_share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.1
    max_answer: PositiveInt = 30
    similarity_temperature: PositiveFloat = 0.05
    min_similarity: float = 4.0
    optimizer: OptimizerSettings = OptimizerSettings(name="adamw", learning_rate=1e-4)
    schedule: ScheduleSettings = ScheduleSettings(name="linear", warmup_share=0.1)
    # No loss-spike filter: a batch with a rare class is a spike, and is what there is to learn.
    loss_spike_filter: LossSpikeSettings = LossSpikeSettings(spike_factor=0.0)
    num_evaluations: Annotated[int, Field(ge=1)] = 6


def choose_recipe(task: str, *, hidden_size: int) -> str:
    """Choose the recipe: the paper's for wide models, ours for small and narrow ones."""
    like = _LIKE.get(task, task)
    if hidden_size >= _WIDE:
        names = [f"paper-{task}", f"wide-{task}", "paper"]
    elif hidden_size > _NARROW:
        names = [like, "small"]
    else:
        names = [f"narrow-{like}", like, "narrow"]
    known = _SHELF.list_names()
    return next(name for name in names if name in known)


def read_finetune_recipe(recipe: str | Path, *, overrides: Iterable[str] = ()) -> FinetuneSettings:
    """Read the settings of a recipe, changed by overrides; epochs in them replace the recipe's steps.

    With another number of either, the warm-up keeps its share, unless the overrides set it.
    """
    values, source = _SHELF.read_values(recipe)
    words = list(overrides)
    values = _fit_length(values, {word.partition("=")[0].partition(".")[0] for word in words})
    values = apply_overrides(values, words, literal="columns")
    return build_settings(FinetuneSettings, values=values, source=source)


def _fit_length(values: dict[str, Any], changed: Container[str]) -> dict[str, Any]:
    """Adapt a recipe to another length: epochs replace steps, and the warm-up keeps its share."""
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


_SHELF = RecipeFolder("finetune", fit=_fit_length)
