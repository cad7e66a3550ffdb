"""A finished quickstart comes in; the commands that a person may type next go out."""

import os
import shlex
import sys
from pathlib import Path

from albert.app.quickstart.result import QuickstartResult


def format_commands(result: QuickstartResult) -> str:
    """One command on each line, with a word on what it does."""
    name, out = find_own_name(), result.out
    run = shlex.quote(str(result.pretraining.run_dir))
    text = result.masks[0].text if result.masks else "the [MASK] was dark"
    rows = [
        (f"{name} fill-mask --model {run} {shlex.quote(text)}", "ask the model that was just trained"),
        (f"{name} doctor {run}", "why is the loss where it is, and what would help"),
        (
            f"{name} pretrain nano --data {shlex.quote(str(out / 'corpus'))} --out longer --budget 1h",
            "the same with an hour",
        ),
        (f"{name} quickstart --data FOLDER --out mine", "all of this on your own text"),
    ]
    if result.reviews is not None:
        tables, model = shlex.quote(str(out / "reviews")), shlex.quote(result.settings.model)
        rows.append(
            (
                f"{name} finetune classification --model {model} --data {tables} --out mood --seeds 3",
                "with three seeds",
            )
        )
    return "\n".join(f"{command}    # {word}" for command, word in rows)


def find_own_name() -> str:
    """How this command can be typed again from here."""
    command = Path(sys.argv[0])
    is_installed = command.name == "albert" and command.exists()
    return os.path.relpath(command) if is_installed else "python -m albert"
