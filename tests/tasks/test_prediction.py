"""Predictions over tables and streams of any size: order, memory, broken rows, and what is refused."""

import gzip
import io
import json
import os
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from albert.tasks.evaluation_goal import find_goal
from albert.tasks.examples import Numbered, TextExample
from albert.tasks.prediction import LoadedEnsemble, predict
from albert.tasks.prediction_input import PredictionInput, Stream, iter_arrived
from albert.tasks.task_facts import TaskConfig

import albert
from albert.data.rows import Problems
from albert.errors import FileFormatError, InputError
from albert.model.runtime import RuntimeSettings
from albert.tasks import prediction
from albert.tasks.ensemble import fit_members, read_member
from tests.conftest import read_tree
from tests.tasks.finetuned_folder import (
    ANSWERS,
    EARLY,
    OPTIONS,
    PLACES,
    SENTIMENT,
    STARS,
    write_finetuned_folder,
)
from tests.tasks.formats import write_table

TEXTS = ["the ship left the town", "two children", "it was cold, and they went to the house by the river"]


@pytest.fixture
def folder(tiny_folder, tmp_path):
    def build(facts, name="m", **options):
        return write_finetuned_folder(tmp_path / name, tiny_folder, facts, **options)

    return build


def write_rows(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def ask(task, model, source, **options):
    """The answers, and the summary."""
    target = io.BytesIO()
    models = model if isinstance(model, list) else [model]
    summary = predict(task, models=models, source=source, target=target, **options)
    return [json.loads(line) for line in target.getvalue().decode().splitlines()], summary


def stream(text, **options):
    return Stream(io.BytesIO(text.encode()), **options)


def test_answers_are_those_of_python_in_the_order_of_the_lines(folder, tmp_path):
    model = folder(SENTIMENT)
    texts = [text for count in range(40) for text in (TEXTS[count % 3] + " the dog" * count,)]
    rows, summary = ask(
        "classification", model, write_rows(tmp_path / "x.jsonl", [{"text": t} for t in texts])
    )
    assert [row["line"] for row in rows] == list(range(1, 41))
    assert (summary.num_answers, summary.num_skipped) == (40, 0)
    assert [told[:22] for told in summary.problems] == ["24 texts were longer t"]
    for row, found in zip(rows, albert.load(model).classify(texts), strict=True):
        assert row["label"] == found.label
        assert row["probabilities"] == pytest.approx(dict(found.probabilities), abs=1e-5)


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl", "txt"])
def test_every_format_gives_the_same_answers(folder, tmp_path, format):
    texts = ["the ship left the town", "two children"]
    content = {
        "csv": "text,label\nthe ship left the town,x\ntwo children,y\n",
        "tsv": "text\tlabel\nthe ship left the town\tx\ntwo children\ty\n",
        "jsonl": "".join(f"{json.dumps({'text': text})}\n" for text in texts),
        "txt": "the ship left the town\n\ntwo children\n",
    }
    (tmp_path / f"x.{format}").write_text(content[format])
    rows, _ = ask("classification", folder(SENTIMENT), tmp_path / f"x.{format}")
    expected = albert.load(tmp_path / "m").classify(texts)
    assert [row["label"] for row in rows] == [each.label for each in expected]
    first_lines = {"jsonl": [1, 2], "txt": [1, 3]}
    assert [row["line"] for row in rows] == first_lines.get(format, [2, 3])


def test_parquet_and_compressed_tables(folder, tmp_path):
    pq.write_table(pa.table({"text": TEXTS}), tmp_path / "x.parquet")
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"text\nthe ship left the town\ntwo children\n"))
    model = folder(SENTIMENT)
    from_parquet, _ = ask("classification", model, tmp_path / "x.parquet")
    compressed, _ = ask("classification", model, tmp_path / "x.csv.gz")
    assert [row["line"] for row in from_parquet] == [1, 2, 3]
    assert [row["label"] for row in compressed] == [row["label"] for row in from_parquet[:2]]


