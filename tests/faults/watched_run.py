"""A pretraining run that is slow enough to be interrupted, observed from outside."""

import json
import time
from pathlib import Path

import pytest
import yaml

from tests.training.conftest import TINY

NUM_STEPS = 60
# Wide enough that a step and a save take long enough to be interrupted; dropout uses random numbers.
MODEL = {**TINY["model"], "embedding_size": 32, "hidden_size": 96, "intermediate_size": 384}
SETTINGS = {**TINY, "model": MODEL, "num_steps": NUM_STEPS, "num_evaluations": 20, "num_workers": 1}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "slow.yaml"
    path.write_text(yaml.safe_dump(SETTINGS), encoding="utf-8")
    return path


def last_step(out: Path) -> int:
    """The last step in the log of a run."""
    try:
        lines = (out / "metrics.jsonl").read_text().splitlines()
        return max((json.loads(line)["step"] for line in lines), default=0)
    except (OSError, json.JSONDecodeError):
        return 0


def list_saves(out: Path) -> set[str]:
    """Checkpoints that are being written, or were when a process was killed."""
    return {path.name for path in (out / "checkpoints").glob(".step-*")}


def wait_until(condition, process, *, seconds: float = 60.0) -> bool:
    """Whether the condition became true before the process ended."""
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.0005)
    return False


def assert_same(out: Path, undisturbed: Path) -> None:
    """Check that weights, optimizer moments and evaluations are the same."""
    weights, moments = "model/model.safetensors", f"checkpoints/step-{NUM_STEPS}/tensors.safetensors"
    for name in (weights, moments):
        if name == weights or (undisturbed / name).exists():  # distributed checkpoints have other files
            assert (out / name).read_bytes() == (undisturbed / name).read_bytes(), name
    records = [
        [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        for run in (out, undisturbed)
    ]
    curves = [[(r["step"], r["mlm_loss"]) for r in run if r["kind"] == "evaluate"] for run in records]
    assert curves[0] == curves[1]
