"""All studies together: one budget, a folder for each, and a page that tells of all."""

import json
from pathlib import Path

import pytest

from albert.errors import InputError
from albert.report.content import Finding, Page, Section
from albert.study.asking import Ask, StudyOutcome
from albert.study.every import _build_ask, _Clock, _find_trained, _summarize_outcome, order_studies, run_all
from albert.study.studies import list_studies
from tests.study.arms.test_ablation import TOY


def test_every_study_comes_once_and_what_looks_at_models_comes_last():
    assert sorted(order_studies()) == sorted(list_studies())
    assert order_studies()[:3] == ["speed", "memory", "overall"]
    assert order_studies()[-2:] == ["layers", "agreement"]


def test_a_budget_is_spent_and_a_study_that_cannot_run_is_told_of(story_corpus, tmp_path):
    toy = (*(word for word in TOY if not word.startswith("pretrain.num_steps")), "first_seed=3")
    ask = Ask(out=tmp_path / "all", data=str(story_corpus), overrides=toy, budget_seconds=20.0)
    # There are no models to look at: the study that would have trained them is not asked for.
    outcome = run_all(ask, names=["dropout", "agreement"])
    assert outcome.failures == {
        "agreement": "study agreement: looks at trained models; give --model, once for each"
    }
    plan = json.loads((tmp_path / "all" / "dropout" / "study.json").read_text())
    assert plan["budget_seconds"] == pytest.approx(20.0, abs=1.0)
    spent = json.loads((tmp_path / "all" / "all.json").read_text())["spent"]
    assert spent["dropout"] > 1
    page = outcome.report.read_text(encoding="utf-8")
    assert "dropout/report.html" in page
    assert "Without dropout, masked words are learned better" in page
    models = [Path(model) for model in _find_trained(tmp_path / "all" / "dropout")]
    assert len(models) == 2
    assert all((model / "config.json").exists() and "seed-3" in model.parts for model in models)


def test_studies_that_train_have_equal_shares_of_what_is_left(tmp_path):
    ask = Ask(out=tmp_path / "all", data="corpus", budget_seconds=90.0)
    clock = _Clock(tmp_path / "all.json", 90.0)
    names = ["speed", "dropout", "data", "width"]
    assert _build_ask("speed", ask, clock, names).budget_seconds is None
    assert _build_ask("dropout", ask, clock, names).budget_seconds == 30.0
    (tmp_path / "all" / "dropout").mkdir(parents=True)
    (tmp_path / "all" / "dropout" / "study.json").write_text("{}")  # begun: it keeps its steps
    clock.spent["dropout"] = 40.0
    assert _build_ask("dropout", ask, clock, names).budget_seconds is None
    assert _build_ask("data", ask, clock, names).budget_seconds == 25.0


def test_without_a_budget_it_would_never_end(story_corpus, tmp_path):
    with pytest.raises(InputError, match="study all: takes a budget, as in --budget 3h"):
        run_all(Ask(out=tmp_path / "all", data=str(story_corpus)))


def test_an_arm_that_failed_is_told_of_on_the_page_of_all():
    page = Page("t", "l", [Section("s", findings=[Finding("c", "t", "o", "cannot tell")])])
    outcome = StudyOutcome("dropout", Path("report.html"), page, failures={"with, seed 0": "no memory"})
    assert _summarize_outcome(outcome) == "1 cannot tell; 1 failed: with, seed 0: no memory"
