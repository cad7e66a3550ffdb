"""A task and its data come in as words of a command; what is learned from goes out as well."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from albert.settings import apply_overrides
from albert.tasks.assignment import Assignment, open_assignment
from tests.conftest import Outcome
from tests.tasks.formats import list_settings

FAST = ("num_steps=2", "batch_size=4", "num_evaluations=1", "has_tensorboard=false")
Row = dict[str, Any]
NO_ANSWER: dict[str, list[Any]] = {"text": [], "answer_start": []}
NOWHERE = {"text": ["zebra"], "answer_start": [4]}
Finetune = Callable[..., Outcome]


def assign(task: str, data: Path, format: str = "jsonl", *words: str) -> Assignment:
    columns = apply_overrides({}, [*list_settings(task, format), *words]).get("columns", {})
    return open_assignment(task, data, dev=None, columns=columns, dev_share=0.1)
