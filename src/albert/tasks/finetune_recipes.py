"""Recipes for fine-tuning: a task, a model's width and overrides come in, checked settings go out."""

from collections.abc import Iterable
from pathlib import Path

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
    """The settings of a recipe, changed by overrides; epochs that are asked for replace a recipe's steps."""
    values, source = _SHELF.read_values(recipe)
    words = list(overrides)
    changed = {word.partition("=")[0] for word in words}
    if "num_epochs" in changed and "num_steps" not in changed:
        words.append("num_steps=null")
    return build_settings(FinetuneSettings, values=apply_overrides(values, words), source=source)
