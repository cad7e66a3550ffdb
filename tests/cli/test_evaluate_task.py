"""`albert evaluate` for fine-tuned models: a table for a person, JSON for a machine, files that are whole."""

import json

import pytest

from albert.tasks.evaluate import evaluate
from albert.tasks.splits import identify_examples
from tests.conftest import read_tree
from tests.hub_cache import put_into_hub_cache
from tests.tasks.finetuned_folder import EARLY, SENTIMENT, config_of, write_finetuned_folder
from tests.tasks.published import TEXTS, write_entailment, write_sentiment, write_similarity, write_squad
from tests.tasks.tables import write_rows


@pytest.fixture
def sentiment(tiny_folder, tmp_path):
    """The words of a command that evaluates a model of SST-2."""
    model = write_finetuned_folder(tmp_path / "m", tiny_folder, config_of("sst-2"))
    return ["evaluate", "sst-2", "--model", model, "--data", write_sentiment(tmp_path / "glue")]


@pytest.fixture
def reviews(tmp_path):
    rows = [{"review": text, "mood": ("bad", "fine", "good")[place % 3]} for place, text in enumerate(TEXTS)]
    return write_rows(tmp_path / "reviews.csv", rows)


def test_a_person_reads_scores_with_intervals_classes_and_confusions(sentiment, run_albert):
    done = run_albert(*sentiment)
    assert done.code == 0
    first, *lines = done.out.splitlines()
    assert first.startswith("sst-2 on dev: 12 examples, ")
    text = "\n".join(lines)
    for words in ("accuracy", "95% interval", "negative", "positive", "precision", "gold ↓ predicted →"):
        assert words in text
    assert "points at temperature 1.000; best on these examples" in text


def test_a_temperature_that_was_chosen_on_these_examples_is_not_judged_by_them(
    sentiment, run_albert, tmp_path
):
    dev = evaluate("sst-2", model=tmp_path / "m", data=tmp_path / "glue").examples
    task_file = tmp_path / "m" / "task.json"
    task_file.write_text(json.dumps(json.loads(task_file.read_text()) | {"tuned_on": identify_examples(dev)}))
    text = run_albert(*sentiment).out
    assert "points, of halves, each at a temperature chosen on the other" in " ".join(text.split())
    assert "would want" not in text


def test_a_machine_reads_the_same_as_json(sentiment, run_albert):
    values = json.loads(run_albert(*sentiment, "--json").out)
    assert values["task"] == "sst-2"
    assert values["scores"].keys() == values["intervals"].keys() == {"accuracy", "score"}
    low, high = values["intervals"]["score"]
    assert low <= values["scores"]["score"] <= high
    assert values["num_examples"] == values["num_scored"] == len(TEXTS)
    assert values["files"] == []


def test_the_folder_holds_scores_predictions_and_a_page(sentiment, run_albert, tmp_path):
    out = tmp_path / "out"
    printed = json.loads(run_albert(*sentiment, "--out", out, "--json").out)
    assert sorted(path.name for path in out.iterdir()) == ["predictions.jsonl", "report.html", "scores.json"]
    scores = json.loads((out / "scores.json").read_text())
    assert scores["scores"] == printed["scores"]
    lines = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == [str(place) for place in range(len(TEXTS))]
    right = [line["label"] == ("negative", "positive")[place % 2] for place, line in enumerate(lines)]
    assert 100 * sum(right) / len(right) == pytest.approx(scores["scores"]["accuracy"])
    assert "<html" in (out / "report.html").read_text()
    assert printed["files"] == [str(out / name) for name in sorted(path.name for path in out.iterdir())]
    before = read_tree(out)
    assert run_albert(*sentiment, "--out", out).code == 0  # the same split again takes its place
    assert read_tree(out).keys() == before.keys()


def test_a_test_set_gives_the_official_file_and_no_scores(sentiment, run_albert, tmp_path):
    out = tmp_path / "out"
    done = run_albert(*sentiment, "--split", "test", "--out", out)
    assert done.code == 0
    assert "no labels, so no scores" in done.out
    assert sorted(path.name for path in out.iterdir()) == ["SST-2.tsv", "predictions.jsonl", "scores.json"]
    header, *rows = (out / "SST-2.tsv").read_text().splitlines()
    assert header == "index\tprediction"
    assert [row.split("\t")[0] for row in rows] == ["0", "1", "2", "3"]
    assert {row.split("\t")[1] for row in rows} <= {"0", "1"}


