"""Recipes for fine-tuning: a task, a model's width and overrides come in, checked settings go out."""

from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

from albert.settings import apply_overrides, build_settings
from albert.tasks.finetune_settings import FinetuneSettings
from albert.training.recipes import RecipeShelf

_LENGTHS = ("num_epochs", "num_steps")
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
    values = _fit_length(values, {word.partition("=")[0].partition(".")[0] for word in words})
    values = apply_overrides(values, words, literal="columns")
    return build_settings(FinetuneSettings, values=values, source=source)


def _fit_length(values: dict[str, Any], changed: Container[str]) -> dict[str, Any]:
    """A recipe's values, ready for another length: epochs replace steps, and warming up keeps its share."""
    if not any(key in changed for key in _LENGTHS):
        return values
    fitted = dict(values)
    if "schedule" in values and "schedule" not in changed:
        fitted["schedule"] = _share_warmup(values.get("num_steps"), values["schedule"])
    if "num_steps" not in changed:
        fitted["num_steps"] = None
    return fitted


def _share_warmup(num_steps: Any, schedule: Any) -> Any:
    """A schedule with its steps of warming up as a share; what is no schedule is refused later, by name."""
    warmup_steps = schedule.get("warmup_steps") if isinstance(schedule, dict) else None
    if not (isinstance(num_steps, int) and isinstance(warmup_steps, int) and num_steps and warmup_steps):
        return schedule
    return {**schedule, "warmup_steps": None, "warmup_share": warmup_steps / num_steps}


_SHELF = RecipeShelf("finetune", fit=_fit_length)