def test_words_come_from_lists_from_texts_and_from_conll(folder, tmp_path):
    model = folder(PLACES.model_copy(update={"columns": {"words": "tokens", "id": "name"}}))
    listed = write_rows(tmp_path / "a.jsonl", [{"tokens": ["the", "town"], "name": "one"}])
    (tmp_path / "b.conll").write_text("the O\ntown B-PLACE\n\n")
    (row,), _ = ask("words", model, listed)
    assert (row["id"], row["words"], len(row["labels"])) == ("one", ["the", "town"], 2)
    (other,), _ = ask("words", model, tmp_path / "b.conll")
    (third,), _ = ask("words", model, stream("the town\n"), format="lines")
    assert other["labels"] == third["labels"] == row["labels"]
    assert (other["line"], third["line"]) == (1, 1)


def test_questions_and_choices(folder, tmp_path):
    context = "the man found a big ship on the river ."
    question = {"question": "what ?", "context": context, "id": "q7"}
    path = write_rows(tmp_path / "q.jsonl", [question])
    (row,), _ = ask("questions", folder(ANSWERS), path, columns={"id": "id"})
    assert row["id"] == "q7"
    assert context[row["start"] : row["end"]] == row["answer"]
    choice = {"passage": context, "question": "who ?", "options": ["a man", "a dog"]}
    (row,), _ = ask("choice", folder(OPTIONS), write_rows(tmp_path / "c.jsonl", [choice]))
    assert row["option"] in choice["options"]
    assert row["line"] == 1


def test_the_columns_are_those_of_fine_tuning_unless_others_are_named(folder, tmp_path):
    model = folder(SENTIMENT.model_copy(update={"columns": {"text": "review", "label_kind": "one"}}))
    path = write_rows(tmp_path / "x.jsonl", [{"review": "a dog", "title": "the sea"}])
    by_review, _ = ask("classification", model, path)
    by_title, _ = ask("classification", model, path, columns={"text": "title"})
    assert by_review != by_title
    with pytest.raises(FileFormatError, match="no column 'text' but 'review', 'title'; name the column"):
        ask("classification", model, path, columns={"text": "text"})


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.jsonl"])
def test_a_second_text_that_is_named_must_be_there_and_the_models_own_need_not(folder, tmp_path, name):
    columns = {"text": "text", "text_pair": "other"}
    model = folder(
        TaskConfig(task="embedding", kind="embedding", label_kind="number", max_length=40, columns=columns)
    )
    rows = [{"text": "the dog", "second": "a dog"}, {"text": "the man", "second": "a man"}]
    path = write_table(tmp_path / name, rows)
    assert ["embedding" in row for row in ask("embedding", model, path)[0]] == [True, True]
    found, _ = ask("embedding", model, path, columns={"text_pair": "second"})
    assert ["similarity" in row for row in found] == [True, True]
    with pytest.raises(
        FileFormatError, match=r"no column 'secnod', which columns\.text_pair names; did you mean s"
    ):
        ask("embedding", model, path, columns={"text_pair": "secnod"})


def test_broken_rows_are_left_out_with_the_first_line_of_each_kind(folder, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"text": "a dog"}\n{"text": "a\n[1]\n\n{"text": 3}\n{"text": " "}\n{"tex": 1}\n'
                     b'{"text": "\xff"}\n{"text": "the sea"}\n')  # fmt: skip
    rows, summary = ask("classification", folder(SENTIMENT), path)
    assert [row["line"] for row in rows] == [1, 9]
    assert summary.num_skipped == 6
    said = "\n".join(summary.problems)
    for words in (
        "left out 1 line: not valid JSON (first in line 2",
        "no JSON object (first in line 3",
        "no text in column 'text' (first in line 5",
        "an empty text (first in line 6",
        "no 'text' (first in line 7",
        "bytes that are not UTF-8 (first in line 8",
    ):
        assert words in said


def test_a_weights_file_is_as_good_as_its_folder(folder, tmp_path):
    data = write_rows(tmp_path / "x.jsonl", [{"text": "the ship"}])
    model = folder(SENTIMENT.model_copy(update={"temperature": 4.0}))
    assert (
        ask("classification", model / "model.safetensors", data)[0] == ask("classification", model, data)[0]
    )


def test_texts_that_are_too_long_are_told_of(folder, tmp_path):
    texts = ["the ship", "the ship left the town . " * 4000]
    model = folder(SENTIMENT)
    rows, summary = ask(
        "classification", model, write_rows(tmp_path / "x.jsonl", [{"text": t} for t in texts])
    )
    assert len(rows) == 2
    (told,) = summary.problems
    assert told.startswith(f"1 text was longer than the {SENTIMENT.max_length} pieces that ")


