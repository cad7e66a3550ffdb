"""A task and its data become examples to learn from and examples to be asked about."""

import gzip
import json

import pytest

from albert.errors import AlbertError, FileFormatError, InputError
from albert.tasks.assignment import (
    find_shared,
    find_tables,
    find_teachable,
    keep_some,
    list_tasks,
    open_assignment,
)
from albert.tasks.catalogue import OWN_TASKS
from albert.tasks.examples import Answer, ChoiceExample, SpanExample, TextExample, TokenExample
from tests.tasks.formats import write_table
from tests.tasks.published import TEXTS, write_lines
from tests.tasks.tables import OWN_TABLES, draw_rows, write_rows, write_tables

EXAMPLES = tuple(TextExample(str(place), f"text {place}", None, place % 2) for place in range(100))


def assign(task, data, *, dev=None, dev_share=0.1, **columns):
    return open_assignment(task, data, dev=dev, columns=columns, dev_share=dev_share)


def test_a_file_is_learned_from_and_a_folder_has_both(tmp_path):
    data = write_tables(tmp_path, "classification", num_train=20, num_dev=5)
    assert find_tables(data / "train.jsonl") == (data / "train.jsonl", None)
    assert find_tables(data) == (data / "train.jsonl", data / "dev.jsonl")


@pytest.mark.parametrize("name", ["dev.csv", "validation.csv", "valid.tsv", "val.jsonl", "dev.jsonl.gz"])
def test_the_table_to_be_asked_about_has_one_of_the_usual_names(tmp_path, name):
    (tmp_path / "train.parquet").touch()
    (tmp_path / name).touch()
    (tmp_path / "README.md").touch()
    assert find_tables(tmp_path) == (tmp_path / "train.parquet", tmp_path / name)


def test_two_tables_of_one_name_are_not_guessed_between(tmp_path):
    for name in ("train.csv", "train.jsonl"):
        (tmp_path / name).touch()
    with pytest.raises(AlbertError, match=r"train\.csv and train\.jsonl: which one\?"):
        find_tables(tmp_path)


def test_a_folder_without_a_table_is_refused(tmp_path):
    (tmp_path / "dev.csv").touch()
    with pytest.raises(
        AlbertError, match=r"has no train\.csv, train\.tsv.* give a table, or a folder with one"
    ):
        find_tables(tmp_path)


def test_the_same_examples_are_kept_whatever_the_order_of_the_calls():
    learned, asked = keep_some(EXAMPLES, share=0.2, source="table")
    assert keep_some(EXAMPLES, share=0.2, source="table") == (learned, asked)
    assert len(asked) == 20
    assert sorted((*learned, *asked), key=lambda each: int(each.id)) == list(EXAMPLES)
    assert list(learned) == [each for each in EXAMPLES if each not in asked]  # in the order of the table
    assert {each.label for each in asked} == {0, 1}  # not the first, nor every second one


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_what_is_kept_does_not_depend_on_the_seed_of_a_run(tmp_path, tiny_folder, seed):
    """Else the scores of several seeds would not compare."""
    from albert.tasks.finetune import finetune
    from albert.tasks.finetune_settings import read_finetune_run

    data = write_rows(tmp_path / "table.jsonl", draw_rows("classification", 40, seed=3))
    overrides = ("num_steps=1", "num_evaluations=1", "has_tensorboard=false", f"seed={seed}")
    finetune("classification", model=tiny_folder, data=data, out=tmp_path / "run", overrides=overrides)
    _, facts = read_finetune_run(tmp_path / "run")
    assert facts.examples == assign("classification", data).fingerprint


def test_what_shares_a_context_or_a_text_stays_together():
    questions = tuple(
        SpanExample(f"{context}-{number}", "who?", f"the man of house {context}", ())
        for context in range(40)
        for number in range(5)
    )
    learned, asked = keep_some(questions, share=0.1, source="table")
    assert len(asked) == 20
    assert {each.context for each in learned}.isdisjoint(each.context for each in asked)
    pairs = tuple(TextExample(str(n), f"premise {n // 3}", f"hypothesis {n}", n % 2) for n in range(60))
    learned, asked = keep_some(pairs, share=0.1, source="table")
    assert len(asked) == 6
    assert find_shared(learned, asked) == 0


def test_where_all_share_two_texts_rows_are_parted_all_the_same():
    pairs = tuple(TextExample(str(n), f"text {n // 30}", f"hypothesis {n}", n % 2) for n in range(60))
    learned, asked = keep_some(pairs, share=0.1, source="table")
    assert (len(learned), len(asked)) == (54, 6)
    assert find_shared(learned, asked) == 6


