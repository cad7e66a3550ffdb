"""Recipes: a name or a path and `key=value` overrides come in, checked settings go out."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from albert.errors import InputError
from albert.model.presets import ALIASES, PRESETS, build_preset
from albert.settings import apply_overrides, build_settings
from albert.training.recipe_shelf import PRESET, RecipeShelf, merge_values
from albert.training.settings import PretrainSettings

_SHELF = RecipeShelf("pretrain")


def read_recipe(
    recipe: str | Path, *, overrides: Iterable[str] = (), batch_size: int | None = None
) -> PretrainSettings:
    """The settings of a recipe, changed by overrides.

    `batch_size` is another one than the recipe's: its learning rate is multiplied by √(B/B₀), its steps by
    B₀/B, and warm-up keeps its share; what an override says stands as it is. `model.preset` names the shape
    that other keys of `model` beside it change; `based_on` the recipe that this one differs from.
    """
    values, source = _SHELF.read_values(recipe)
    if batch_size is not None:
        settings = build_settings(PretrainSettings, values=_expand_model(values), source=source)
        values = merge_values(values, _list_rescaled(rescale(settings, batch_size)))
    overrides = list(overrides)
    if any(override.startswith(f"model.{PRESET}=") for override in overrides):
        values.pop("model", None)
    values = apply_overrides(values, overrides)
    return build_settings(PretrainSettings, values=_expand_model(values), source=source)


def _list_rescaled(settings: PretrainSettings) -> dict[str, Any]:
    return {
        "batch_size": settings.batch_size,
        "num_steps": settings.num_steps,
        "optimizer": {"learning_rate": settings.optimizer.learning_rate},
        "schedule": {"warmup_steps": settings.schedule.warmup_steps},
    }


def rescale(settings: PretrainSettings, batch_size: int) -> PretrainSettings:
    """The same training with batches of another size."""
    if batch_size < 1:
        raise InputError(f"a batch size of {batch_size} is too small; at least 1")
    factor = batch_size / settings.batch_size
    optimizer, schedule = settings.optimizer, settings.schedule
    if schedule.warmup_steps is not None:
        schedule = schedule.model_copy(update={"warmup_steps": round(schedule.warmup_steps / factor)})
    return settings.model_copy(
        update={
            "batch_size": batch_size,
            "num_steps": max(1, round(settings.num_steps / factor)),
            "schedule": schedule,
            "optimizer": optimizer.model_copy(
                update={"learning_rate": optimizer.learning_rate * math.sqrt(factor)}
            ),
        }
    )


def _expand_model(values: dict[str, Any]) -> dict[str, Any]:
    model = values.get("model")
    if not isinstance(model, dict) or PRESET not in model:
        return values
    changes = {key: value for key, value in model.items() if key != PRESET}
    preset = str(model[PRESET])
    if preset not in {**PRESETS, **ALIASES}:
        build_preset(preset)  # refused with a suggestion
    return {**values, "model": {**PRESETS[ALIASES.get(preset, preset)], **changes}}
