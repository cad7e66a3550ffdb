"""The checks of fine-tuning runs."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from albert.cli.doctor import checks
from albert.cli.doctor.run import Finding, load_run
from albert.tasks.finetune import finetune
from albert.training.run_folder import METRICS_NAME, count_cores, iter_records
from tests.tasks.tables import write_tables

WORDS = (
    "num_steps=200", "batch_size=16", "optimizer.learning_rate=3e-3", "num_evaluations=8", "log_every=5",
    "rename_share=0",
    "has_tensorboard=false",
)  # fmt: skip
QUIET = {"major_faults": 0, "swap_mb": 0.0, "load": 0.5, "tokens_per_second": 1000.0, "grad_norm": 1.0}


@pytest.fixture(scope="module")
def healthy(tiny_folder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run that learns its task; what the machine was doing at the time is taken out of its records."""
    folder = tmp_path_factory.mktemp("healthy")
    data = write_tables(folder / "data", "classification", num_train=200, num_dev=100)
    finetune("classification", model=tiny_folder, data=data, out=folder / "run", overrides=WORDS)
    rewrite(folder / "run", lambda record: record)
    return folder / "run"


def rewrite(run: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Other records than the run has told; None takes one out."""
    quiet: dict[str, dict[str, Any]] = {
        "train": {
            **QUIET, "seconds": 1.0, "waited_seconds": 0.0, "model_seconds": 0.9, "optimizer_seconds": 0.05,
        },
        "evaluate": {"seconds": 0.3},
        "save": {"seconds": 0.1},
        "start": {"threads": count_cores()},
    }  # fmt: skip
    records = [change({**record, **quiet.get(record["kind"], {})}) for record in iter_records(run)]
    kept = [record for record in records if record is not None]
    (run / METRICS_NAME).write_text("".join(json.dumps(record) + "\n" for record in kept))


@pytest.fixture
def run(healthy: Path, tmp_path: Path) -> Path:
    """A copy of the healthy run that a test may make ill."""
    return shutil.copytree(healthy, tmp_path / "run")


def diagnose(run: Path) -> dict[str, Finding]:
    return {finding.title: finding for finding in checks.diagnose(load_run(run))}


def find_one(run: Path) -> Finding:
    """The only finding, beside that nothing is worse than a note."""
    found = [finding for finding in checks.diagnose(load_run(run)) if finding.kind != "healthy"]
    assert len(found) == 1, found
    return found[0]


def set_figures(kind: str, **figures: Callable[[int], float]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Figures of a kind of record as functions of the step."""

    def change(record: dict[str, Any]) -> dict[str, Any]:
        new = {name: figure(record["step"]) for name, figure in figures.items()}
        return {**record, **new} if record["kind"] == kind else record

    return change


def test_a_healthy_run_has_nothing_but_its_figures(healthy):
    (found,) = checks.diagnose(load_run(healthy))
    assert (found.kind, found.title) == ("healthy", "no problem found")
    assert found.figures["of_steps"] == 200
    guess, best = found.figures["score_of_guessing"], found.figures["best_score"]
    assert 30 < guess < 60 < best  # the majority's accuracy and macro F1, on average


def test_what_is_found_is_printed_and_drawn(run, run_albert):
    outcome = run_albert("doctor", run)
    assert outcome.code == 0, outcome.err
    assert "no problem found" in outcome.out
    assert (run / "doctor.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(run_albert("doctor", run, "--json").out)["findings"][0]["kind"] == "healthy"


def test_a_score_no_better_than_a_constant_prediction(run):
    rewrite(run, set_figures("evaluate", score=lambda step: 41.0))
    rewrite(run, set_figures("train", loss=lambda step: 0.69))
    found = find_one(run)
    assert (found.kind, found.severity) == ("stuck", "serious")
    assert "not better than that of a constant prediction" in found.title
    assert "optimizer.learning_rate=0.001" in found.hint


def test_a_loss_that_falls_without_a_score_wants_more_examples(run):
    rewrite(run, set_figures("evaluate", score=lambda step: 41.0))
    rewrite(run, set_figures("train", loss=lambda step: 0.7 - step / 400))
    assert "more examples than 200" in find_one(run).hint


def test_a_run_at_its_beginning_is_not_judged(run):
    rewrite(run, lambda record: record if record["step"] <= 75 and record["kind"] != "end" else None)
    rewrite(run, set_figures("evaluate", score=lambda step: 41.0))
    assert not [title for title in diagnose(run) if "constant prediction" in title]


def test_a_run_that_patience_has_ended_at_its_beginning_is_judged(run):
    rewrite(run, lambda record: record if record["step"] <= 75 or record["kind"] == "end" else None)
    rewrite(run, set_figures("evaluate", score=lambda step: 41.0))
    assert [title for title in diagnose(run) if "constant prediction" in title]


def test_overfitting(run):
    rewrite(run, set_figures("evaluate", score=lambda step: 95.0 - step / 5))
    rewrite(run, set_figures("train", loss=lambda step: 0.7 - step / 400))
    found = find_one(run)
    assert (found.severity, found.title) == ("note", "overfitting since step 25")
    assert "holds the weights of step 25" in found.hint


def test_a_score_that_still_rises_wants_a_longer_run(run):
    rewrite(run, set_figures("evaluate", score=lambda step: 40.0 + step / 4))
    found = find_one(run)
    assert (found.severity, found.title) == ("note", "the dev score was still rising at the end")
    assert " num_steps=400 " in found.hint


def test_steps_that_were_left_out_and_a_rising_loss_are_divergence(run):
    rewrite(run, set_figures("train", loss=lambda step: 0.5 + step / 100))
    found = find_one(run)
    assert found.title == "diverging: the training loss rises"
    assert "optimizer.learning_rate=0.0015" in found.hint


@pytest.mark.parametrize(
    ("figures", "title", "hint"),
    [
        ({"waited_seconds": 0.5}, "waiting for data takes much of the time", "`top`"),
        ({"major_faults": 0}, "memory is short: the run is partly swapped out", "micro_batch_tokens=1024"),
        ({"load": 99.0}, "other processes use the same cores", "`top`"),
    ],
)
def test_what_makes_it_slow_is_named(run, figures, title, hint):
    rewrite(run, lambda record: {**record, **figures} if record["kind"] == "train" else record)
    if "major_faults" in figures:
        rewrite(run, set_figures("train", major_faults=lambda step: 1000 * step))
    found = diagnose(run)
    assert hint in found[title].hint


def test_evaluations_may_take_too_long(run):
    rewrite(run, set_figures("evaluate", seconds=lambda step: 20.0))
    assert " num_evaluations=4 " in find_one(run).hint


def test_a_damaged_model_is_named_with_the_command_that_writes_it_again(run, run_albert):
    path = run / "model" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    found = find_one(run)
    assert (found.severity, found.title) == ("serious", "the model cannot be loaded")
    assert "model.safetensors: truncated" in found.figures["reason"]
    words = found.hint.split("`")[1].split()
    assert words[:3] == ["albert", "finetune", "classification"]
    assert run_albert(*words[1:]).code == 0
    assert not [finding for finding in checks.diagnose(load_run(run)) if finding.kind == "damaged"]


def test_a_damaged_checkpoint_is_named(run):
    path = run / "checkpoints" / "step-200" / "tensors.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    assert find_one(run).title == "damaged checkpoint: step-200"


def test_an_unfinished_run_is_told_how_to_go_on(run):
    rewrite(run, lambda record: None if record["kind"] == "end" else record)
    shutil.rmtree(run / "model")
    found = find_one(run)
    assert (found.severity, found.title) == ("warning", "unfinished run")
    assert "--resume" in found.hint


def test_a_folder_of_seeds_leads_to_one(run, tmp_path, run_albert):
    (tmp_path / "seeds").mkdir()
    run.rename(tmp_path / "seeds" / "seed-0")
    error = run_albert("doctor", tmp_path / "seeds").error
    assert f"give one of its seeds, such as {tmp_path / 'seeds' / 'seed-0'}" in error
    assert "give the --out of `albert pretrain` or `albert finetune`" in run_albert("doctor", tmp_path).error