@pytest.mark.parametrize(
    "rows",
    [
        tuple(TokenExample(str(n), ("the", f"dog{n // 2}"), (0, 1)) for n in range(60)),
        tuple(ChoiceExample(str(n), "", f"who is {n // 2}?", ("a", "b"), 0) for n in range(60)),
        tuple(TextExample(str(n), f"question {n}", f"answer {n // 2}", 0) for n in range(60)),
        tuple(TextExample(str(n), f"text {n - 1}", f"text {n}", 0) for n in range(60) if n % 3),
    ],
    ids=["words", "questions", "second texts", "either text"],
)
def test_rows_with_the_same_words_question_or_second_text_stay_together(rows):
    learned, asked = keep_some(rows, share=0.1, source="table")
    assert round(0.1 * len(rows)) <= len(asked) <= 0.2 * len(rows)
    assert find_shared(learned, asked) == 0
    assert find_shared(rows[:1], rows[1:2]) == 1


def test_a_text_that_most_rows_have_ties_none_and_the_others_still_do():
    """As where each premise is tried with the same few hypotheses."""
    pairs = tuple(
        TextExample(str(n), f"premise {n // 3}", f"it is about {('ships', 'dogs', 'men')[n % 3]}", 0)
        for n in range(60)
    )
    learned, asked = keep_some(pairs, share=0.1, source="table")
    assert len(asked) == 6
    assert {each.first for each in learned}.isdisjoint(each.first for each in asked)
    assert find_shared(learned, asked) == 6


def test_where_articles_are_too_large_contexts_stay_together():
    rows = tuple(SpanExample(str(n), "who?", f"house {n // 3}", title=f"town {n // 30}") for n in range(60))
    learned, asked = keep_some(rows, share=0.1, source="table")
    assert (len(asked), find_shared(learned, asked)) == (6, 0)


def write_questions(number, *, is_impossible):
    """Questions on contexts of their own; `is_impossible` says of each place whether it has no answer."""
    return tuple(
        SpanExample(
            str(n), "who?", f"man {n}", () if is_impossible(n) else (Answer("man", 0),), is_impossible(n)
        )
        for n in range(number)
    )


@pytest.mark.parametrize("share", [0.01, 0.1])
@pytest.mark.parametrize("is_rare_impossible", [True, False])
def test_questions_of_both_kinds_are_kept(share, is_rare_impossible):
    """By one kind alone the best threshold is to answer nothing, or everything."""
    for first in range(40):
        rare = {first, first + 50}
        questions = write_questions(100, is_impossible=lambda n, rare=rare: (n in rare) == is_rare_impossible)
        learned, asked = keep_some(questions, share=share, source="table")
        assert {each.is_impossible for each in asked} == {True, False}
        assert {each.is_impossible for each in learned} == {True, False}
        assert len(asked) == max(2, round(share * 100))
        assert find_shared(learned, asked) == 0


def test_the_only_question_without_an_answer_is_kept_by_chance_alone():
    """Else none would be left to learn from."""
    num_kept = 0
    for only in range(100):
        questions = write_questions(100, is_impossible=lambda n, only=only: n == only)
        num_kept += questions[only] in keep_some(questions, share=0.1, source="table")[1]
    assert num_kept == 10


@pytest.mark.parametrize(("is_impossible", "said"), [(True, "none"), (False, "all")])
def test_questions_of_one_kind_to_be_asked_about_are_told(tmp_path, is_impossible, said):
    possible = draw_rows("questions", 10, seed=1)
    impossible = [
        row | {"answers": {"text": [], "answer_start": []}} for row in draw_rows("questions", 10, seed=2)
    ]
    data = write_rows(tmp_path / "train.jsonl", possible + impossible)
    dev = write_rows(tmp_path / "dev.jsonl", impossible if is_impossible else possible)
    (told,) = assign("questions", data, dev=dev).problems
    assert f"dev.jsonl: {said} of 10 questions have an answer, so that no threshold can be chosen" in told
    assert (
        assign("questions", data, dev=write_rows(tmp_path / "x.jsonl", possible + impossible)).problems == ()
    )


@pytest.mark.parametrize("num_texts", [1, 2])
def test_something_is_left_to_learn_from(num_texts):
    rows = tuple(TextExample(str(n), f"text {n % num_texts}", None, n % 2) for n in range(10))
    learned, asked = keep_some(rows, share=0.6, source="table")
    assert (len(learned), len(asked)) == ((4, 6) if num_texts == 1 else (5, 5))
    assert find_shared(learned, asked) == (6 if num_texts == 1 else 0)


@pytest.mark.parametrize(("number", "share"), [(3, 0.1), (10, 0.99), (1, 0.5)])
def test_too_few_to_keep_some_is_refused_with_the_cure(number, share):
    with pytest.raises(AlbertError, match=rf"of {number} examples, \d+% cannot be kept .* with --dev"):
        keep_some(EXAMPLES[:number], share=share, source="table")


