"""`albert predict` on files and pipes."""

import io
import json
import subprocess
import sys

import pytest

import albert
from tests.tasks.finetuned_folder import EARLY, SENTIMENT, write_finetuned_folder

TEXTS = ["the ship left the town", "two children", "it was cold"]


@pytest.fixture
def model(tiny_folder, tmp_path):
    return write_finetuned_folder(tmp_path / "m", tiny_folder, SENTIMENT)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("review,stars\n" + "".join(f"{text},3\n" for text in TEXTS))
    return path


@pytest.fixture
def type_in(monkeypatch):
    def put(text):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return put


def parse(text):
    return [json.loads(line) for line in text.splitlines()]


def test_a_table_to_standard_output(run_albert, model, table):
    done = run_albert("predict", "classification", "--model", model, table, "columns.text=review")
    assert (done.code, done.err) == (0, "")
    expected = [each.label for each in albert.load(model).classify(TEXTS)]
    assert [(row["line"], row["label"]) for row in parse(done.out)] == list(
        zip((2, 3, 4), expected, strict=True)
    )


def test_a_column_may_have_any_name(run_albert, model, tmp_path):
    """As datasets have them; in YAML the one would be nothing, and the other a number."""
    for name in ("#1 String", "0"):
        table = tmp_path / "x.csv"
        table.write_text(f"{name},stars\nthe dog,3\n")
        done = run_albert("predict", "classification", "--model", model, table, f"columns.text={name}")
        assert (done.code, done.err, len(parse(done.out))) == (0, "", 1)


def test_a_table_to_a_file(run_albert, model, table, tmp_path):
    out = tmp_path / "new" / "answers.jsonl"
    words = ["predict", "classification", "-m", model, table, "columns.text=review", "--out", out]
    result = json.loads(run_albert(*words, "--json").out)
    assert (result["file"], result["answers"], result["skipped"]) == (str(out), 3, 0)
    assert len(parse(out.read_text())) == 3
    assert [path.name for path in out.parent.iterdir()] == ["answers.jsonl"]


def test_a_file_that_exists_is_replaced_with_force_alone(run_albert, model, table, tmp_path):
    out = tmp_path / "thesis.txt"
    out.write_text("years of work")
    words = ["predict", "classification", "-m", model, table, "columns.text=review", "--out", out]
    assert "--force" in run_albert(*words).error
    assert out.read_text() == "years of work"
    assert run_albert(*words, "--force").code == 0
    assert len(parse(out.read_text())) == 3


def test_a_dash_is_standard_input_in_jsonl_or_in_any_format(run_albert, model, type_in):
    type_in('{"text": "the dog"}\n')
    assert len(parse(run_albert("predict", "classification", "-m", model, "-").out)) == 1
    type_in("the dog\n\nthe sea\n")
    done = run_albert("predict", "classification", "-m", model, "-", "--format", "lines")
    assert [row["line"] for row in parse(done.out)] == [1, 3]


def test_bad_rows_are_told_on_standard_error(run_albert, model, type_in):
    type_in('{"text": "the dog"}\n{"text": \n{"text": "the sea"}\n')
    done = run_albert("predict", "classification", "-m", model, "-")
    assert done.code == 0
    assert [row["line"] for row in parse(done.out)] == [1, 3]
    assert "line 2" in done.err


def test_several_models_and_every_option(run_albert, tiny_folder, tmp_path, table):
    models = [write_finetuned_folder(tmp_path / str(seed), tiny_folder, EARLY, seed=seed) for seed in (1, 2)]
    words = [word for model in models for word in ("--model", model)]
    options = ["--depth", "2", "--patience", "1", "--device", "cpu", "columns.text=review"]
    done = run_albert("predict", "classification", *words, table, *options)
    assert (done.code, len(parse(done.out))) == (0, 3)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["columns.text=body"], ["body", "review", "stars"]),
        (["columns.txt=review"], ["txt", "text"]),
        (["colums.text=review"], ["colums", "columns"]),
        (["columns.text=review", "--patience", "2"], ["patience", "2"]),
        (["columns.text=review", "--depth", "0"], ["depth"]),
        (["columns.text=review", "--format", "docx"], ["csv, tsv, jsonl"]),
    ],
)
def test_mistakes_are_one_line(run_albert, model, table, words, names):
    error = run_albert("predict", "classification", "--model", model, table, *words).error
    assert all(name in error for name in names), error


def test_a_pipe_is_answered_line_by_line_and_a_reader_may_go_away(model):
    words = [sys.executable, "-m", "albert", "predict", "classification", "-m", model, "-"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, **pipes, text=True) as process:
        for line, text in enumerate(TEXTS, start=1):
            process.stdin.write(f"{json.dumps({'text': text})}\n")
            process.stdin.flush()
            # The next line goes in when this one is answered: one that were kept back would never come.
            assert json.loads(process.stdout.readline())["line"] == line
        process.stdout.close()
        # The input stays open: it is enough that an answer finds no reader.
        process.stdin.write('{"text": "the sea"}\n')
        process.stdin.flush()
        assert process.wait() == 0
