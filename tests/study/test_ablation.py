"""Whole ablation studies at a toy size: runs are trained, evaluated and compared, and never repeated."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from albert.errors import InputError
from albert.study import ablation, agreement, plan
from albert.study.ablation import run_ablation
from albert.study.agreement import MinimalPair
from albert.study.plan import Run
from albert.study.settings import StudyOptions, list_ablations
from albert.study.studies import run_study
from tests.study.conftest import TOY
from tests.training.conftest import Listener


@pytest.fixture
def run(tiny_study, story_corpus, tmp_path):
    def run_it(*overrides, reporter=None, out="study", **options):
        options.setdefault("data", str(story_corpus))
        all_options = StudyOptions(out=tmp_path / out, overrides=overrides, **options)
        return run_ablation(str(tiny_study), all_options, reporter=reporter)

    return run_it


def read_results(folder: Path) -> dict[str, dict[str, Any]]:
    return {
        f"{path.parent.parent.name}-{path.parent.name}": json.loads(path.read_text())
        for path in sorted(folder.glob("variants/*/*/result.json"))
    }


def test_every_variant_is_trained_with_every_seed_and_compared(run, tmp_path):
    outcome = run()
    results = read_results(tmp_path / "study")
    assert set(results) == {"all-seed-0", "all-seed-1", "none-seed-0", "none-seed-1"}
    one = results["none-seed-1"]
    assert one["num_parameters"] > results["all-seed-1"]["num_parameters"]
    assert {"mlm_loss", "mlm_accuracy", "sop_accuracy", "nsp_accuracy", "train_loss", "gap"} <= set(
        one["figures"]
    )
    assert one["figures"]["gap"] == pytest.approx(one["figures"]["mlm_loss"] - one["figures"]["train_loss"])
    (finding,) = outcome.page.sections[0].findings
    assert "+1.5" in finding.theirs
    assert not list((tmp_path / "study").rglob("checkpoint*"))
    assert outcome.report.is_file()


def test_the_same_seed_sees_the_same_text(run, tmp_path):
    listener = Listener()
    run("variants.again={}", reporter=listener)
    assert [line for line in listener.lines if "all and again" in line]
    results = read_results(tmp_path / "study")
    assert results["again-seed-0"]["figures"] == results["all-seed-0"]["figures"]
    assert results["again-seed-0"]["figures"] != results["again-seed-1"]["figures"]


def test_a_finished_run_is_not_repeated_and_more_seeds_may_follow(run, tmp_path):
    run("num_seeds=1", "first_seed=4")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "study").glob("variants/*/*/result.json")}
    left = Run(tmp_path / "study", "all", 4).pretrain_dir / "checkpoints" / "step-6"
    left.mkdir(parents=True)  # a kill may leave checkpoints behind
    listener = Listener()
    run("num_seeds=2", "first_seed=4", reporter=listener)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert [line for line in listener.lines if "4 of 4" in line]
    assert not left.parent.exists()


def test_minimal_pairs_are_scored(run, tmp_path, monkeypatch):
    pairs = [MinimalPair("the a an", "the a ship", "a", "b", "c")]
    monkeypatch.setattr(agreement, "read_pairs", lambda: pairs)
    monkeypatch.setattr(plan, "read_pairs", lambda: pairs)
    run("num_seeds=1", "has_agreement=true")
    results = read_results(tmp_path / "study")
    assert {result["figures"]["agreement"] for result in results.values()} <= {0.0, 1.0}


def test_a_failed_run_and_those_that_start_from_it_are_reported_and_the_rest_continue(run, tmp_path):
    # The corpus of short stories has not enough sequences for one batch.
    outcome = run("variants.huge.pretrain.batch_size=100000", "variants.next.start_from=huge", "num_seeds=1")
    assert set(read_results(tmp_path / "study")) == {"all-seed-0", "none-seed-0"}
    assert "100000" in outcome.failures["huge, seed 0"].replace(",", "")
    assert "huge" in outcome.failures["next, seed 0"]
    assert "huge" in outcome.report.read_text(encoding="utf-8")


def test_a_variant_of_which_no_model_can_be_built_is_named(run):
    with pytest.raises(InputError, match=r"odd: .*num_hidden_groups"):
        run("variants.odd.pretrain.model.num_hidden_groups=9")


def test_a_variant_that_starts_from_another(run, tmp_path):
    run("variants.longer.start_from=all", "num_seeds=1")
    settings = (Run(tmp_path / "study", "longer", 0).pretrain_dir / "settings.yaml").read_text()
    assert str(Run(tmp_path / "study", "all", 0).model_dir) in settings


def test_other_settings_are_rejected(run, tmp_path):
    run("num_seeds=1")
    with pytest.raises(InputError, match="pretrain.num_steps.* 9 .* 6"):
        run("num_seeds=1", "pretrain.num_steps=9")
    # A variant that is left out for a while is still bound to the settings of its results.
    run("num_seeds=1", variants=["all"])
    with pytest.raises(InputError, match="variants.none.pretrain.num_steps.* 9 .* 6"):
        run("num_seeds=1", "variants.none.pretrain.num_steps=9")


@pytest.mark.alone
def test_a_budget_freezes_the_steps(run, tmp_path):
    run("num_seeds=1", budget_seconds=10.0)
    plan = json.loads((tmp_path / "study" / "study.json").read_text())
    assert plan["num_steps"]["all"] == plan["num_steps"]["none"] > 10
    results = read_results(tmp_path / "study")
    assert results["none-seed-0"]["num_steps"] == plan["num_steps"]["none"]
    # A variant that is added later takes as many.
    run("num_seeds=1", "variants.added={}")
    added = read_results(tmp_path / "study")["added-seed-0"]
    assert added["num_steps"] == plan["num_steps"]["all"]


def test_workers_share_the_cores_of_this_process(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 4, 5, 6}, raising=False)
    assert ablation.count_threads(StudyOptions(out=tmp_path, num_workers=2)) == 2
    assert ablation.count_threads(StudyOptions(out=tmp_path)) is None  # a run alone has them all


def test_two_runs_side_by_side_have_the_results_of_one_by_one(run, tmp_path):
    run("num_seeds=1", out="one")
    run("num_seeds=1", out="two", num_workers=2)
    one, two = read_results(tmp_path / "one"), read_results(tmp_path / "two")
    assert {name: each["figures"] for name, each in one.items()} == {
        name: each["figures"] for name, each in two.items()
    }


@pytest.mark.slow
def test_killed_in_the_middle_it_resumes_without_repeating_a_run(tiny_study, story_corpus, tmp_path):
    out = tmp_path / "study"
    words = ["study", tiny_study, "--data", story_corpus, "--out", out]
    command = [sys.executable, "-m", "albert", *map(str, words)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    first = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def results() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in out.glob("variants/*/*/result.json")}

    limit = time.monotonic() + 120
    while not results() and time.monotonic() < limit:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = results()
    assert 1 <= len(kept) < 4
    subprocess.run(command, env=env, check=True, capture_output=True, timeout=120)
    after = results()
    assert len(after) == 4
    assert {path: after[path] for path in kept} == kept


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_stopped_with_workers_every_one_of_them_saves_and_the_report_is_written(
    tiny_study, story_corpus, tmp_path, number, code
):
    out = tmp_path / "study"
    words = ["study", tiny_study, "--data", story_corpus, "--out", out, "--workers", "2"]
    long = ["pretrain.num_steps=100000", "pretrain.num_evaluations=1"]
    command = [sys.executable, "-m", "albert", *map(str, words), *long]
    first = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    limit = time.monotonic() + 120
    while len(list(out.glob("variants/*/*/pretrain/metrics.jsonl"))) < 2 and time.monotonic() < limit:
        time.sleep(0.05)
    time.sleep(1)  # some steps
    first.send_signal(number)
    _, told = first.communicate(timeout=60)
    assert first.returncode == code
    assert number.name in told.splitlines()[-1]
    assert "leaked" not in told
    assert len(list(out.glob("variants/*/*/pretrain/checkpoints/step-*"))) >= 2
    assert (out / "report.html").is_file()


def by_the_clock(name):
    """The study of equal time needs the machine to itself."""
    return pytest.param(name, marks=[pytest.mark.alone, pytest.mark.slow]) if name == "same-time" else name


@pytest.mark.parametrize("name", [by_the_clock(name) for name in list_ablations()])
def test_every_study_of_the_paper_runs_at_a_toy_size(name, story_corpus, tmp_path):
    options = StudyOptions(
        out=tmp_path / "study",
        data=str(story_corpus),
        overrides=(*TOY, *(["has_probes=false"] if name != "objective" else ["num_examples=32"])),
        budget_seconds=20.0 if name == "same-time" else None,
        variants=("albert",) if name == "same-time" else (),
    )
    outcome = run_study(name, options)
    assert outcome.failures == {}
    claims = [finding for section in outcome.page.sections for finding in section.findings]
    assert claims or name == "same-time"
    # One seed has no interval: nothing is claimed from it.
    assert {finding.outcome for finding in claims} <= {"inconclusive", "not tested"}
