"""Predictions over tables and streams of any size: order, memory, broken rows, and what is rejected."""

import gzip
import io
import json
import threading

import pytest

import albert
from albert.data.rows import Problems
from albert.errors import AlbertError, FileFormatError, InputError
from albert.tasks import predict as predict_module
from albert.tasks.classification import TextExample
from albert.tasks.predict import PredictionInput, Stream, format_line, iter_arrived, predict
from albert.tasks.tables import Numbered
from tests.conftest import read_tree
from tests.tasks.finetuned_folder import (
    ANSWERS,
    EARLY,
    OPTIONS,
    PLACES,
    SENTIMENT,
    write_finetuned_folder,
)
from tests.tasks.formats import write_table
from tests.tasks.tables import write_rows

TEXTS = ["the ship left the town", "two children", "it was cold, and they went to the house by the river"]
SST = SENTIMENT.model_copy(update={"task": "sst-2", "labels": ("negative", "positive")})


@pytest.fixture
def folder(tiny_folder, tmp_path):
    def build(config, name="m", **options):
        return write_finetuned_folder(tmp_path / name, tiny_folder, config, **options)

    return build


def write_texts(path, texts=TEXTS):
    return write_table(path, [{"text": text} for text in texts])


def run(task, model, source, **options):
    """Return the predicted rows and the summary."""
    target = io.BytesIO()
    models = model if isinstance(model, list) else [model]
    summary = predict(task, models=models, source=source, target=target, **options)
    return [json.loads(line) for line in target.getvalue().decode().splitlines()], summary


def stream(text, **options):
    return Stream(io.BytesIO(text.encode()), **options)


# Tables.


def test_rows_equal_the_predictions_of_python_in_the_order_of_the_lines(folder, tmp_path):
    model = folder(SENTIMENT)
    texts = [TEXTS[count % 3] + " the dog" * count for count in range(40)]
    rows, summary = run("classification", model, write_texts(tmp_path / "x.jsonl", texts))
    assert [row["line"] for row in rows] == list(range(1, 41))
    assert (summary.num_answers, summary.num_skipped) == (40, 0)
    (problem,) = summary.problems
    assert "24 of 40" in problem
    for row, found in zip(rows, albert.load(model).classify(texts), strict=True):
        assert row["label"] == found.label
        assert row["probabilities"] == pytest.approx(dict(found.probabilities), abs=1e-5)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("x.csv", [2, 3, 4]),
        ("x.jsonl", [1, 2, 3]),
        ("x.parquet", [1, 2, 3]),
        ("x.csv.gz", [2, 3, 4]),
        ("x.txt", [1, 3, 4]),
    ],
)
def test_every_format_gives_the_same_predictions(folder, tmp_path, name, lines):
    path = tmp_path / name
    if path.suffix == ".txt":
        path.write_text(f"{TEXTS[0]}\n\n{TEXTS[1]}\n{TEXTS[2]}\n")
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(write_texts(tmp_path / "x.csv").read_bytes()))
    else:
        write_texts(path)
    model = folder(SENTIMENT)
    rows, _ = run("classification", model, path)
    assert [row["label"] for row in rows] == [each.label for each in albert.load(model).classify(TEXTS)]
    assert [row["line"] for row in rows] == lines


def test_words_are_read_from_lists_texts_and_conll(folder, tmp_path):
    model = folder(PLACES.model_copy(update={"columns": {"words": "tokens", "id": "name"}}))
    table = write_rows(tmp_path / "a.jsonl", [{"tokens": ["the", "town"], "name": "one"}])
    (tmp_path / "b.conll").write_text("the O\ntown B-PLACE\n\n")
    (row,), _ = run("token-classification", model, table)
    assert (row["id"], row["words"], len(row["labels"])) == ("one", ["the", "town"], 2)
    (other,), _ = run("token-classification", model, tmp_path / "b.conll")
    (third,), _ = run("token-classification", model, stream("the town\n"), format="lines")
    assert other["labels"] == third["labels"] == row["labels"]
    assert (other["line"], third["line"]) == (1, 1)


def test_questions_and_choices(folder, tmp_path):
    context = "the man found a big ship on the river ."
    question = {"question": "what ?", "context": context, "id": "q7"}
    path = write_rows(tmp_path / "q.jsonl", [question])
    (row,), _ = run("question-answering", folder(ANSWERS), path, columns={"id": "id"})
    assert row["id"] == "q7"
    assert context[row["start"] : row["end"]] == row["answer"]
    choice = {"passage": context, "question": "who ?", "options": ["a man", "a dog"]}
    (row,), _ = run("multiple-choice", folder(OPTIONS), write_rows(tmp_path / "c.jsonl", [choice]))
    assert row["option"] in choice["options"]
    assert row["line"] == 1


