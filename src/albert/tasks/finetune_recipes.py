"""Recipes for fine-tuning: a task, a model's width and overrides come in, checked settings go out."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from albert.settings import apply_overrides, build_settings
from albert.tasks.finetune_settings import FinetuneSettings
from albert.training.recipe_shelf import RecipeShelf

_SHELF = RecipeShelf("finetune")
# The paper's rates are those of wide models; narrower ones learn with higher ones, the narrowest with Muon.
_WIDE = 512
_NARROW = 256
# Tasks that have no recipe of their own for small models, but that of another.
_LIKE = {
    "squad-1.1": "questions",
    "squad-2.0": "questions",
    "mnli": "classification",
    "qnli": "classification",
}


def choose_recipe(task: str, *, hidden_size: int) -> str:
    """The recipe for a task and a model: the paper's for wide models, ours for small and for narrow ones."""
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
    """The settings of a recipe, changed by overrides; epochs that are asked for replace a recipe's steps.

    Of another number of either, the recipe's share is for warming up, unless that is asked for, too.
    """
    values, source = _SHELF.read_values(recipe)
    words = list(overrides)
    changed = {word.partition("=")[0] for word in words}
    if changed & {"num_epochs", "num_steps"}:
        if not any(key.startswith("schedule") for key in changed):
            words += _share_warmup(values)
        if "num_steps" not in changed:
            words.append("num_steps=null")
    values = apply_overrides(values, words, literal="columns")
    return build_settings(FinetuneSettings, values=values, source=source)


def _share_warmup(values: Mapping[str, Any]) -> list[str]:
    """A recipe's steps of warming up as a share of its steps."""
    num_steps, warmup_steps = values.get("num_steps"), values.get("schedule", {}).get("warmup_steps")
    if not num_steps or not warmup_steps:
        return []
    return ["schedule.warmup_steps=null", f"schedule.warmup_share={warmup_steps / num_steps}"]