def test_a_file_of_which_no_row_can_be_read_is_refused_and_nothing_is_written(folder, tmp_path):
    (tmp_path / "x.jsonl").write_text("{\n{\n")
    model = folder(SENTIMENT)
    before = read_tree(tmp_path)
    with pytest.raises(FileFormatError, match="2 of 2 lines cannot be read.*not valid JSON"):
        predict("classification", models=[model], source=tmp_path / "x.jsonl", target=tmp_path / "out.jsonl")
    assert read_tree(tmp_path) == before


def test_nothing_in_nothing_out(folder, tmp_path):
    (tmp_path / "x.jsonl").touch()
    model = folder(SENTIMENT)
    predict("classification", models=[model], source=tmp_path / "x.jsonl", target=tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes() == b""
    assert ask("classification", model, stream(""))[0] == []


def test_a_file_is_written_whole_or_not_at_all(folder, tmp_path, monkeypatch):
    model = folder(SENTIMENT)
    path, target = tmp_path / "x.csv.gz", tmp_path / "out.jsonl"
    path.write_bytes(gzip.compress(b"text\na dog\n" + 40 * b"a ship\n")[:-8])
    target.write_text("what was there\n")
    monkeypatch.setattr(prediction, "MAX_EXAMPLES", 4)
    before = read_tree(tmp_path)
    with pytest.raises(FileFormatError, match="damaged or cut short"):
        predict("classification", models=[model], source=path, target=target)
    assert read_tree(tmp_path) == before
    path.write_bytes(gzip.compress(b"text\na dog\n"))
    predict("classification", models=[model], source=path, target=target)
    assert json.loads(target.read_text())["line"] == 2


def test_a_device_is_written_to_and_not_replaced(folder, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_text()))
    reader.start()
    predict(
        "classification", models=[folder(SENTIMENT)], source=stream('{"text": "a"}'), target=tmp_path / "pipe"
    )
    reader.join()
    assert json.loads(found[0])["line"] == 1
    assert (tmp_path / "pipe").is_fifo()


def test_what_was_read_and_not_yet_answered_never_grows(folder, monkeypatch):
    """However long the input is, at most one list of examples is held at a time."""
    monkeypatch.setattr(prediction, "MAX_EXAMPLES", 64)
    read = 0

    def count_rows():
        nonlocal read
        for read in range(1, 2001):
            yield Numbered(read, TextExample(str(read), "a dog"))

    found = PredictionInput(count_rows(), Problems("x"), has_names=False)
    goal = find_goal("classification")
    member = read_member(folder(SENTIMENT), goal, names=(), runtime=RuntimeSettings())
    ensemble = prediction.load_ensemble(
        fit_members([member], goal), goal, patience=None, runtime=RuntimeSettings()
    )
    answered = 0
    for lines in prediction.iter_lines(ensemble, found):
        answered += len(lines)
        assert read - answered <= 1
    assert answered == 2000


def test_long_texts_are_held_fewer_at_a_time(monkeypatch, folder):
    monkeypatch.setattr(prediction, "MAX_CHARACTERS", 250_000)
    model = folder(SENTIMENT)
    sizes = []
    plain = LoadedEnsemble.answer

    def answer(self, examples, **options):
        sizes.append(len(examples))
        return plain(self, examples, **options)

    monkeypatch.setattr(LoadedEnsemble, "answer", answer)
    long = json.dumps({"text": "the old dog " * 8400})  # 100,000 characters
    rows, _ = ask("classification", model, stream(f"{long}\n" * 7, is_live=False))
    assert sizes == [3, 3, 1]
    assert len({round(row["probabilities"]["good"], 5) for row in rows}) == 1


def test_what_has_arrived_is_given_before_the_next_is_there():
    given = threading.Event()

    def arrive():
        yield "first"
        assert given.wait(10)
        yield "second"
        yield "third"

    groups = iter_arrived(arrive(), count_characters=len, max_items=10, max_characters=100)
    assert next(groups) == ["first"]
    given.set()
    assert [item for group in groups for item in group] == ["second", "third"]