def test_columns_are_those_of_fine_tuning_unless_others_are_named(folder, tmp_path):
    model = folder(SENTIMENT.model_copy(update={"columns": {"text": "review", "label_kind": "one"}}))
    path = write_rows(tmp_path / "x.jsonl", [{"review": "a dog", "title": "the sea"}])
    by_review, _ = run("classification", model, path)
    by_title, _ = run("classification", model, path, columns={"text": "title"})
    assert by_review != by_title
    with pytest.raises(FileFormatError, match="'text'.*review.*title"):
        run("classification", model, path, columns={"text": "text"})


def test_broken_rows_are_skipped_and_counted_by_reason(folder, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"text": "a dog"}\n{"text": "a\n[1]\n\n{"text": 3}\n{"text": " "}\n{"tex": 1}\n'
                     b'{"text": "\xff"}\n{"text": "the sea"}\n')  # fmt: skip
    rows, summary = run("classification", folder(SENTIMENT), path)
    assert [row["line"] for row in rows] == [1, 9]
    assert summary.num_skipped == len(summary.problems) == 6
    for line, problem in zip((2, 3, 5, 6, 7, 8), summary.problems, strict=True):
        assert f"line {line}" in problem


def test_patience_and_depth_reach_the_model(folder, tmp_path):
    path = write_texts(tmp_path / "x.jsonl")
    early = folder(EARLY)
    full, _ = run("classification", early, path)
    assert run("classification", early, path, patience=3)[0] == full
    assert run("classification", early, path, depth=1)[0] != full
    with pytest.raises(InputError, match="has_exits=true"):
        run("classification", folder(SENTIMENT), path, patience=3)


# Published tasks.


