"""Recipes: a name or a path and `key=value` overrides come in, checked settings go out."""

import difflib
import math
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from albert.errors import InputError, SettingsError
from albert.files import read_text
from albert.model.presets import ALIASES, PRESETS, build_preset
from albert.settings import apply_overrides, build_settings, parse_yaml
from albert.training.settings import PretrainSettings

_HOME = resources.files("albert") / "recipes" / "pretrain"


def list_recipes() -> list[str]:
    """The names of the recipes that come with the package."""
    return sorted(
        entry.name.removesuffix(".yaml") for entry in _HOME.iterdir() if entry.name.endswith(".yaml")
    )


def read_recipe(
    recipe: str | Path, *, overrides: Iterable[str] = (), batch_size: int | None = None
) -> PretrainSettings:
    """The settings of a recipe, changed by overrides.

    `batch_size` is another one than the recipe's: its learning rate is multiplied by √(B/B₀), its steps by
    B₀/B, and warm-up keeps its share; what an override says stands as it is. `model.preset` names the shape
    that other keys of `model` change; `based_on` the recipe that this one differs from.
    """
    values, source = _read_values(recipe)
    if batch_size is not None:
        settings = build_settings(PretrainSettings, values=_expand_model(values), source=source)
        values = _merge(values, _list_rescaled(rescale(settings, batch_size)))
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


def _read_values(recipe: str | Path, *, above: tuple[str, ...] = ()) -> tuple[dict[str, Any], str]:
    """The values of a recipe, with those of the one it is based on below them."""
    if str(recipe) in above:
        raise SettingsError(f"{recipe}: is based on itself ({' → '.join((*above, str(recipe)))})")
    text, source = _find_text(recipe)
    values = parse_yaml(text, source=source)
    if not isinstance(values, dict):
        raise SettingsError(f"{source}: holds a {type(values).__name__}, not `key: value` lines")
    based_on = values.pop("based_on", None)
    if based_on is None:
        return values, source
    if not isinstance(based_on, str):
        raise SettingsError(f"{source}: based_on is {based_on!r}; the name of a recipe is wanted")
    below, _ = _read_values(based_on, above=(*above, str(recipe)))
    return _merge(below, values), source


def _find_text(recipe: str | Path) -> tuple[str, str]:
    name = str(recipe)
    if name in list_recipes():
        return (_HOME / f"{name}.yaml").read_text(encoding="utf-8"), f"recipe {name}"
    path = Path(recipe)
    if path.is_file():
        return read_text(path), name
    close = difflib.get_close_matches(name, list_recipes(), n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(list_recipes())}, or give a file"
    raise InputError(f"no recipe {name!r}; {hint}")


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        inner = merged.get(key)
        both = isinstance(inner, dict) and isinstance(value, dict)
        merged[key] = _merge(inner, value) if both else value  # type: ignore[arg-type]
    return merged


def _expand_model(values: dict[str, Any]) -> dict[str, Any]:
    model = values.get("model")
    if not isinstance(model, dict) or "preset" not in model:
        return values
    changes = {key: value for key, value in model.items() if key != "preset"}
    preset = str(model["preset"])
    if preset not in {**PRESETS, **ALIASES}:
        build_preset(preset)  # refused with a suggestion
    return {**values, "model": {**PRESETS[ALIASES.get(preset, preset)], **changes}}