def test_what_goes_wrong_on_the_way_comes_behind_what_was_before():
    def arrive():
        yield 1
        yield 2
        raise FileFormatError("cut off")

    groups = iter_arrived(arrive(), count_characters=int, max_items=1, max_characters=100)
    assert [next(groups), next(groups)] == [[1], [2]]
    with pytest.raises(FileFormatError, match="cut off"):
        next(groups)


def test_a_reader_that_is_left_alone_ends():
    def arrive():
        while True:
            yield "again"

    before = threading.active_count()
    groups = iter_arrived(arrive(), count_characters=len, max_items=3, max_characters=100)
    assert len(next(groups)) <= 3
    groups.close()
    for thread in threading.enumerate()[before:]:
        thread.join(10)
    assert threading.active_count() == before


def test_a_live_stream_gives_the_answers_of_a_file(folder, tmp_path):
    model = folder(SENTIMENT)
    rows = "".join(f"{json.dumps({'text': 'the dog ' * count})}\n" for count in range(1, 60))
    (tmp_path / "x.jsonl").write_text(rows)
    from_file, _ = ask("classification", model, tmp_path / "x.jsonl")
    live, _ = ask("classification", model, stream(rows, is_live=True))
    assert [(row["line"], row["label"]) for row in live] == [(row["line"], row["label"]) for row in from_file]


def test_an_ensemble_says_the_mean_of_its_members(folder, tmp_path):
    models = [folder(SENTIMENT, "a", seed=1), folder(SENTIMENT, "b", seed=2)]
    path = write_rows(tmp_path / "x.jsonl", [{"text": text} for text in TEXTS])
    together, _ = ask("classification", models, path)
    apart = [ask("classification", model, path)[0] for model in models]
    for row, one, other in zip(together, *apart, strict=True):
        mean = {
            name: (one["probabilities"][name] + other["probabilities"][name]) / 2 for name in SENTIMENT.labels
        }
        assert row["probabilities"] == pytest.approx(mean)


def test_patience_and_depth_reach_the_model(folder, tmp_path):
    path = write_rows(tmp_path / "x.jsonl", [{"text": text} for text in TEXTS])
    early = folder(EARLY)
    whole, _ = ask("classification", early, path)
    assert ask("classification", early, path, patience=3)[0] == whole
    assert ask("classification", early, path, depth=1)[0] != whole
    with pytest.raises(InputError, match="answers after its last layer only"):
        ask("classification", folder(SENTIMENT), path, patience=3)


def test_the_test_file_of_glue_is_answered_row_by_row(folder, tmp_path):
    sentiment = SENTIMENT.model_copy(update={"task": "sst-2", "labels": ("negative", "positive")})
    model = folder(sentiment)
    data = tmp_path / "glue" / "SST-2"
    data.mkdir(parents=True)
    (data / "test.tsv").write_text('index\tsentence\n0\tthe "old dog\n1\t\n2\tit was cold\n')
    (data / "dev.tsv").write_text("sentence\tlabel\na ship\t1\n")
    rows, _ = ask("sst-2", model, tmp_path / "glue")
    assert [row["id"] for row in rows] == ["0", "1", "2"]
    assert {row["label"] for row in rows} <= {"negative", "positive"}
    assert ask("SST-2", model, data / "test.tsv")[0] == rows
    assert len(ask("sst-2", model, tmp_path / "glue", split="dev")[0]) == 1
    with pytest.raises(InputError, match=r"--split test: .*dev\.tsv is the split dev; leave it out"):
        ask("sst-2", model, next((tmp_path / "glue").rglob("dev.tsv")), split="test")
    assert [row["line"] for row in ask("sst-2", model, data / "test.tsv", columns={"text": "index"})[0]] == [
        2,
        3,
        4,
    ]
    (data / "test.tsv").write_text("index\tsentence\n0\n")
    with pytest.raises(FileFormatError, match="line 2: wrong number of fields"):
        ask("sst-2", model, data / "test.tsv")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("dev.tsv", "sentence\nthe old dog\nit was cold\n"),  # one's own texts under an official name
        ("test.tsv", "index\tsentence\tlabel\n0\tthe old dog\t-1\n1\tit was cold\t-1\n"),  # as hubs write it
        ("dev.tsv", "sentence\tlabel\nthe old dog\t\nit was cold\tfine\n"),
    ],
)
def test_labels_of_an_official_file_are_neither_needed_nor_read(folder, tmp_path, name, content):
    sentiment = SENTIMENT.model_copy(update={"task": "sst-2", "labels": ("negative", "positive")})
    (tmp_path / name).write_text(content)
    rows, told = ask("sst-2", folder(sentiment), tmp_path / name)
    assert [row["id"] for row in rows] == ["0", "1"]
    assert told.problems == ()


