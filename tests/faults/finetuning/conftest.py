"""The command, and the same with a check that it was refused in one line and has left nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Outcome, RunAlbert, read_tree
from tests.faults.finetuning.asking import FAST, Finetune
from tests.tasks.tables import write_tables


@pytest.fixture
def finetune(run_albert: RunAlbert, tiny_folder: Path, tmp_path: Path) -> Finetune:
    """`albert finetune TASK --data DATA …` into tmp_path/run."""

    def run(task: str, data: Path, *words: object, model: object = tiny_folder) -> Outcome:
        common = ("--model", model, "--data", data, "--out", tmp_path / "run")
        return run_albert("finetune", task, *common, *FAST, *words)

    return run


@pytest.fixture
def refuse(finetune, tmp_path) -> Callable[..., str]:
    """The same, after checking that it was refused in one line and has left nothing."""

    def run(task: str, data: Path, *words: object, **options: Any) -> str:
        before = read_tree(tmp_path)
        error: str = finetune(task, data, *words, **options).error
        assert read_tree(tmp_path) == before
        return error

    return run


@pytest.fixture
def data(tmp_path) -> Path:
    return write_tables(tmp_path / "data", "classification", num_train=30, num_dev=6)
