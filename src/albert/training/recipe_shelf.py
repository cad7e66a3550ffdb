"""Recipes of one job: a name or a path comes in; its values, and those it is based on, go out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from albert.errors import InputError, SettingsError, suggest
from albert.files import read_text
from albert.settings import parse_yaml

PRESET = "preset"


@dataclass(frozen=True)
class RecipeShelf:
    """The recipes that come with the package for one job: `pretrain`, `finetune`, `study`.

    `fit` may change what a recipe is based on so that it fits what the recipe says above it.
    """

    job: str
    fit: Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]] = lambda below, _: below

    def list_names(self) -> list[str]:
        """Their names."""
        home = resources.files("albert") / "recipes" / self.job
        return sorted(
            entry.name.removesuffix(".yaml") for entry in home.iterdir() if entry.name.endswith(".yaml")
        )

    def read_values(self, recipe: str | Path, *, above: tuple[str, ...] = ()) -> tuple[dict[str, Any], str]:
        """The values of a recipe, over those of the one it is based on; and where they come from."""
        if str(recipe) in above:
            raise SettingsError(f"{recipe}: is based on itself ({' → '.join((*above, str(recipe)))})")
        text, source = self._find_text(recipe)
        values = parse_yaml(text, source=source)
        if not isinstance(values, dict):
            raise SettingsError(f"{source}: holds a {type(values).__name__}, not `key: value` lines")
        based_on = values.pop("based_on", None)
        if based_on is None:
            return values, source
        if not isinstance(based_on, str):
            raise SettingsError(f"{source}: based_on is {based_on!r}; the name of a recipe is wanted")
        below, _ = self.read_values(based_on, above=(*above, str(recipe)))
        return merge_values(self.fit(below, values), values), source

    def _find_text(self, recipe: str | Path) -> tuple[str, str]:
        name, known = str(recipe), self.list_names()
        if name in known:
            home = resources.files("albert") / "recipes" / self.job
            return (home / f"{name}.yaml").read_text(encoding="utf-8"), f"recipe {name}"
        path = Path(recipe)
        if path.is_file():
            return read_text(path), name
        raise InputError(f"no recipe {name!r}; {suggest(name, known, more=', or give a file')}")


def merge_values(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The values of both; where both have a key, sections are merged and a value above stands.

    A section that names a `preset` is whole: nothing of what another preset was changed by stays in it.
    """
    merged = {} if PRESET in above else dict(below)
    for key, value in above.items():
        inner = merged.get(key)
        both = isinstance(inner, dict) and isinstance(value, dict)
        merged[key] = merge_values(inner, value) if both else value  # type: ignore[arg-type]
    return merged
