"""A run of pretraining that is slow enough to be hit in the middle, and what is seen of it from outside."""

import json
import time
from pathlib import Path

import pytest
import yaml

from tests.training.conftest import TINY

NUM_STEPS = 60
# Wide enough that a step and a save take long enough to be hit; dropout draws at every step.
MODEL = {**TINY["model"], "embedding_size": 32, "hidden_size": 96, "intermediate_size": 384}
SETTINGS = {**TINY, "model": MODEL, "num_steps": NUM_STEPS, "num_evaluations": 20, "num_workers": 1}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "slow.yaml"
    path.write_text(yaml.safe_dump(SETTINGS), encoding="utf-8")
    return path


def last_step(out: Path) -> int:
    """The last step that a run told of."""
    try:
        lines = (out / "metrics.jsonl").read_text().splitlines()
        return max((json.loads(line)["step"] for line in lines), default=0)
    except (OSError, json.JSONDecodeError):
        return 0


def list_saves(out: Path) -> set[str]:
    """What is being written, or was when a process was killed."""
    return {place.name for place in (out / "checkpoints").glob(".step-*")}


def is_saving(out: Path) -> bool:
    return bool(list_saves(out))


def wait_until(condition, process, *, seconds: float = 60.0) -> bool:
    """Whether it came true before the process ended."""
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.0005)
    return False


def curve(out: Path) -> list[tuple[int, float]]:
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [(record["step"], record["mlm_loss"]) for record in records if record["kind"] == "evaluate"]
