"""Recipes for fine-tuning: a task, a model's width and overrides come in, checked settings go out."""

from collections.abc import Iterable
from pathlib import Path

from albert.settings import apply_overrides, build_settings
from albert.tasks.finetune_settings import FinetuneSettings
from albert.training.recipe_shelf import RecipeShelf

_SHELF = RecipeShelf("finetune")
# The paper's rates are those of wide models; narrower ones learn with higher ones.
_WIDE = 512


def choose_recipe(task: str, *, hidden_size: int) -> str:
    """The recipe for a task and a model: the paper's for wide models, ours for small ones."""
    known = _SHELF.list_names()
    if hidden_size >= _WIDE:
        return f"paper-{task}" if f"paper-{task}" in known else "paper"
    return task if task in known else "small"


def read_finetune_recipe(recipe: str | Path, *, overrides: Iterable[str] = ()) -> FinetuneSettings:
    """The settings of a recipe, changed by overrides."""
    values, source = _SHELF.read_values(recipe)
    return build_settings(FinetuneSettings, values=apply_overrides(values, overrides), source=source)