@pytest.mark.parametrize("task", OWN_TABLES)
def test_own_tables_say_what_they_teach(tmp_path, task):
    found = assign(task, write_tables(tmp_path, task, num_train=30, num_dev=10))
    assert (len(found.train), len(found.dev)) == (30, 10)
    assert found.facts.task == task
    assert bool(found.facts.labels) == (task in ("classification", "multilabel", "words"))
    assert found.problems == ()


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_a_column_that_is_named_must_be_there(tmp_path, format):
    """A score of another name is none: pairs that differ would be taught as meaning the same."""
    rows = [{"text": f"the dog {n}", "b": f"a ship {n}", "similarity": float(n % 5)} for n in range(20)]
    path = write_table(tmp_path / f"pairs.{format}", rows)
    said = r"no column 'simillarity', which columns\.score names; did you mean similarity\?$"
    with pytest.raises(FileFormatError, match=said):
        assign("embedding", path, text_pair="b", score="simillarity")
    said = r"no column 'zzz', which columns\.text_pair names; there are text, b, similarity; name one"
    with pytest.raises(FileFormatError, match=said):
        assign("embedding", path, dev=path, text_pair="zzz")
    assert assign("embedding", path, text_pair="b", score="similarity").train[0].label is not None
    unnamed = assign("embedding", path, text_pair="b")  # nobody said that there are numbers
    assert unnamed.train[0].label is None


def test_a_place_of_answers_that_is_named_must_be_there(tmp_path):
    rows = [
        {"question": "where ?", "context": f"in Rome {n}", "answers": "Rome", "begin": 3} for n in range(20)
    ]
    path = write_rows(tmp_path / "asked.csv", rows)
    assign("questions", path)
    with pytest.raises(
        FileFormatError, match=r"no column 'begins', which columns\.answer_start names; did you"
    ):
        assign("questions", path, answer_start="begins")


def test_a_column_that_is_named_may_be_in_one_of_two_tables(tmp_path):
    """Single texts to learn from, and pairs with numbers to be asked about; of JSONL, in any row."""
    singles = write_rows(tmp_path / "singles.csv", [{"text": f"the dog {n}"} for n in range(20)])
    pairs = [{"text": f"the dog {n}", "b": f"a ship {n}", "how": n / 4} for n in range(5)]
    dev = write_rows(tmp_path / "pairs.jsonl", pairs)
    assert assign("embedding", singles, dev=dev, text_pair="b", score="how").dev[4].label == 1.0
    first, *others = ({"question": "where ?", "context": "in Rome", "answers": "Rome"} for _ in range(20))
    late = write_rows(tmp_path / "late.jsonl", [first, *(row | {"begin": 3} for row in others)])
    assign("questions", late, answer_start="begin")


def test_questions_without_answers_make_another_task_of_it(tmp_path):
    rows = draw_rows("questions", 30, seed=1)
    assert not assign("questions", write_rows(tmp_path / "a.jsonl", rows)).facts.has_impossible
    rows[2]["answers"] = {"text": [], "answer_start": []}
    assert assign("questions", write_rows(tmp_path / "b.jsonl", rows)).facts.has_impossible


def test_a_table_may_be_compressed_and_dev_lie_elsewhere(tmp_path):
    rows = draw_rows("classification", 20, seed=1)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "train.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    dev = write_rows(tmp_path / "other.csv", rows[:5])
    found = assign("classification", tmp_path / "train.jsonl.gz", dev=dev)
    assert (len(found.train), len(found.dev)) == (20, 5)


def test_a_published_task_is_read_from_its_files(tmp_path):
    lines = [("sentence", "label"), *((text, place % 2) for place, text in enumerate(TEXTS))]
    write_lines(tmp_path / "SST-2" / "train.tsv", lines)
    write_lines(tmp_path / "SST-2" / "dev.tsv", lines[:5])
    found = assign("SST-2", tmp_path)
    assert (len(found.train), len(found.dev)) == (12, 4)
    assert found.facts.labels == ("negative", "positive")
    assert found.facts.metrics == ("accuracy",)


def test_a_hash_knows_the_examples_again_and_tells_others_apart(tmp_path):
    rows = draw_rows("classification", 20, seed=1)
    dev = write_rows(tmp_path / "dev.jsonl", rows[:5])
    first = assign("classification", write_rows(tmp_path / "a.jsonl", rows), dev=dev)
    assert assign("classification", write_rows(tmp_path / "b.jsonl", rows), dev=dev).fingerprint == (
        first.fingerprint
    )
    others = [{**rows[0], "text": "the dog"}, *rows[1:]]
    assert assign("classification", write_rows(tmp_path / "a.jsonl", others), dev=dev).fingerprint != (
        first.fingerprint
    )


def test_every_task_that_has_examples_can_be_taught():
    teachable = [name for name in list_tasks() if name != "ax"]
    assert {"sst-2", "squad-2.0", "race", *OWN_TASKS} <= set(teachable)
    assert [find_teachable(name.upper()).name for name in teachable] == teachable


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ax", "ax has no examples to learn from; fine-tune mnli and evaluate that model"),
        ("diagnostic", "ax has no examples to learn from"),
        ("question", "no task 'question'; did you mean questions?"),
        ("sst2", "no task 'sst2'; did you mean sst-2?"),
        ("xyz", "no task 'xyz'; there are cola, sst-2"),
    ],
)
def test_what_cannot_be_taught_is_refused_with_the_nearest(tmp_path, name, said):
    with pytest.raises(InputError, match=said):
        assign(name, tmp_path)
