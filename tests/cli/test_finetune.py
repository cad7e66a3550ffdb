"""`albert finetune`: output, seeds, signals, and the names of models and recipes."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from albert.pretrained.hub import resolve_source
from albert.training.checkpoints import CheckpointFolder
from albert.training.run_folder import iter_records
from tests.conftest import Outcome, RunAlbert
from tests.hub_cache import put_into_hub_cache
from tests.tasks.tables import write_tables

SHORT = ("num_steps=6", "batch_size=4", "num_evaluations=2", "has_tensorboard=false", "log_every=1")
Finetune = Callable[..., Outcome]


@pytest.fixture
def data(tmp_path) -> Path:
    return write_tables(tmp_path / "data", "classification", num_train=30, num_dev=10)


@pytest.fixture
def finetune(run_albert: RunAlbert, tiny_folder: Path, data: Path, tmp_path: Path) -> Finetune:
    """`albert finetune classification` of the tiny model, in six steps, into tmp_path/run."""

    def run(*words: object, model: object = tiny_folder, data: Path = data) -> Outcome:
        common = ("--model", model, "--data", data, "--out", tmp_path / "run")
        return run_albert("finetune", "classification", *common, *SHORT, *words)

    return run


def read_settings(run_dir: Path) -> dict[str, Any]:
    import yaml

    found: dict[str, Any] = yaml.safe_load((run_dir / "settings.yaml").read_text())
    return found


def test_json_has_the_scores(finetune, tmp_path):
    found = json.loads(finetune("--json").out)
    assert found["model"] == str(tmp_path / "run" / "model")
    assert (found["is_finished"], found["step"], found["num_steps"]) == (True, 6, 6)
    assert found["best_step"] in (3, 6)
    assert set(found["scores"]) == {"accuracy", "macro_f1", "score"}
    assert json.loads((tmp_path / "run" / "result.json").read_text())["metrics"] == found["scores"]


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        ((), "seed", 0),
        (("--seed", "7"), "seed", 7),
        (("seed=5",), "seed", 5),
        (("--recipe", "paper-rte", "schedule.warmup_steps=2"), "head_dropout", 0.1),
        (("--recipe", "mine.yaml"), "patience", 9),
    ],
)
def test_a_setting_is_an_option_an_override_or_in_a_recipe(
    finetune, tmp_path, monkeypatch, words, key, value
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("based_on: small\npatience: 9\n")
    assert finetune(*words).code == 0
    assert read_settings(tmp_path / "run")[key] == value


def test_a_revision_of_the_hub_is_used(finetune, tiny_folder, tmp_path, monkeypatch):
    put_into_hub_cache(
        "someone/tiny", tiny_folder, cache=tmp_path / "cache", revision="v2", monkeypatch=monkeypatch
    )
    assert "someone/tiny" in finetune(model="someone/tiny").error
    outcome = finetune("--revision", "v2", model="someone/tiny")
    assert outcome.code == 0, outcome.err


def test_seeds_give_a_table_the_median_and_the_best_model(finetune, tmp_path):
    outcome = finetune("--seeds", "3")
    assert outcome.code == 0, outcome.err
    found = json.loads((tmp_path / "run" / "seeds.json").read_text())
    scores = [found["scores"][str(seed)]["score"] for seed in range(3)]
    assert found["median"]["score"] == sorted(scores)[1]
    assert found["best_seed"] == scores.index(max(scores))
    assert (tmp_path / "run" / found["model"] / "model.safetensors").exists()
    assert resolve_source(tmp_path / "run") == tmp_path / "run" / found["model"]  # --model RUN means the best
    rows = [line.split("│")[1:-1] for line in outcome.out.splitlines() if line.startswith("│")]
    assert [float(row[-1]) for row in rows] == pytest.approx(scores, abs=0.005)
    last = outcome.out.splitlines()[-1]
    assert f"{found['median']['score']:.2f}" in last
    assert last.endswith(f"seed-{found['best_seed']}/model")


def test_more_seeds_resume_those_that_are_done(finetune, tmp_path):
    first = json.loads(finetune("--seeds", "2", "--seed", "4", "--json").out)
    assert list(first["scores"]) == ["4", "5"]
    assert "finished" in finetune("--seeds", "2", "--seed", "4").error
    assert "--resume" in finetune("--seeds", "3", "--seed", "4").error
    more = finetune("--seeds", "3", "--seed", "4", "--json", "--resume")
    found = json.loads(more.out)
    assert {seed: found["scores"][seed] for seed in ("4", "5")} == first["scores"]
    assert found["summary"]["num_seeds"] == 3


def test_a_single_run_and_several_seeds_do_not_share_a_folder(finetune, tmp_path):
    assert finetune().code == 0
    assert "--out" in finetune("--seeds", "2").error
    assert finetune("--seeds", "2", "--out", tmp_path / "seeds").code == 0
    assert "seed-0" in finetune("--out", tmp_path / "seeds").error


@contextmanager
def signalled(number: signal.Signals, run_dir: Path, *, at_step: int) -> Iterator[None]:
    """Send this process a signal once the run has recorded a step, as a terminal or a scheduler would."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            if any(record["step"] >= at_step for record in iter_records(run_dir)):
                os.kill(os.getpid(), number)
                return
            time.sleep(0.005)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


LONG = "num_steps=100000"  # no test waits for its end


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_and_saves(finetune, tmp_path, number, code):
    with signalled(number, tmp_path / "run", at_step=5):
        outcome = finetune(LONG, "--json")
    assert outcome.code == code, outcome.err
    found = json.loads(outcome.out)
    assert (found["is_finished"], found["model"], found["scores"]) == (False, None, None)
    assert f"{number.name} at step {found['step']}" in outcome.err.splitlines()[-1]
    assert CheckpointFolder(tmp_path / "run" / "checkpoints").list_steps() == [found["step"]]
    assert not (tmp_path / "run" / "model").exists()


def test_interrupted_seeds_are_resumed(finetune, tmp_path):
    """The first is finished, the second is stopped on its way, the third has not begun."""
    words = ("num_steps=80", "num_evaluations=1")
    with signalled(signal.SIGINT, tmp_path / "run" / "seed-1", at_step=3):
        stopped = finetune(*words, "--seeds", "3")
    assert stopped.code == 130, stopped.err
    assert not (tmp_path / "run" / "seeds.json").exists()
    assert "--resume" in finetune(*words, "--seeds", "3").error
    resumed = finetune(*words, "--seeds", "3", "--resume")
    assert resumed.code == 0, resumed.err
    undisturbed = finetune(*words, "--seed", "1", "--out", tmp_path / "undisturbed", "--json")
    found = json.loads((tmp_path / "run" / "seeds.json").read_text())
    assert found["scores"]["1"] == json.loads(undisturbed.out)["scores"]