def test_squad_gives_the_files_of_the_official_script(tiny_folder, run_albert, tmp_path):
    model = write_finetuned_folder(tmp_path / "m", tiny_folder, config_of("squad-2.0", threshold=0.1))
    words = ("squad-2.0", "--model", model, "--data", write_squad(tmp_path / "data"))
    done = run_albert("evaluate", *words, "--out", tmp_path / "out")
    assert done.code == 0
    assert "the model's own" in done.out
    assert "and scored on the other 6" in done.out
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
    done = run_albert(*words)
    assert "12 examples, 3 models" in done.out
    assert all(f"{model}" in done.out.replace("\n", "") for model in models)
    values = json.loads(run_albert(*words, "--select", "--json").out)
    assert values["selection"]["num_chosen_on"] == values["num_scored"] == 6
    assert values["models"] == [name for name, _ in values["selection"]["steps"]]
    assert "members selected on one half of dev, and scored" in run_albert(*words, "--select").out


def test_columns_are_named_as_in_fine_tuning(tiny_folder, run_albert, tmp_path, reviews):
    model = write_finetuned_folder(tmp_path / "m", tiny_folder, SENTIMENT)
    words = ("evaluate", "classification", "--model", model, "--data", reviews)
    done = run_albert(*words, "columns.text=review", "columns.label=mood", "--json")
    assert json.loads(done.out)["split"] == "reviews.csv"
    assert "no column '#1 String'" in run_albert(*words, "columns.text=#1 String").error
    assert "did you mean text?" in run_albert(*words, "columns.texd=review").error
    assert "only the columns of an own table can be set" in run_albert(*words, "max_length=128").error


def test_the_curve_of_early_exit_is_shown(tiny_folder, run_albert, tmp_path, reviews):
    facts = EARLY.model_copy(update={"metrics": ("accuracy",)})
    model = write_finetuned_folder(tmp_path / "m", tiny_folder, facts)
    columns = ("columns.text=review", "columns.label=mood")
    words = ("evaluate", "classification", "--model", model, "--data", reviews, *columns, "--exits")
    assert "times as fast" in run_albert(*words).out
    curve = json.loads(run_albert(*words, "--json").out)["exits"]
    assert [point["depth"] for point in curve["depths"]] == [1, 2, 3]
    assert "exits.json" in run_albert(*words, "--out", tmp_path / "scores").out
    kept = json.loads((tmp_path / "scores" / "exits.json").read_text())
    assert [point["depth"] for point in kept["depths"]] == [1, 2, 3]


def test_a_page_alone(sentiment, run_albert, tmp_path):
    done = run_albert(*sentiment, "--report", tmp_path / "errors.html")
    assert done.out.rstrip().endswith("errors.html")
    assert (tmp_path / "errors.html").stat().st_size > 1000


def test_a_report_that_cannot_be_written_is_rejected_before_anything_is(sentiment, run_albert, tmp_path):
    table = tmp_path / "glue" / "notes.csv"
    table.write_text("text,label\n")
    for words, said in (
        (("--report", tmp_path), "is a folder; give the name of an HTML file"),
        (("--report", table), "notes.csv: exists and is no HTML file"),
        (("--report", table / "errors.html"), "cannot write in"),
        (("--report", "/proc/nowhere/errors.html"), "cannot write in"),
        (("--report", tmp_path / "errors.html", "--split", "test"), "has no labels"),
    ):
        done = run_albert(*sentiment, "--out", tmp_path / "out", *words)
        assert said in done.error
        assert not (tmp_path / "out").exists()
    assert table.read_text() == "text,label\n"


