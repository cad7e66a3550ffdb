"""The table of studies, their options, and all studies within one budget."""

import json
from pathlib import Path

import pytest

from albert.errors import InputError
from albert.study.settings import StudyOptions
from albert.study.studies import (
    build_options,
    list_trained_models,
    run_all,
    run_study,
)
from tests.study.conftest import TOY


@pytest.mark.parametrize(
    ("study", "options", "named"),
    [
        ("sharin", {}, "sharing"),
        ("sharing", {}, "--data"),
        ("sharing", {"data": "corpus", "models": ("nano",)}, "--model"),
        ("layers", {}, "--model"),
        ("layers", {"models": ("nano",), "seed": 0}, "--seed"),
        ("speed", {"num_workers": 2}, "--workers"),
        ("all", {"data": "corpus"}, "--budget 3h"),
        ("all", {"data": "corpus", "budget_seconds": 60.0, "variants": ("all",)}, "--variants"),
    ],
)
def test_unknown_studies_and_wrong_options_are_rejected(study, options, named, tmp_path):
    with pytest.raises(InputError) as caught:
        run_study(study, StudyOptions(out=tmp_path / "out", **options))
    assert named in str(caught.value)


def test_a_budget_is_spent_and_a_study_that_cannot_run_is_reported(story_corpus, tmp_path):
    toy = (*(word for word in TOY if not word.startswith("pretrain.num_steps")), "first_seed=3")
    options = StudyOptions(out=tmp_path / "all", data=str(story_corpus), overrides=toy, budget_seconds=20.0)
    # There are no models to score: the study that trains them is not among those that run.
    outcome = run_all(options, names=["dropout", "agreement"])
    assert list(outcome.failures) == ["agreement"]
    plan = json.loads((tmp_path / "all" / "dropout" / "study.json").read_text())
    assert plan["budget_seconds"] == pytest.approx(20.0, abs=1.0)
    spent = json.loads((tmp_path / "all" / "all.json").read_text())["spent"]
    assert spent["dropout"] > 1
    assert "dropout/report.html" in outcome.report.read_text(encoding="utf-8")
    models = [Path(model) for model in list_trained_models(tmp_path / "all" / "dropout")]
    assert len(models) == 2
    assert all((model / "config.json").exists() and "seed-3" in model.parts for model in models)


def test_studies_that_train_have_equal_shares_of_what_is_left(tmp_path):
    options = StudyOptions(out=tmp_path, data="corpus", budget_seconds=90.0)

    def find_budget(name, seconds_left):
        names = ["speed", "dropout", "data", "width"]
        return build_options(name, options, names, seconds_left=seconds_left).budget_seconds

    assert find_budget("speed", 90.0) is None
    assert find_budget("dropout", 90.0) == 30.0
    (tmp_path / "dropout").mkdir(parents=True)
    (tmp_path / "dropout" / "study.json").write_text("{}")  # started: it keeps its steps
    assert find_budget("dropout", 50.0) is None
    assert find_budget("data", 50.0) == 25.0


def test_the_command_writes_a_report(run_albert, tiny_folder, tmp_path):
    words = ("study", "layers", "--model", tiny_folder, "--out", tmp_path / "out")
    found = json.loads(run_albert(*words, "--json").out)
    assert (found["is_finished"], found["report"]) == (True, str(tmp_path / "out" / "report.html"))
    assert str(tmp_path / "out" / "report.html") in run_albert(*words).out
