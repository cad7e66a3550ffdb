"""Answers to the examples of a GLUE task come in; the file that GLUE's server takes goes out."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from albert.errors import InputError
from albert.files import write_text
from albert.tasks.catalogue import Task
from albert.tasks.examples import TextExample

HEADER = "index\tprediction"
LOWEST, HIGHEST = 0.0, 5.0  # what STS-B's numbers lie between


def write_glue_file(
    folder: Path,
    answers: Sequence[NDArray[np.float64]],
    *,
    examples: Sequence[TextExample],
    task: Task,
    split: str,
) -> Path:
    """Write the answers to a split under its official name and in its spelling; whole, or not at all.

    A number has three decimals and lies between 0 and 5. Refused: a split that is not handed in.
    """
    if split not in task.submissions:
        known = ", ".join(task.submissions) or "none"
        raise InputError(
            f"answers to {task.name}'s split {split!r} are not handed in; of its splits: {known}"
        )
    rows = [
        f"{example.id}\t{_spell(answer, task)}" for example, answer in zip(examples, answers, strict=True)
    ]
    path = folder / task.submissions[split]
    write_text(path, "".join(f"{row}\n" for row in (HEADER, *rows)))
    return path


def _spell(answer: NDArray[np.float64], task: Task) -> str:
    if task.labels is None:
        return f"{min(max(float(answer[0]), LOWEST), HIGHEST):.3f}"
    return task.labels.names[int(answer.argmax())]