def test_the_test_file_of_glue_is_answered_row_by_row(folder, tmp_path):
    model, glue = folder(SST), tmp_path / "glue"
    data = glue / "SST-2"
    data.mkdir(parents=True)
    (data / "test.tsv").write_text('index\tsentence\n0\tthe "old dog\n1\t\n2\tit was cold\n')
    (data / "dev.tsv").write_text("sentence\tlabel\na ship\t1\n")
    rows, _ = run("sst-2", model, glue)
    assert [row["id"] for row in rows] == ["0", "1", "2"]
    assert {row["label"] for row in rows} <= {"negative", "positive"}
    assert run("SST-2", model, data / "test.tsv")[0] == rows
    assert len(run("sst-2", model, glue, split="dev")[0]) == 1
    with pytest.raises(InputError, match=r"--split test.*dev\.tsv"):
        run("sst-2", model, data / "dev.tsv", split="test")
    by_column, _ = run("sst-2", model, data / "test.tsv", columns={"text": "index"})
    assert [row["line"] for row in by_column] == [2, 3, 4]
    (data / "test.tsv").write_text("index\tsentence\n0\n")
    with pytest.raises(FileFormatError, match="line 2"):
        run("sst-2", model, data / "test.tsv")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("dev.tsv", "sentence\nthe old dog\nit was cold\n"),  # own texts under an official name
        ("test.tsv", "index\tsentence\tlabel\n0\tthe old dog\t-1\n1\tit was cold\t-1\n"),  # as on the hub
        ("dev.tsv", "sentence\tlabel\nthe old dog\t\nit was cold\tfine\n"),
    ],
)
def test_labels_of_an_official_file_are_not_read(folder, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    rows, summary = run("sst-2", folder(SST), tmp_path / name)
    assert [row["id"] for row in rows] == ["0", "1"]
    assert summary.problems == ()


def test_a_squad_file_is_answered_question_by_question(folder, tmp_path):
    qas = [{"id": str(index), "question": "what ?"} for index in range(3)]
    content = {"data": [{"title": "t", "paragraphs": [{"context": "the old ship left .", "qas": qas}]}]}
    (tmp_path / "mine.json").write_text(json.dumps(content))
    config = ANSWERS.model_copy(update={"task": "squad-1.1"})
    rows, _ = run("squad-1.1", folder(config), tmp_path / "mine.json")
    assert [row["id"] for row in rows] == ["0", "1", "2"]


# Streams and memory.


def test_memory_holds_one_group_of_examples_at_a_time(folder, monkeypatch):
    monkeypatch.setattr(predict_module, "MAX_EXAMPLES", 64)
    num_read = num_written = 0

    def iter_examples():
        nonlocal num_read
        for num_read in range(1, 2001):
            yield Numbered(num_read, TextExample(str(num_read), "a dog"))

    class Target(io.BytesIO):
        def write(self, line):
            nonlocal num_written
            num_written += 1
            assert num_read - num_written <= 64
            return super().write(line)

    found = PredictionInput(iter_examples(), Problems("x"), has_ids=False)
    monkeypatch.setattr(predict_module, "open_input", lambda *_, **__: found)
    predict("classification", models=[folder(SENTIMENT)], source=stream(""), target=Target())
    assert num_written == 2000


def test_a_live_stream_gives_the_predictions_of_a_file(folder, tmp_path):
    model = folder(SENTIMENT)
    path = write_texts(tmp_path / "x.jsonl", ["the dog " * count for count in range(1, 60)])
    from_file, _ = run("classification", model, path)
    live, _ = run("classification", model, stream(path.read_text(), is_live=True))
    assert [(row["line"], row["label"]) for row in live] == [(row["line"], row["label"]) for row in from_file]


def test_arrived_items_are_yielded_before_the_next_arrives():
    is_yielded = threading.Event()

    def arrive():
        yield "first"
        assert is_yielded.wait(10)
        yield "second"
        yield "third"

    groups = iter_arrived(arrive(), count_characters=len, max_items=10, max_characters=100)
    assert next(groups) == ["first"]
    is_yielded.set()
    assert [item for group in groups for item in group] == ["second", "third"]


def test_an_error_of_the_reader_is_raised_after_the_items_before_it():
    def arrive():
        yield 1
        yield 2
        raise FileFormatError("truncated")

    groups = iter_arrived(arrive(), count_characters=int, max_items=1, max_characters=100)
    assert [next(groups), next(groups)] == [[1], [2]]
    with pytest.raises(FileFormatError, match="truncated"):
        next(groups)


# Output.


def test_a_file_is_written_whole_or_not_at_all(folder, tmp_path, monkeypatch):
    model = folder(SENTIMENT)
    path, target = tmp_path / "x.csv.gz", tmp_path / "out.jsonl"
    path.write_bytes(gzip.compress(b"text\na dog\n" + 40 * b"a ship\n")[:-8])
    target.write_text("before\n")
    (tmp_path / "bad.jsonl").write_text("{\n{\n")
    monkeypatch.setattr(predict_module, "MAX_EXAMPLES", 4)
    before = read_tree(tmp_path)
    for source, error in ((path, r"x\.csv\.gz"), (tmp_path / "bad.jsonl", "2 of 2")):
        with pytest.raises(FileFormatError, match=error):
            predict("classification", models=[model], source=source, target=target)
        assert read_tree(tmp_path) == before
    path.write_bytes(gzip.compress(b"text\na dog\n"))
    predict("classification", models=[model], source=path, target=target)
    assert json.loads(target.read_text())["line"] == 2


def test_an_empty_input_gives_an_empty_output(folder, tmp_path):
    (tmp_path / "x.jsonl").touch()
    model = folder(SENTIMENT)
    predict("classification", models=[model], source=tmp_path / "x.jsonl", target=tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes() == b""
    assert run("classification", model, stream(""))[0] == []


def test_lines_are_valid_json_in_utf_8():
    assert format_line({"id": "1", "answer": "é"}, 7) == '{"line": 7, "answer": "é"}\n'
    lone = format_line({"id": "1", "answer": "é\ud800"}, None)  # a lone surrogate, which UTF-8 cannot hold
    assert lone.isascii()
    assert json.loads(lone)["answer"] == "é\ud800"
    odds = {"id": "é", "odds": [0.5, float("nan"), float("-inf")]}
    assert format_line(odds, None) == '{"id": "é", "odds": [0.5, null, null]}\n'


# What is rejected.


@pytest.mark.parametrize(
    ("task", "config", "error"),
    [
        ("sst-2", SENTIMENT, "bad, fine, good.* negative, positive"),
        ("questions", SENTIMENT, "classification .*question-answering"),
        ("regression", SENTIMENT, "label.* regression"),
        ("clasification", SENTIMENT, "'clasification'.* classification"),
    ],
)
def test_a_model_of_another_task_is_rejected(folder, task, config, error):
    with pytest.raises(InputError, match=error):
        run(task, folder(config), stream(""))


def test_invalid_inputs_and_outputs_are_rejected(folder, tmp_path):
    model, questions = folder(SENTIMENT), folder(ANSWERS, "q")
    path = write_rows(tmp_path / "x.jsonl", [{"text": "a"}])
    (tmp_path / "x.pdf").touch()
    text = {"task": "classification", "model": model, "source": path}
    for options, error, value in (
        (text | {"source": tmp_path / "missing.csv"}, FileFormatError, r"missing\.csv"),
        (text | {"source": tmp_path}, InputError, str(tmp_path)),
        (text | {"source": tmp_path / "x.pdf"}, InputError, r"x\.pdf"),
        (text | {"split": "dev"}, InputError, "--split dev"),
        (text | {"source": stream("x"), "format": "parquet"}, InputError, "Parquet"),
        (text | {"model": []}, InputError, "--model"),
        (
            {"task": "question-answering", "model": questions, "source": stream("x"), "format": "lines"},
            AlbertError,
            "question, context",
        ),
    ):
        with pytest.raises(error, match=value):
            run(**options)
    for target in (tmp_path, path):  # a folder, and the input
        with pytest.raises(InputError, match=str(target)):
            predict("classification", models=[model], source=path, target=target)
    assert json.loads(path.read_text()) == {"text": "a"}
