"""A release from a toy run: every figure of the card is in a file, and the folder opens."""

import json
from pathlib import Path

import pytest

import albert
from albert.files import read_json
from albert.pretrained.folder import load_model
from bench.downstream.__main__ import main as compare
from release.nano.__main__ import main
from release.nano.card import list_commands, read_finished_run
from release.nano.snapshots import list_steps
from tests.release.conftest import STEPS, Made, run_step

SHORT = ("num_steps=4", "batch_size=8", "num_evaluations=1", "log_every=2")


@pytest.fixture(scope="module")
def card(made: Made, run_bench: Path) -> Path:
    """All steps after training; the folder with the card."""
    out, held_out = made.out, made.out / "held-out"
    run_step(
        "score", "--run", made.run, "--held-out", held_out, "--windows", out / "windows",
        "--out", out / "scores.json", "--examples", 12,
    )  # fmt: skip
    run_step(
        "checkpoints", "--snapshots", out / "snapshots", "--held-out", held_out, "--data", made.data / "glue",
        "--out", out / "checkpoints.jsonl", "--steps", 2, "--examples", 8, "--max-length", 40,
    )  # fmt: skip
    run_step("predictions", "--model", out / "half", "--out", out / "predictions.json")
    run_step("card", "--record", out, "--recipe", out / "toy.yaml", "--out", out / "card")
    return out / "card"


@pytest.fixture(scope="module")
def run_bench(made: Made) -> Path:
    from albert.cli.main import _run

    half = made.out / "half"
    assert _run(["convert", str(made.run), str(half), "--half"]) == 0
    out = made.out / "downstream"
    words = ["--model", half, "--data", made.data / "glue", "--out", out, "--tasks", "sst-2"]
    assert compare([*map(str, words), "--seeds", "2", "--threads", "1", *SHORT]) == 0
    return out


def test_snapshots_are_spread_over_the_run(made: Made):
    steps = list_steps(made.out / "snapshots")
    assert steps == [0, 8, 16, STEPS]
    depths = [load_model(made.out / "snapshots" / f"model-{step}").config.num_hidden_layers for step in steps]
    assert depths == [3, 1, 3, 3]  # as deep as it was trained then; at first as deep as it will be
    last = load_model(made.out / "snapshots" / f"model-{STEPS}").model.state_dict()
    final = load_model(made.run).model.state_dict()
    assert all((last[name] - final[name]).abs().max() < 1e-3 for name in final)


def test_scores_have_intervals_and_depths(card: Path, made: Made):
    scores = read_json(made.out / "scores.json")
    assert set(scores["parts"]) == {"passages", "windows", *(f"depth-{depth}" for depth in range(1, 6))}
    passages = scores["parts"]["passages"]
    assert set(passages) == {"mlm_loss", "mlm_accuracy", "sop_accuracy", "nsp_accuracy"}
    assert passages == scores["parts"]["depth-3"]
    assert passages["mlm_loss"]["mean"] != scores["parts"]["depth-1"]["mlm_loss"]["mean"]


def test_every_checkpoint_has_a_line_and_none_is_measured_twice(card: Path, made: Made):
    path = made.out / "checkpoints.jsonl"
    before = path.read_text()
    lines = [json.loads(line) for line in before.splitlines()]
    assert [line["step"] for line in lines] == [0, 8, 16, STEPS]
    assert all(set(line["tasks"]) == {"sst-2", "mrpc"} for line in lines)
    kept = [line for line in before.splitlines(keepends=True) if '"step": 8' not in line]
    path.write_text("".join(kept))  # as if it had been stopped
    words = ["--snapshots", made.out / "snapshots", "--held-out", made.out / "held-out"]
    words += ["--data", made.data / "glue", "--out", path, "--steps", 2, "--examples", 8, "--max-length", 40]
    run_step("checkpoints", *words)
    assert path.read_text() == before


def test_the_package_gets_a_light_folder(card: Path, made: Made, tmp_path, capsys):
    words = ["pack", "--model", made.out / "half", "--card", card, "--out", tmp_path / "nano"]
    run_step(*words)
    assert (tmp_path / "nano" / "README.md").read_bytes() == (card / "README.md").read_bytes()
    assert albert.load(tmp_path / "nano").fill_mask(["the [MASK] was cold"])
    assert main([str(word) for word in [*words, "--limit", "0.001"]]) == 2
    assert " MB" in capsys.readouterr().err
    assert (tmp_path / "nano" / "config.json").exists()  # what was there stays


def test_the_released_card_is_made_from_the_record_and_the_recipe(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    record = root / "release" / "nano" / "record"
    run_step("card", "--record", record, "--out", tmp_path)
    card = (root / "src" / "albert" / "released" / "nano" / "README.md").read_bytes()
    assert (tmp_path / "README.md").read_bytes() == card
    commands = list_commands(
        read_finished_run(record / "run"), recipe="albert-nano-en", data=read_json(record / "data.json")
    )
    assert commands[1].endswith(" held_out.data=DIR/held-out seed=1")  # else the recipe has changed