def test_options_that_do_not_fit_are_refused(sentiment, run_albert, tmp_path):
    plain = ("evaluate", "pretraining", "--model", "x", "--data", "y")
    for words, said in (
        ((*sentiment, "--examples", 5), "--examples means nothing to sst-2; leave it out"),
        ((*sentiment, "--held-out"), "--held-out means nothing to sst-2"),
        ((*sentiment, "--exits"), "fine-tune a model with has_exits=true"),
        ((*sentiment, "--select"), "1 model to select from"),
        ((*sentiment, "--report", tmp_path), "is a folder"),
        ((*sentiment, "columns.text=a"), "sst-2 has official files"),
        ((*plain, "--split", "dev"), "--split means nothing to pretraining; leave it out"),
        ((*plain, "--select"), "--select means nothing to pretraining"),
        ((*plain, "--model", "z"), "2 models, and pretraining is scored for one"),
        (("evaluate", "sts-2", "--model", "x", "--data", "y"), "no task 'sts-2'; did you mean sts-b?"),
    ):
        assert said in run_albert(*words).error


def test_what_is_in_the_way_is_not_lost(sentiment, run_albert, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    assert (
        "holds something else than an evaluation of sst-2 on dev"
        in run_albert(*sentiment, "--out", out).error
    )
    assert (out / "thesis.txt").read_text() == "years of work"
    assert "is a file, and a folder is to be" in run_albert(*sentiment, "--out", out / "thesis.txt").error
    assert (out / "thesis.txt").read_text() == "years of work"
    assert run_albert(*sentiment, "--out", tmp_path / "one").code == 0
    before = read_tree(tmp_path / "one")
    assert (
        "an evaluation of sst-2 on test"
        in run_albert(*sentiment, "--out", tmp_path / "one", "--split", "test").error
    )
    assert read_tree(tmp_path / "one") == before
    (tmp_path / "one" / "notes.txt").write_text("beside the scores")
    said = "one: holds notes.txt, which writing an evaluation there would remove; choose another folder"
    assert said in run_albert(*sentiment, "--out", tmp_path / "one").error
    assert read_tree(tmp_path / "one") == {**before, "notes.txt": b"beside the scores"}


@pytest.mark.parametrize("split", ["dev", "test"])
def test_nothing_is_left_of_what_fails_halfway(split, tiny_folder, run_albert, tmp_path, monkeypatch):
    model = write_finetuned_folder(tmp_path / "m", tiny_folder, config_of("sts-b"))
    data = write_similarity(tmp_path / "glue")

    def fail(*_, **__):
        raise OSError(28, "No space left on device", "disk")

    monkeypatch.setattr("albert.tasks.evaluate.dump_json", fail)
    words = ("sts-b", "--model", model, "--data", data, "--split", split, "--out", tmp_path / "out")
    done = run_albert("evaluate", *words)
    assert (done.code, done.out) == (2, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["glue", "m"]


def test_the_wrong_model_is_told_in_one_line(tiny_folder, run_albert, tmp_path):
    model = write_finetuned_folder(tmp_path / "m", tiny_folder, config_of("mnli"))
    data = write_entailment(tmp_path / "glue")
    said = run_albert("evaluate", "rte", "--model", model, "--data", data).error
    assert said.endswith("but rte has entailment, not_entailment; give a model of rte")
    done = run_albert("evaluate", "ax", "--model", model, "--data", data, "--out", tmp_path / "out")
    assert (tmp_path / "out" / "AX.tsv").read_text().startswith("index\tprediction\n0\t")
    assert done.code == 0


@pytest.mark.parametrize("words", [(), ("--exits",)])
def test_a_revision_of_the_hub_is_the_one_that_is_asked(
    run_albert, tiny_folder, tmp_path, monkeypatch, words
):
    facts = EARLY.model_copy(update={"metrics": ("accuracy",)})
    model = write_finetuned_folder(tmp_path / "m", tiny_folder, facts)
    put_into_hub_cache(
        "someone/early", model, cache=tmp_path / "cache", revision="v2", monkeypatch=monkeypatch
    )
    rows = [{"text": text, "label": EARLY.labels[place % 2]} for place, text in enumerate(TEXTS)]
    data = write_rows(tmp_path / "dev.csv", rows)
    asked = ["evaluate", EARLY.task, "--model", "someone/early", "--data", data, *words]
    assert "'someone/early' is not in the cache" in run_albert(*asked).error
    done = run_albert(*asked, "--revision", "v2", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["models"] == ["someone/early"]
    for task in (EARLY.task, "pretraining"):
        local = ["evaluate", task, "--model", model, "--data", data, "--revision", "v2"]
        assert "is a local path and has no revision 'v2'" in run_albert(*local).error
