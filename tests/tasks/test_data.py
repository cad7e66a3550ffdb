"""Opening the train and dev examples of a task, and the majority baseline."""

import pytest

from albert.errors import AlbertError, FileFormatError
from albert.tasks.catalogue import build_task
from albert.tasks.data import TaskData, open_task_data
from albert.tasks.question_answering import Answer, QuestionAnsweringConfig, SpanExample
from tests.tasks.formats import write_table
from tests.tasks.tables import OWN_TABLES, draw_rows, write_rows, write_tables

ROWS = draw_rows("classification", 20, seed=1)
NO_ANSWER: dict[str, list[str]] = {"text": [], "answer_start": []}


def open_data(task, data, *, dev=None, dev_share=0.1, **columns):
    return open_task_data(task, data, dev=dev, columns=columns, dev_share=dev_share)


@pytest.mark.parametrize("task", OWN_TABLES)
def test_a_folder_of_tables_gives_the_examples_and_the_config(tmp_path, task):
    found = open_data(task, write_tables(tmp_path, task, num_train=30, num_dev=10))
    assert (len(found.train), len(found.dev), found.problems) == (30, 10, ())
    assert found.config.task == task
    assert bool(found.config.labels) == (task in ("classification", "multilabel", "token-classification"))


def test_a_single_table_is_split(tmp_path):
    data = write_tables(tmp_path, "classification", num_train=20, num_dev=5)
    found = open_data("classification", data / "train.jsonl", dev_share=0.2)
    assert len(found.train) + len(found.dev) == 20
    assert f"{len(found.dev)} of 20" in found.problems[0]


@pytest.mark.parametrize("name", ["dev.csv", "validation.csv", "valid.jsonl", "val.parquet", "dev.tsv"])
def test_the_dev_table_of_a_folder_has_one_of_the_usual_names(tmp_path, name):
    write_table(tmp_path / "train.parquet", ROWS)
    write_table(tmp_path / name, ROWS[:5])
    (tmp_path / "README.md").touch()
    found = open_data("classification", tmp_path)
    assert (len(found.train), len(found.dev)) == (20, 5)


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (("train.csv", "train.jsonl"), r"train\.csv and train\.jsonl"),
        (("dev.csv",), r"train\.csv, train\.tsv"),
    ],
)
def test_a_folder_without_one_train_table_is_rejected(tmp_path, names, error):
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(FileFormatError, match=error):
        open_data("classification", tmp_path)


def test_wrong_paths_and_options_are_rejected(tmp_path):
    data = write_rows(tmp_path / "train.jsonl", ROWS)
    for options, error in (
        ({"data": tmp_path / "no.csv"}, r"no\.csv"),
        ({"data": data, "dev": tmp_path / "no.csv"}, r"no\.csv.*--dev"),
        ({"data": data, "dev": tmp_path}, "--dev"),
        ({"data": data, "label_kind": "several"}, "columns.label_kind .*several.* multilabel"),
        ({"task": "sst-2", "data": tmp_path, "text": "a"}, "columns.*sst-2"),
        ({"task": "sst-2", "data": tmp_path, "dev": data}, "--dev.*sst-2"),
    ):
        with pytest.raises(AlbertError, match=error):
            open_data(**{"task": "classification", **options})


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_a_named_optional_column_must_exist(tmp_path, format):
    """Without its scores, pairs that differ would be trained on as if they meant the same."""
    rows = [{"text": f"the dog {n}", "b": f"a ship {n}", "similarity": float(n % 5)} for n in range(20)]
    path = write_table(tmp_path / f"pairs.{format}", rows)
    with pytest.raises(FileFormatError, match=r"'simillarity'.*columns\.score.* similarity"):
        open_data("embedding", path, text_pair="b", score="simillarity")
    with pytest.raises(FileFormatError, match=r"'zzz'.*columns\.text_pair.* text, b, similarity"):
        open_data("embedding", path, dev=path, text_pair="zzz")
    assert open_data("embedding", path, text_pair="b", score="similarity").train[0].label is not None
    assert open_data("embedding", path, text_pair="b").train[0].label is None


def test_questions_without_an_answer_are_found_in_the_training_table(tmp_path):
    rows = draw_rows("question-answering", 30, seed=1)
    assert not open_data("question-answering", write_rows(tmp_path / "a.jsonl", rows)).config.has_impossible
    rows[2]["answers"] = NO_ANSWER
    assert open_data("question-answering", write_rows(tmp_path / "b.jsonl", rows)).config.has_impossible


@pytest.mark.parametrize(("is_impossible", "which"), [(True, "none"), (False, "all")])
def test_a_one_sided_dev_set_of_questions_is_reported(tmp_path, is_impossible, which):
    possible = draw_rows("question-answering", 10, seed=1)
    impossible = [row | {"answers": NO_ANSWER} for row in draw_rows("question-answering", 10, seed=2)]
    data = write_rows(tmp_path / "train.jsonl", possible + impossible)
    dev = write_rows(tmp_path / "dev.jsonl", impossible if is_impossible else possible)
    (warning,) = open_data("question-answering", data, dev=dev).problems
    assert f"dev.jsonl: {which} of 10 questions" in warning
    both = write_rows(tmp_path / "both.jsonl", possible + impossible)
    assert open_data("question-answering", data, dev=both).problems == ()


def test_the_fingerprint_depends_on_the_examples_alone(tmp_path):
    dev = write_rows(tmp_path / "dev.jsonl", ROWS[:5])

    def identify(name, rows):
        return open_data("classification", write_rows(tmp_path / name, rows), dev=dev).fingerprint

    assert identify("a.jsonl", ROWS) == identify("b.jsonl", ROWS)
    assert identify("a.jsonl", ROWS) != identify("a.jsonl", [{**ROWS[0], "text": "the dog"}, *ROWS[1:]])


@pytest.mark.parametrize("task", ["token-classification", "multiple-choice"])
def test_task_types_without_bag_of_words_have_a_majority_baseline(tmp_path, task):
    found = open_data(task, write_tables(tmp_path, task))
    assert list(build_task(found.config).list_baselines()) == ["majority"]
    assert 0 <= found.score_majority() < 90


@pytest.mark.parametrize(("has_impossible", "score"), [(True, 50.0), (False, 0.0)])
def test_the_majority_baseline_of_questions_answers_none(has_impossible, score):
    context = "In the town Anna saw a ship ."
    examples = (
        SpanExample("1", "Who saw a ship ?", context, (Answer("Anna", context.index("Anna")),)),
        SpanExample("2", "When did it snow ?", context, is_impossible=True),
    )
    config = QuestionAnsweringConfig(task="question-answering", has_impossible=has_impossible)
    found = TaskData(config, examples, examples, ())
    assert found.score_majority() == score
    assert list(build_task(config).list_baselines()) == (["majority"] if has_impossible else [])
