"""Two processes of torchrun fine-tune as one: the same weights, the same end, one folder."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from albert.pretrained.folder import load_model
from albert.tasks.finetune_facts import read_finetune_run
from tests.conftest import read_tree
from tests.tasks.finetune_many import TASKS, train_all
from tests.tasks.tables import write_rows, write_tables
from tests.training.conftest import build_torchrun


def run_torchrun(*words: object) -> "subprocess.CompletedProcess[str]":
    command = build_torchrun([str(word) for word in words], processes=2)
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=180)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small tables; one context and one text of words are so long that they are read in many windows."""
    folder = tmp_path_factory.mktemp("data")
    for task in TASKS:
        write_tables(folder / task, task, num_train=40, num_dev=12)
    for split in ("train", "dev"):
        lengthen(folder / "questions" / f"{split}.jsonl", "context")
        lengthen(folder / "words" / f"{split}.jsonl", "words", "labels")
    return folder


def lengthen(path: Path, *columns: str) -> None:
    """The first row many times as long; its answer stays where it was."""
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
def together(tiny_folder, data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same runs by two processes, one after the other in the same launch."""
    out = tmp_path_factory.mktemp("together")
    done = run_torchrun("tests.tasks.finetune_many", tiny_folder, data, out)
    assert done.returncode == 0, done.stderr
    return out


def read_rank(together: Path, rank: int) -> dict[str, Any]:
    return json.loads((together / f"rank-{rank}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("task", TASKS)
def test_two_processes_equal_one(alone, together, task):
    one, two = (load_model(out / task / "model").model.state_dict() for out in (alone[0], together))
    for name, weight in one.items():
        assert torch.allclose(weight, two[name], rtol=1e-4, atol=2e-5), name
    assert read_rank(together, 0)[task]["metrics"] == pytest.approx(alone[1][task]["metrics"], abs=0.01)


def test_texts_are_read_in_windows_here(data, tiny_folder, together):
    """Else the kinds with windows would not have been tried."""
    _, facts = read_finetune_run(together / "words")
    assert facts.task.max_length == 16
    assert len(json.loads((data / "words" / "train.jsonl").read_text().splitlines()[0])["words"]) > 30


def test_both_stop_early_at_the_same_step_and_keep_the_same_best(alone, together):
    first, second = (read_rank(together, rank)["early"] for rank in (0, 1))
    assert first == second
    assert first["num_stale"] == 3
    assert first["model_step"] == first["best_step"] < first["step"] < 60
    # Far from convergence rounding is blown up: the end may differ, the agreement must not.
    assert alone[1]["early"]["num_stale"] == 3


@pytest.mark.parametrize("name", [*TASKS, "early"])
def test_every_process_knows_the_scores_and_one_writes_the_model(together, name):
    assert read_rank(together, 0)[name] == read_rank(together, 1)[name]
    assert (together / f"written-{name}").read_text() == "0"
    assert not [path for path in read_tree(together / name) if path.startswith(".model")]


def test_several_seeds_are_trained_by_all_processes_and_told_by_one(tiny_folder, data, tmp_path):
    words = ["num_steps=4", "batch_size=8", "num_evaluations=1", "has_tensorboard=false", "--seeds", "2"]
    done = run_torchrun(
        "albert", "finetune", "classification", "--model", tiny_folder, "--data", data / "classification",
        "--out", tmp_path / "run", "--json", *words,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)  # one result, not two
    assert list(found["scores"]) == ["0", "1"]
    assert done.stderr.count("seed 1, 2 of 2") == 1
    summary = json.loads((tmp_path / "run" / "seeds.json").read_text())
    assert summary["best_seed"] == found["best_seed"]


def test_a_bad_table_is_told_once_and_leaves_nothing(tiny_folder, data, tmp_path):
    rows = [{"text": "the dog", "label": "other"}]
    dev = write_rows(tmp_path / "dev.jsonl", rows)
    done = run_torchrun(
        "albert", "finetune", "classification", "--model", tiny_folder, "--data",
        data / "classification" / "train.jsonl", "--dev", dev, "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(told) == 1, done.stderr  # torchrun's own report names it below
    assert "dev.jsonl: line 1: the label 'other' is unknown" in told[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev.jsonl"]
