"""`albert evaluate` of fine-tuned models: tables, JSON and files."""

import json

import pytest

from tests.conftest import read_tree
from tests.tasks.finetuned_folder import EARLY, SENTIMENT, config_of, write_finetuned_folder
from tests.tasks.published import TEXTS, write_sentiment, write_squad
from tests.tasks.tables import write_rows


@pytest.fixture
def sentiment(tiny_folder, tmp_path):
    """The words of a command that evaluates a model of SST-2."""
    model = write_finetuned_folder(tmp_path / "m", tiny_folder, config_of("sst-2"))
    return ["evaluate", "sst-2", "--model", model, "--data", write_sentiment(tmp_path / "glue")]


@pytest.fixture
def reviews(tmp_path):
    rows = [{"review": text, "mood": ("bad", "fine", "good")[i % 3]} for i, text in enumerate(TEXTS)]
    return write_rows(tmp_path / "reviews.csv", rows)


def test_scores_with_intervals_classes_and_confusions_are_printed(sentiment, run_albert):
    done = run_albert(*sentiment)
    assert done.code == 0
    for words in ("12 examples", "accuracy", "95% interval", "negative", "positive", "precision", "1.000"):
        assert words in done.out


def test_the_folder_holds_scores_predictions_and_a_page(sentiment, run_albert, tmp_path):
    out = tmp_path / "out"
    printed = json.loads(run_albert(*sentiment, "--out", out, "--json").out)
    low, high = printed["intervals"]["score"]
    assert low <= printed["scores"]["score"] <= high
    assert printed["num_examples"] == printed["num_scored"] == len(TEXTS)
    assert sorted(path.name for path in out.iterdir()) == ["predictions.jsonl", "report.html", "scores.json"]
    scores = json.loads((out / "scores.json").read_text())
    assert scores["scores"] == printed["scores"]
    lines = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == [str(i) for i in range(len(TEXTS))]
    right = [line["label"] == ("negative", "positive")[i % 2] for i, line in enumerate(lines)]
    assert 100 * sum(right) / len(right) == pytest.approx(scores["scores"]["accuracy"])
    assert printed["files"] == [str(out / name) for name in sorted(path.name for path in out.iterdir())]
    before = read_tree(out)
    assert run_albert(*sentiment, "--out", out).code == 0  # the same split again takes its place
    assert read_tree(out).keys() == before.keys()


def test_squad_gives_the_files_of_the_official_script(tiny_folder, run_albert, tmp_path):
    model = write_finetuned_folder(tmp_path / "m", tiny_folder, config_of("squad-2.0", threshold=0.1))
    words = ("squad-2.0", "--model", model, "--data", write_squad(tmp_path / "data"))
    done = run_albert("evaluate", *words, "--out", tmp_path / "out")
    assert done.code == 0
    odds = json.loads((tmp_path / "out" / "null_odds.json").read_text())
    given = json.loads((tmp_path / "out" / "predictions.json").read_text())
    assert len(odds) == 12
    assert {name for name, text in given.items() if not text} == {
        name for name, value in odds.items() if value > 0.1
    }


def test_an_ensemble_and_a_selection_say_who_is_in_it(tiny_folder, run_albert, tmp_path):
    data = write_sentiment(tmp_path / "glue")
    models = [
        write_finetuned_folder(tmp_path / f"m{seed}", tiny_folder, config_of("sst-2"), seed=seed)
        for seed in (1, 2, 3)
    ]
    words = ["evaluate", "sst-2", "--data", data]
    for model in models:
        words += ["--model", model]
    printed = run_albert(*words).out.replace("\n", "")
    assert all(f"{model}" in printed for model in models)
    values = json.loads(run_albert(*words, "--select", "--json").out)
    assert values["selection"]["num_chosen_on"] == values["num_scored"] == 6
    assert values["models"] == [name for name, _ in values["selection"]["steps"]]


def test_columns_are_named_as_in_fine_tuning(tiny_folder, run_albert, tmp_path, reviews):
    model = write_finetuned_folder(tmp_path / "m", tiny_folder, SENTIMENT)
    words = ("evaluate", "classification", "--model", model, "--data", reviews)
    done = run_albert(*words, "columns.text=review", "columns.label=mood", "--json")
    assert json.loads(done.out)["split"] == "reviews.csv"
    assert "#1 String" in run_albert(*words, "columns.text=#1 String").error
    assert "texd" in run_albert(*words, "columns.texd=review").error
    assert "max_length" in run_albert(*words, "max_length=128").error


def test_the_curve_of_early_exit_is_shown(tiny_folder, run_albert, tmp_path, reviews):
    facts = EARLY.model_copy(update={"metrics": ("accuracy",)})
    model = write_finetuned_folder(tmp_path / "m", tiny_folder, facts)
    columns = ("columns.text=review", "columns.label=mood")
    words = ("evaluate", "classification", "--model", model, "--data", reviews, *columns, "--exits")
    assert "exits.json" in run_albert(*words, "--out", tmp_path / "scores").out
    kept = json.loads((tmp_path / "scores" / "exits.json").read_text())
    assert [point["depth"] for point in kept["depths"]] == [1, 2, 3]


def test_a_report_that_cannot_be_written_is_rejected_before_anything_is(sentiment, run_albert, tmp_path):
    table = tmp_path / "glue" / "notes.csv"
    table.write_text("text,label\n")
    for words, name in ((("--report", tmp_path), str(tmp_path)), (("--report", table), "notes.csv")):
        assert name in run_albert(*sentiment, "--out", tmp_path / "out", *words).error
        assert not (tmp_path / "out").exists()
    assert table.read_text() == "text,label\n"
    assert run_albert(*sentiment, "--report", tmp_path / "errors.html").code == 0
    assert (tmp_path / "errors.html").is_file()


def test_options_that_do_not_fit_are_rejected(sentiment, run_albert):
    pretraining = ("evaluate", "pretraining", "--model", "x", "--data", "y")
    for words, names in (
        ((*sentiment, "--examples", 5), ["--examples", "sst-2"]),
        ((*sentiment, "--held-out"), ["--held-out", "sst-2"]),
        ((*sentiment, "--exits"), ["--exits", "has_exits=true"]),
        ((*sentiment, "--select"), ["1 model"]),
        ((*sentiment, "columns.text=a"), ["sst-2"]),
        ((*pretraining, "--split", "dev"), ["--split", "pretraining"]),
        ((*pretraining, "--model", "z"), ["2 models"]),
        (("evaluate", "sts-2", "--model", "x", "--data", "y"), ["sts-2", "sts-b"]),
    ):
        error = run_albert(*words).error
        assert all(name in error for name in names), error