def test_a_table_of_a_published_task_has_the_columns_of_its_files(folder, tmp_path):
    sentiment = SENTIMENT.model_copy(update={"task": "sst-2", "labels": ("negative", "positive")})
    path = write_rows(tmp_path / "own.jsonl", [{"sentence": "a dog"}])
    assert len(ask("sst-2", folder(sentiment), path)[0]) == 1


def test_a_squad_file_is_answered_question_by_question(folder, tmp_path):
    qas = [{"id": str(place), "question": "what ?"} for place in range(3)]
    content = {"data": [{"title": "t", "paragraphs": [{"context": "the old ship left .", "qas": qas}]}]}
    (tmp_path / "mine.json").write_text(json.dumps(content))
    facts = ANSWERS.model_copy(update={"task": "squad-1.1"})
    rows, _ = ask("squad-1.1", folder(facts), tmp_path / "mine.json")
    assert [row["id"] for row in rows] == ["0", "1", "2"]


def test_half_a_surrogate_pair_is_written_as_json_has_it():
    """A context of SQuAD may hold one, and UTF-8 cannot."""
    line = prediction.format_line({"id": "1", "answer": "é\ud800"}, None)
    assert line.isascii()
    assert json.loads(line)["answer"] == "é\ud800"
    assert prediction.format_line({"id": "1", "answer": "é"}, 7) == '{"line": 7, "answer": "é"}\n'


def test_a_number_that_json_has_not_is_null():
    odds = {"id": "é", "odds": [0.5, float("nan"), float("-inf")]}
    assert prediction.format_line(odds, None) == '{"id": "é", "odds": [0.5, null, null]}\n'


@pytest.mark.parametrize(
    ("task", "facts", "message"),
    [
        ("sst-2", SENTIMENT, "answers bad, fine, good, but sst-2 has negative, positive"),
        ("questions", SENTIMENT, "fine-tuned for classification .*; give a model of questions"),
        ("regression", SENTIMENT, "gives one label, and regression asks for a number"),
        ("classification", STARS, "gives a number, and classification asks for one label"),
        ("clasification", SENTIMENT, "no task 'clasification'; did you mean classification?"),
        ("pretraining", SENTIMENT, "fill-mask and sentence-order ask such a model"),
    ],
)
def test_a_model_of_another_task_is_refused(folder, task, facts, message):
    with pytest.raises(InputError, match=message):
        ask(task, folder(facts), stream(""))


def test_a_pretrained_folder_is_refused_by_its_heads(tiny_folder):
    with pytest.raises(InputError, match="no classification head; it has mlm, sop"):
        ask("classification", tiny_folder, stream(""))


def test_places_that_cannot_be_read_or_written_are_refused(folder, tmp_path):
    model = folder(SENTIMENT)
    path = write_rows(tmp_path / "x.jsonl", [{"text": "a"}])
    (tmp_path / "x.pdf").touch()
    with pytest.raises(FileFormatError, match=r"missing.csv: does not exist"):
        ask("classification", model, tmp_path / "missing.csv")
    with pytest.raises(InputError, match="is a folder; give a table"):
        ask("classification", model, tmp_path)
    with pytest.raises(InputError, match=r"x.pdf: a kind of file that is not read"):
        ask("classification", model, tmp_path / "x.pdf")
    with pytest.raises(InputError, match="--split dev: .* is one file"):
        ask("classification", model, path, split="dev")
    with pytest.raises(InputError, match="Parquet cannot be read from a stream"):
        ask("classification", model, stream("x"), format="parquet")
    with pytest.raises(InputError, match="a line is one text, and question, context are needed"):
        ask("questions", folder(ANSWERS, "q"), stream("x"), format="lines")
    for target, message in ((tmp_path, "is a folder"), (path, "is the file that is read")):
        with pytest.raises(InputError, match=message):
            predict("classification", models=[model], source=path, target=target)
    assert json.loads(path.read_text()) == {"text": "a"}
