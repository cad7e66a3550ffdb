"""A finished quickstart comes in; the commands that a person may type next go out."""

import os
import shlex
import shutil
import sys
from pathlib import Path

from albert.app.quickstart.result import QuickstartResult
from albert.app.quickstart.settings import RELEASED
from albert.pretrained.hub import find_released
from albert.training.run_folder import SETTINGS_NAME


def format_commands(result: QuickstartResult) -> str:
    """One command on each line, with a word on what it does."""
    name, out, run_dir = find_own_name(), result.out, result.pretraining.run_dir
    run, settings, corpus = map(_quote, (run_dir, run_dir / SETTINGS_NAME, out / "corpus"))
    text = result.masks[0].text if result.masks else "the [MASK] was dark"
    # A text that begins with a dash would be read as an option.
    end_of_options = "-- " if text.startswith("-") else ""
    rows = [
        (
            f"{name} fill-mask --model {run} {end_of_options}{shlex.quote(text)}",
            "ask the model that was just trained",
        ),
        (f"{name} doctor {run}", "why is the loss where it is, and what would help"),
        (
            f"{name} pretrain {settings} --data {corpus} --out longer --budget 1h",
            "the same with an hour",
        ),
        (f"{name} quickstart --data FOLDER --out mine", "all of this on your own text"),
    ]
    if result.reviews is not None:
        tables, model = _quote(out / "reviews"), _name_model(result.settings.model)
        rows.append(
            (
                f"{name} finetune classification --model {model} --data {tables} --out mood --seeds 3",
                "the reviews by the usual recipe, with three seeds",
            )
        )
    return "\n".join(f"{command}    # {word}" for command, word in rows)


def find_own_name() -> str:
    """How this command can be typed again from here, ready for a shell."""
    command = Path(sys.argv[0])
    if command.name == "albert" and command.exists():
        return _shorten(sys.argv[0])
    is_on_path = shutil.which("python") == sys.executable
    return f"{'python' if is_on_path else _shorten(sys.executable)} -m albert"


def _name_model(model: str) -> str:
    """As it was given; where a folder here is called as the released model is, that one by its path."""
    found = find_released(model) if model == RELEASED and Path(model).exists() else None
    return shlex.quote(model if found is None else str(found))


def _shorten(path: str) -> str:
    """From here or from the root, whichever is shorter; never a bare name, which a shell looks up."""
    here = os.path.relpath(path)
    return shlex.quote(min(here if os.sep in here else f"./{here}", os.path.abspath(path), key=len))


def _quote(path: Path) -> str:
    return shlex.quote(str(path))
