"""Recipes: YAML files by name or path, merged with the recipe they are based on and with overrides."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from albert.errors import InputError, SettingsError, suggest
from albert.files import read_text
from albert.model.config import ALIASES, PRESETS, build_preset
from albert.settings import apply_overrides, build_settings, parse_yaml
from albert.training.settings import PretrainSettings

PRESET = "preset"


def read_recipe(
    recipe: str | Path, *, overrides: Iterable[str] = (), batch_size: int | None = None
) -> PretrainSettings:
    """Read a pretraining recipe and apply the overrides.

    `batch_size` replaces the recipe's: the learning rate is multiplied by √(B/B₀), the steps by B₀/B, and
    warm-up keeps its share; overrides are applied afterwards. `model.preset` names a shape that the other
    keys of `model` change; `based_on` names the recipe that this one changes.
    """
    values, source = RecipeShelf("pretrain").read_values(recipe)
    if batch_size is not None:
        settings = build_settings(PretrainSettings, values=_expand_model(values), source=source)
        scaled = rescale(settings, batch_size)
        changes = {
            "batch_size": scaled.batch_size,
            "num_steps": scaled.num_steps,
            "optimizer": {"learning_rate": scaled.optimizer.learning_rate},
            "schedule": {"warmup_steps": scaled.schedule.warmup_steps},
        }
        values = merge_values(values, changes)
    overrides = list(overrides)
    if any(override.startswith(f"model.{PRESET}=") for override in overrides):
        values.pop("model", None)
    values = apply_overrides(values, overrides)
    return build_settings(PretrainSettings, values=_expand_model(values), source=source)


def rescale(settings: PretrainSettings, batch_size: int) -> PretrainSettings:
    """Change the batch size, and learning rate, warm-up and number of steps with it."""
    if batch_size < 1:
        raise InputError(f"a batch size of {batch_size} is too small; at least 1")
    factor = batch_size / settings.batch_size
    optimizer, schedule = settings.optimizer, settings.schedule
    if schedule.warmup_steps is not None:
        schedule = schedule.model_copy(update={"warmup_steps": round(schedule.warmup_steps / factor)})
    learning_rate = optimizer.learning_rate * math.sqrt(factor)
    return settings.model_copy(
        update={
            "batch_size": batch_size,
            "num_steps": max(1, round(settings.num_steps / factor)),
            "schedule": schedule,
            "optimizer": optimizer.model_copy(update={"learning_rate": learning_rate}),
        }
    )


def _expand_model(values: dict[str, Any]) -> dict[str, Any]:
    model = values.get("model")
    if not isinstance(model, dict) or PRESET not in model:
        return values
    changes = {key: value for key, value in model.items() if key != PRESET}
    preset = str(model[PRESET])
    if preset not in {**PRESETS, **ALIASES}:
        build_preset(preset)  # raises with a suggestion
    return {**values, "model": {**PRESETS[ALIASES.get(preset, preset)], **changes}}


@dataclass(frozen=True)
class RecipeShelf:
    """The recipes of the package for one job: `pretrain`, `finetune`, `study`.

    `fit` may change the recipe that another one is based on so that it fits the values above it.
    """

    job: str
    fit: Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]] = lambda below, _: below

    def list_names(self) -> list[str]:
        home = resources.files("albert") / "recipes" / self.job
        return sorted(
            entry.name.removesuffix(".yaml") for entry in home.iterdir() if entry.name.endswith(".yaml")
        )

    def read_values(self, recipe: str | Path, *, above: tuple[str, ...] = ()) -> tuple[dict[str, Any], str]:
        """Read a recipe over the one it is based on; return the values and where they are from."""
        name, known = str(recipe), self.list_names()
        if name in above:
            raise SettingsError(f"{name}: is based on itself ({' → '.join((*above, name))})")
        if name in known:
            text = (resources.files("albert") / "recipes" / self.job / f"{name}.yaml").read_text("utf-8")
            source = f"recipe {name}"
        elif Path(recipe).is_file():
            text, source = read_text(Path(recipe)), name
        else:
            raise InputError(f"no recipe {name!r}; {suggest(name, known, more=', or give a file')}")
        values = parse_yaml(text, source=source)
        if not isinstance(values, dict):
            raise SettingsError(f"{source}: holds a {type(values).__name__}, not `key: value` lines")
        based_on = values.pop("based_on", None)
        if based_on is None:
            return values, source
        if not isinstance(based_on, str):
            raise SettingsError(f"{source}: based_on is {based_on!r}; the name of a recipe is wanted")
        below, _ = self.read_values(based_on, above=(*above, name))
        return merge_values(self.fit(below, values), values), source


def merge_values(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two levels of values; sections are merged, other values of `above` win.

    A section that names a `preset` replaces the one below it.
    """
    merged = {} if PRESET in above else dict(below)
    for key, value in above.items():
        inner = merged.get(key)
        both = isinstance(inner, dict) and isinstance(value, dict)
        merged[key] = merge_values(inner, value) if both else value  # type: ignore[arg-type]
    return merged
