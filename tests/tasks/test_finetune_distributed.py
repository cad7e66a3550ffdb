"""Two processes of torchrun fine-tune as one process does."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from albert.pretrained.folder import load_model
from albert.tasks.classification import ClassificationConfig
from tests.conftest import read_tree
from tests.tasks.finetune_many import TASKS, train_all
from tests.tasks.finetuned_folder import write_finetuned_folder
from tests.tasks.tables import write_rows, write_tables
from tests.training.conftest import build_torchrun


@dataclass(frozen=True)
class Launch:
    """The output of two processes."""

    out: Path
    stdout: str
    stderr: str

    def read_rank(self, rank: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / f"rank-{rank}.json").read_text(encoding="utf-8"))
        return found


@pytest.fixture(scope="module")
def data(tiny_folder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a teacher and small tables; one context and one text of words are read in many windows."""
    folder = tmp_path_factory.mktemp("data")
    config = ClassificationConfig(task=TASKS[0], labels=("yes", "no"), max_length=16)
    write_finetuned_folder(folder / "teacher", tiny_folder, config)
    for task in TASKS:
        write_tables(folder / task, task, num_train=40, num_dev=12)
    for split in ("train", "dev"):
        lengthen(folder / "question-answering" / f"{split}.jsonl", "context")
        lengthen(folder / "token-classification" / f"{split}.jsonl", "words", "labels")
    rows = [json.loads(line) for line in (folder / TASKS[0] / "dev.jsonl").read_text().splitlines()]
    write_rows(folder / "bad.jsonl", [rows[0], {**rows[1], "label": "other"}])
    return folder


def lengthen(path: Path, *columns: str) -> None:
    """Make the first row many times as long; its answer stays where it was."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    write_rows(path, [{**rows[0], **{name: rows[0][name] * 12 for name in columns}}, *rows[1:]])


@pytest.fixture(scope="module")
def alone(tiny_folder, data, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("alone")
    ended = train_all(tiny_folder, data, out)
    torch.set_num_threads(before)
    return out, ended


@pytest.fixture(scope="module")
def together(tiny_folder, data, tmp_path_factory: pytest.TempPathFactory) -> Launch:
    """Train the same runs with two processes, and run two commands."""
    out = tmp_path_factory.mktemp("together")
    words = ["tests.tasks.finetune_many", *map(str, (tiny_folder, data, out))]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = build_torchrun(words, processes=2)
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
    assert "bad.jsonl" in done.stderr, done.stderr
    assert done.returncode != 0
    return Launch(out, done.stdout, done.stderr)


@pytest.mark.parametrize("task", [*TASKS, "student"])
def test_two_processes_equal_one(alone, together, task):
    one, two = (load_model(out / task / "model").model.state_dict() for out in (alone[0], together.out))
    for name, weight in one.items():
        assert torch.allclose(weight, two[name], rtol=1e-4, atol=2e-5), name
    assert together.read_rank(0)[task]["metrics"] == pytest.approx(alone[1][task]["metrics"], abs=0.01)


def test_both_processes_stop_early_at_the_same_step(alone, together):
    first, second = (together.read_rank(rank)["early"] for rank in (0, 1))
    assert first == second
    assert first["num_stale"] == 2
    assert first["model_step"] == first["best_step"] < first["step"] < 40
    # Without convergence, rounding is amplified: two processes may end elsewhere than one.
    assert alone[1]["early"]["num_stale"] == 2


@pytest.mark.parametrize("name", [*TASKS, "student", "early"])
def test_every_process_has_the_scores_and_one_writes_the_model(together, name):
    assert together.read_rank(0)[name] == together.read_rank(1)[name]
    assert (together.out / f"written-{name}").read_text() == "0"
    assert not [path for path in read_tree(together.out / name) if path.startswith(".model")]


def test_seeds_are_trained_by_all_processes_and_reported_by_one(together):
    found = json.loads(together.stdout)  # one result, not two
    assert list(found["scores"]) == ["0", "1"]
    assert together.stderr.count("seed 1, 2 of 2") == 1
    summary = json.loads((together.out / "seeds" / "seeds.json").read_text())
    assert summary["best_seed"] == found["best_seed"]


def test_a_bad_table_is_reported_once_and_leaves_no_files(together):
    errors = [line for line in together.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1, together.stderr
    assert "bad.jsonl" in errors[0]
    assert "line 2" in errors[0]
    assert "'other'" in errors[0]
    assert not (together.out / "bad").exists()
