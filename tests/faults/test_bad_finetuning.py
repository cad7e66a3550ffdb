"""Bad tables and bad models for fine-tuning: one line with the place and the cure, or a counted skip.

Nothing half-written: what is refused leaves no folder, and a run without room for its model goes on later.
"""

import json
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from albert.settings import apply_overrides
from albert.tasks.assignment import Assignment, open_assignment
from albert.tasks.task_facts import build_kind
from albert.text.folder import load_tokenizer
from tests.conftest import WORDS, Outcome, RunAlbert, read_tree, write_vocabulary
from tests.tasks.formats import FORMATS, list_settings, name_line, write_table
from tests.tasks.tables import OWN_TABLES, draw_rows, write_rows, write_tables

FAST = ("num_steps=2", "batch_size=4", "num_evaluations=1", "has_tensorboard=false")
NUM_ROWS = {"train": 30, "dev": 12}
PLACE = 3  # of the bad row
Row = dict[str, Any]
Finetune = Callable[..., Outcome]


@pytest.fixture
def finetune(run_albert: RunAlbert, tiny_folder: Path, tmp_path: Path) -> Finetune:
    """`albert finetune TASK --data DATA …` into tmp_path/run."""

    def run(task: str, data: Path, *words: object, model: object = tiny_folder) -> Outcome:
        common = ("--model", model, "--data", data, "--out", tmp_path / "run")
        return run_albert("finetune", task, *common, *FAST, *words)

    return run


@pytest.fixture
def refuse(finetune, tmp_path) -> Callable[..., str]:
    """The same, after checking that it was refused in one line and has left nothing."""

    def run(task: str, data: Path, *words: object, **options: Any) -> str:
        before = read_tree(tmp_path)
        error: str = finetune(task, data, *words, **options).error
        assert read_tree(tmp_path) == before
        return error

    return run


@dataclass(frozen=True)
class Bad:
    """One row of a split changed, and what must be said of it: `{line}` is its place, `{unit}` its kind."""

    name: str
    split: str
    task: str
    change: Callable[[Row], Row]
    said: str


def put(**values: Any) -> Callable[[Row], Row]:
    return lambda row: {**row, **values}


def write_split(folder: Path, bad: Bad, format: str) -> Path:
    """train.FORMAT and dev.FORMAT, one of them with a bad row."""
    for split, seed in (("train", 1), ("dev", 2)):
        rows = draw_rows(bad.task, NUM_ROWS[split], seed=seed)
        if split == bad.split:
            rows[PLACE] = bad.change(rows[PLACE])
        write_table(folder / f"{split}.{format}", rows)
    return folder


def fill(said: str, format: str) -> str:
    return said.format(line=name_line(format, PLACE), unit=name_line(format, PLACE).split()[0])


def named(bad: Bad) -> str:
    return f"{bad.name}, {bad.task}, {bad.split}"


NO_ANSWER: dict[str, list[Any]] = {"text": [], "answer_start": []}
NOWHERE = {"text": ["zebra"], "answer_start": [4]}
ELSEWHERE = {"text": ["the"], "answer_start": [5]}

REFUSED = [
    Bad("a label that train lacks", "dev", "classification", put(label="zebra"),
        "{line}: the label 'zebra' is unknown (known: no, yes); mend it, or take it out"),
    Bad("a label in capitals", "dev", "classification", put(label="YES"),
        "{line}: the label 'YES' is unknown (known: no, yes; did you mean 'yes'?); mend it"),
    Bad("one label of several that train lacks", "dev", "multilabel", put(label=["big", "zebra"]),
        "{line}: the label 'zebra' is unknown (known: big, new, old, small); mend it, or take it out"),
    Bad("a label of a word that train lacks", "dev", "words", put(words=["dog"], labels=["I-X"]),
        "{line}: the label 'I-X' is unknown (known: B-THING, O); mend it, or take it out"),
    Bad("no answer, where train has one to all", "dev", "questions", put(answers=NO_ANSWER),
        "{line}: a question without an answer (those to learn from all have one); mend it, or take it out"),
]  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("bad", REFUSED, ids=named)
def test_what_cannot_be_learned_is_refused_by_its_line(refuse, tmp_path, bad, format):
    data = write_split(tmp_path / "data", bad, format)
    error = refuse(bad.task, data, *list_settings(bad.task, format))
    assert f"dev.{format}: {fill(bad.said, format)}" in error


SKIPPED = "left out 1 {unit}: "
COUNTED = [
    *(
        Bad("an empty text", split, task, put(text=" "), SKIPPED + "an empty text (first in {line})")
        for task in ("classification", "multilabel", "regression")
        for split in ("train", "dev")
    ),
    Bad("no words", "train", "words", put(words=[], labels=[]), SKIPPED + "an empty text (first in {line})"),
    Bad("an empty context", "train", "questions", put(context=" "),
        SKIPPED + "an empty question or context (first in {line})"),
    Bad("an empty question", "dev", "questions", put(question=""),
        SKIPPED + "an empty question or context (first in {line})"),
    Bad("nothing to choose by", "train", "choice", put(passage="", question=" "),
        SKIPPED + "an empty passage and question (first in {line})"),
    Bad("an empty option", "train", "choice", lambda row: {**row, "options": ["", *row["options"][1:]]},
        "1 {unit} with an empty option (first in {line})"),
    Bad("no such option", "dev", "choice", put(label="F"),
        SKIPPED + "a label that is no option (first in {line}: 'F' of 4: letters from A, numbers from 0)"),
    Bad("no label", "train", "classification", put(label=None), SKIPPED + "no label in column 'label' ("),
    Bad("no label", "dev", "choice", put(label=None), SKIPPED + "no label in column 'label' ("),
    Bad("too few labels", "train", "words", put(labels=["O"]), SKIPPED + "not one label for each word ("),
    Bad("an answer that is nowhere", "train", "questions", put(answers=NOWHERE),
        "1 {unit} with an answer that is nowhere in the context (first in {line}: question"),
    Bad("an answer that is elsewhere", "dev", "questions", put(answers=ELSEWHERE),
        "not at its place in the context, but elsewhere in it (first in {line}: question"),
    *(
        Bad(f"{number} for a number", split, "regression", put(label=number),
            SKIPPED + "no number in column 'label' (first in {line}: it holds ")
        for number in (float("nan"), float("inf"), None)
        for split in ("train", "dev")
    ),
    Bad("a number that squares to infinity", "train", "regression", put(label=1e30),
        SKIPPED + "a number in column 'label' that is too large (first in {line}: 1e+30; divide them)"),
]  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("bad", COUNTED, ids=named)
def test_a_bad_row_is_counted_with_its_line(tmp_path, bad, format):
    found = assign(bad.task, write_split(tmp_path / "data", bad, format), format)
    said = fill(bad.said, format)
    assert [text for text in found.problems if f"{bad.split}.{format}: " in text and said in text]
    numbers = {"train": len(found.train), "dev": len(found.dev)}
    is_left_out = bad.said.startswith(SKIPPED)
    assert numbers == {**NUM_ROWS, bad.split: NUM_ROWS[bad.split] - is_left_out}


def assign(task: str, data: Path, format: str = "jsonl", *words: str) -> Assignment:
    columns = apply_overrides({}, [*list_settings(task, format), *words]).get("columns", {})
    return open_assignment(task, data, dev=None, columns=columns, dev_share=0.1)


def test_what_was_counted_is_told_and_the_model_is_written(finetune, tmp_path):
    bad = Bad("", "train", "questions", put(answers=NOWHERE), "")
    outcome = finetune("questions", write_split(tmp_path / "data", bad, "jsonl"))
    assert outcome.code == 0, outcome.err
    assert "1 line with an answer that is nowhere in the context (first in line 4" in outcome.err
    assert "left out 1 of 30 sequences: nothing is to be learned from them" in outcome.err
    assert (tmp_path / "run" / "model" / "task.json").exists()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("task", OWN_TABLES)
def test_a_table_of_which_most_is_empty_is_refused(refuse, tmp_path, task, format):
    names = {"words": ("words", "labels"), "questions": ("context",), "choice": ("passage", "question")}
    nothing: Any = [] if task == "words" else ""
    blank = dict.fromkeys(names.get(task, ("text",)), nothing)
    rows = draw_rows(task, 20, seed=1)
    data = write_table(
        tmp_path / f"table.{format}", [rows[0], *({**row, **blank} for row in rows[1:5]), *rows]
    )
    error = refuse(task, data, *list_settings(task, format))
    unit = name_line(format, 0).split()[0]
    assert f"4 of 25 {unit}s cannot be read, and at most 10% may be left out: an empty " in error
    assert f"(first in {name_line(format, 1)})" in error


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("task", "column"),
    [
        ("classification", "text"), ("classification", "label"), ("multilabel", "label"),
        ("regression", "text"), ("words", "labels"), ("questions", "context"), ("questions", "answers"),
        ("choice", "question"),
    ],
)  # fmt: skip
def test_a_missing_column_is_named_with_those_there_are(refuse, tmp_path, task, column, format):
    rows = [{key: row[key] for key in row if key != column} for row in draw_rows(task, 20, seed=1)]
    data = write_table(tmp_path / f"table.{format}", rows)
    error = refuse(task, data, *list_settings(task, format))
    assert f"table.{format}: no column '{column}'" in error
    assert f"'{next(iter(rows[0]))}'" in error
    assert "name the column that is meant, as in columns.text=review" in error


def test_a_table_to_be_asked_about_must_be_of_the_same_kind(refuse, tmp_path):
    data = write_tables(tmp_path / "data", "classification", num_train=20)
    other = write_rows(tmp_path / "other.jsonl", draw_rows("questions", 5, seed=1))
    error = refuse("classification", data / "train.jsonl", "--dev", other)
    assert "other.jsonl: no column 'text', 'label' but 'id', 'question', 'context', 'answers'" in error


NOT_UTF8 = "bytes that are not UTF-8 (first in line 4: 0xe9 behind "
BROKEN = [
    ("table.jsonl", b'{"text": "the dog', "not valid JSON (first in line 4: Unterminated string"),
    ("table.jsonl", b'["the dog", "no"]', "no JSON object (first in line 4: it is a list)"),
    ("table.jsonl", b'{"text": "the dog"}', "no 'label' (first in line 4: it has text)"),
    ("table.jsonl", b'{"text": "caf\xe9", "label": "no"}', NOT_UTF8 + "13 characters; save it as UTF-8)"),
    ("table.jsonl", b'{"text": "a \\ud83d", "label": "no"}', "half a character (first in line 4: \\ud83d"),
    ("table.csv", b"the dog", "wrong number of fields (first in line 4: 1, and 2 columns)"),
    ("table.csv", b'a "b" c,"no"x', "not valid CSV (first in line 4"),
    ("table.csv", b"caf\xe9,no", NOT_UTF8 + "3 characters"),
    ("table.tsv", b"the\tdog\tno", "wrong number of fields (first in line 4: 3, and 2 columns)"),
    ("table.tsv", b"caf\xe9\tno", NOT_UTF8 + "3 characters"),
]


@pytest.mark.parametrize(("name", "line", "said"), BROKEN)
def test_a_broken_line_is_counted_and_many_are_refused(refuse, tmp_path, name, line, said):
    data = write_table(tmp_path / name, draw_rows("classification", 40, seed=1))
    lines = data.read_bytes().splitlines()
    data.write_bytes(b"\n".join([*lines[:3], line, *lines[3:]]) + b"\n")
    assert any(
        f"{name}: left out 1 line: {said}" in problem for problem in assign("classification", data).problems
    )
    data.write_bytes(b"\n".join([*lines[:3], *[line] * 6, *lines[3:]]) + b"\n")
    assert f"{name}: 6 of 46 lines cannot be read, and at most 10% may be left out: " in refuse(
        "classification", data
    )


def test_a_quote_that_is_never_closed_is_found_at_its_line(refuse, tmp_path):
    data = write_table(tmp_path / "table.csv", draw_rows("classification", 20, seed=1))
    lines = data.read_text().splitlines()
    data.write_text("\n".join([*lines[:5], '"the dog,no', *lines[5:]]))
    assert "table.csv: line 6: a quote is opened and never closed" in refuse("classification", data)


@pytest.mark.parametrize("keep", [0, 40, -40])
def test_a_cut_parquet_file_is_refused(refuse, tmp_path, keep):
    data = write_table(tmp_path / "table.parquet", draw_rows("classification", 20, seed=1))
    data.write_bytes(data.read_bytes()[:keep])
    assert "table.parquet: no whole Parquet file (" in refuse("classification", data)


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl", "parquet"])
def test_an_empty_table_is_refused(refuse, tmp_path, format):
    said = {
        "jsonl": "holds no examples; check the path",
        "parquet": "no whole Parquet file (Parquet file size",
    }
    (tmp_path / f"table.{format}").touch()
    expected = said.get(format, "empty; its first line should name the columns")
    assert f"table.{format}: {expected}" in refuse("classification", tmp_path / f"table.{format}")


def test_what_is_no_table_is_refused(refuse, tmp_path):
    data = write_tables(tmp_path / "data", "classification", num_train=20)
    (tmp_path / "folder" / "train.csv").mkdir(parents=True)
    train, folder = data / "train.jsonl", tmp_path / "folder"
    task = "classification"
    assert "nowhere.csv: does not exist; give a table, or a folder with" in refuse(
        task, tmp_path / "nowhere.csv"
    )
    assert "train.csv: is a folder, and a table is needed; give a file" in refuse(task, folder)
    assert f"{folder}: is a folder, and a table is needed; give a file with --dev" in refuse(
        task, train, "--dev", folder
    )
    assert "nowhere.csv: does not exist; give a table with --dev" in refuse(
        task, train, "--dev", tmp_path / "nowhere.csv"
    )
    (folder / "train.csv").rmdir()
    assert "folder: has no train.csv, train.tsv, train.jsonl" in refuse(task, folder)
    assert "table.xlsx: a kind of file that is not read; albert reads csv, tsv" in refuse(
        task, shutil.copy(train, tmp_path / "table.xlsx")
    )
    shutil.copy(train, data / "train.csv")
    assert "train.csv and train.jsonl: which one?" in refuse(task, data)


def test_labels_that_tell_nothing_apart_are_refused(refuse, tmp_path):
    def write(name: str, task: str, **values: Any) -> Path:
        return write_rows(tmp_path / name, [{**row, **values} for row in draw_rows(task, 20, seed=1)])

    one = refuse("classification", write("one.jsonl", "classification", label="x"))
    assert "one.jsonl: has only the label 'x', and at least 2 are needed; check the column" in one
    none = refuse("multilabel", write("none.jsonl", "multilabel", label=[]))
    assert "none.jsonl: has no label, and at least 1 are needed; check the column" in none
    same = refuse("regression", write("same.jsonl", "regression", label=3))
    assert "same.jsonl: every number of its 20 examples is 3.0, and at least 2 different ones" in same
    silent = refuse("questions", write("silent.jsonl", "questions", answers=NO_ANSWER))
    assert "silent.jsonl: none of its 20 questions has an answer; check the column of the answers" in silent
    good = write("good.jsonl", "regression", label=1)
    rows = draw_rows("regression", 20, seed=1)
    error = refuse("regression", write_rows(tmp_path / "train.jsonl", rows), "--dev", good)
    assert "good.jsonl: every number of its 20 examples is 1.0" in error  # the best step would be the first


def test_answers_that_are_all_misplaced_are_refused(finetune, tmp_path):
    rows = [{**row, "answers": NOWHERE} for row in draw_rows("questions", 20, seed=1)]
    outcome = finetune("questions", write_rows(tmp_path / "table.jsonl", rows))
    assert outcome.code == 2
    assert "none of the 18 examples of questions has an answer that can be learned" in outcome.err
    assert not (tmp_path / "run").exists()


def test_labels_that_differ_in_capitals_are_told_and_spaces_are_none(tmp_path):
    """' no ' is no label of its own in any format; 'NO' may be, and is taken for one with a word about it."""
    rows = draw_rows("classification", 40, seed=1)
    rows[0]["label"], rows[1]["label"] = f" {rows[0]['label']} ", rows[1]["label"].upper()
    found = assign("classification", write_rows(tmp_path / "table.csv", rows))
    upper, lower = rows[1]["label"], rows[1]["label"].lower()
    assert sorted(found.facts.labels) == sorted(("no", "yes", upper))
    said = f"'{upper}' and '{lower}' are two labels, and differ only in capitals or spaces"
    assert any(said in problem for problem in found.problems)


def test_a_label_without_an_example_left_to_learn_it_is_told(tmp_path):
    rows = draw_rows("classification", 20, seed=1)
    rows.append({"text": "  ", "label": "rare"})
    found = assign("classification", write_rows(tmp_path / "table.jsonl", rows))
    assert any("no example is left to learn the label 'rare' from" in problem for problem in found.problems)


def test_an_empty_cell_is_no_label_called_nan(tmp_path):
    """As programs write a missing number into a column of numbers."""
    rows = [{"text": "the dog", "label": float(place % 2)} for place in range(20)]
    rows[4]["label"] = float("nan")
    found = assign("classification", write_table(tmp_path / "table.parquet", rows))
    assert found.facts.labels == ("0", "1")
    assert any("no label in column 'label' (first in row 5: it holds nan)" in each for each in found.problems)


def test_an_id_that_occurs_twice_is_told(tmp_path):
    rows = [{**row, "id": str(place % 10)} for place, row in enumerate(draw_rows("questions", 20, seed=1))]
    data = write_rows(tmp_path / "table.jsonl", rows)
    found = assign("questions", data, "jsonl", "columns.id=id")
    assert any(
        "10 lines with an id that occurs before (first in line 11: '0')" in each for each in found.problems
    )
    assert assign("questions", data).problems == found.problems[1:]  # ids that are not asked for are nobody's


def test_large_numbers_are_told_and_the_table_of_training_asked_again(tmp_path):
    rows = [{**row, "label": 1e5 * row["label"]} for row in draw_rows("regression", 20, seed=1)]
    data = write_rows(tmp_path / "table.jsonl", rows)
    found = open_assignment("regression", data, dev=data, columns={}, dev_share=0.1)
    assert any("numbers reach 350,000; a model learns a few units best" in each for each in found.problems)
    assert any("is learned from as well" in each for each in found.problems)


@pytest.mark.parametrize(
    ("task", "words", "said"),
    [
        ("clasification", (), "no task 'clasification'; did you mean classification?"),
        ("ax", (), "ax has no examples to learn from; fine-tune mnli"),
        ("sst-2", ("columns.text=a",), "sst-2 has files of its own; leave columns out"),
        ("sst-2", ("--dev", "dev.csv"), "sst-2 has files of its own; leave --dev out"),
        ("sst-2", (), "SST-2/train.tsv: not there"),
        ("classification", ("columns.txt=a",), "unknown key txt; did you mean text?"),
        ("classification", ("columns.text=5",), "text is 5: input should be a valid string"),
        (
            "classification",
            ("columns.label_kind=several",),
            "where it is one; leave it out, or ask for multilabel",
        ),
        ("classification", ("columns=5",), "columns is 5: input should be an object"),
        ("classification", ("num_step=5",), "unknown key num_step; did you mean num_steps?"),
        ("classification", ("max_length=4",), "max_length is 4: input should be greater than or equal to 8"),
        ("classification", ("--recipe", "smal"), "no recipe 'smal'; did you mean small?"),
        ("classification", ("--seeds", "0"), "--seeds is 0; at least 1"),
        (
            "classification",
            ("--seeds", "2", "seed=3"),
            "seed=3 and --seeds: leave seed=3 out, and give --seed",
        ),
        ("classification", ("--seed", "2", "seed=3"), "seed=3 and --seed: leave seed=3 out, and give --seed"),
        ("regression", ("class_weights=balanced",), "class_weights=balanced for regression: only classes"),
        ("words", ("has_exits=true",), "only texts that get labels or a number can be answered early"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(refuse, tmp_path, task, words, said):
    table = task if task in OWN_TABLES else "classification"
    assert said in refuse(task, write_tables(tmp_path / "data", table, num_train=20), *words)


def test_weights_are_for_classes(refuse, tmp_path):
    data = write_tables(tmp_path / "data", "choice", num_train=20)
    assert "class_weights=balanced for choice" in refuse("choice", data, "class_weights=balanced")


@pytest.mark.parametrize("words", [(), ("--seeds", "2")])
def test_a_folder_of_other_things_is_left_alone(refuse, tmp_path, words):
    data = write_tables(tmp_path / "data", "classification", num_train=20)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")
    assert "run: holds thesis.txt, which is no " in refuse("classification", data, *words)
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").write_text("mine")
    assert "run: is a file, and a folder is to be written there" in refuse("classification", data, *words)


@pytest.fixture
def data(tmp_path) -> Path:
    return write_tables(tmp_path / "data", "classification", num_train=30, num_dev=6)


def test_a_model_folder_without_its_parts_is_refused(refuse, data, tiny_copy):
    assert "does not exist; check the path" in refuse("classification", data, model=data / "nowhere")
    for name in ("vocab.txt", "tokenizer.json"):
        (tiny_copy / name).unlink()
    assert "model: has no vocabulary (" in refuse("classification", data, model=tiny_copy)
    (tiny_copy / "model.safetensors").unlink()
    assert "model: no model.safetensors and no pytorch_model.bin; is it a model folder?" in refuse(
        "classification", data, model=tiny_copy
    )


def test_a_longer_vocabulary_is_not_the_models(refuse, data, tiny_copy):
    write_vocabulary(tiny_copy / "vocab.txt", [*WORDS, "zebra"])
    error = refuse("classification", data, model=tiny_copy)
    assert f"model: the vocabulary has {len(WORDS) + 1} pieces and the embedding table {len(WORDS)}" in error
    assert "use the vocabulary that the model was trained with" in error


def test_an_exchanged_vocabulary_of_the_same_size_is_seen_by_its_other_file(refuse, data, tiny_copy):
    write_vocabulary(tiny_copy / "vocab.txt", [*WORDS[:5], *(f"{word}x" for word in WORDS[5:])])
    error = refuse("classification", data, model=tiny_copy)
    assert f"{len(WORDS) - 5} of {len(WORDS)} pieces in vocab.txt are others than in tokenizer.json" in error


def test_a_vocabulary_of_another_language_is_seen_by_what_it_does_not_know(
    finetune, data, tiny_copy, tmp_path
):
    write_vocabulary(tiny_copy / "vocab.txt", [*WORDS[:5], *(f"{word}x" for word in WORDS[5:])])
    (tiny_copy / "tokenizer.json").unlink()
    outcome = finetune("classification", data, model=tiny_copy)
    assert outcome.code == 2
    assert "100% of the pieces that the examples are cut into are unknown to the model's" in outcome.err
    assert "give a model of this language and script, or check the column of the text" in outcome.err
    assert not (tmp_path / "run").exists()


SENTENCE = "the woman was in the old house by the river "
LONG = SENTENCE * 2300


def lengthen(task: str, row: Row, text: str) -> Row:
    """The same row on a long text; an answer stands at its end."""
    if task == "words":
        return {"words": text.split(), "labels": ["O"] * len(text.split())}
    if task == "choice":
        return {**row, "passage": text, "question": text}
    if task == "classification":
        return {**row, "text": text}
    start = row["answers"]["answer_start"][0]
    answers = {**row["answers"], "answer_start": [len(text) + start]}
    return {**row, "context": text + row["context"], "answers": answers}


LONG_TASKS = ("classification", "words", "questions", "choice")


@pytest.mark.parametrize("task", LONG_TASKS)
def test_a_text_of_100_000_characters_is_learned_from_and_answered(finetune, tmp_path, task):
    assert len(LONG) > 100_000
    for split, seed in (("train", 1), ("dev", 2)):
        rows = draw_rows(task, 6, seed=seed)
        rows[1] = lengthen(task, rows[1], LONG)
        write_rows(tmp_path / "data" / f"{split}.jsonl", rows)
    began = time.process_time()
    outcome = finetune(task, tmp_path / "data")
    assert outcome.code == 0, outcome.err
    assert time.process_time() - began < 30  # a few seconds, where the machine is quiet
    num_sequences = int(outcome.err.split(" pieces in ")[1].split()[0].replace(",", ""))
    assert num_sequences > 500 if task in ("words", "questions") else num_sequences == 6


@pytest.mark.parametrize("task", LONG_TASKS)
def test_the_time_for_a_long_text_is_linear_in_its_length(tiny_folder, tmp_path, task):
    tokenizer = load_tokenizer(tiny_folder)

    def measure(text: str) -> float:
        rows = [lengthen(task, row, text) for row in draw_rows(task, 1, seed=1)]
        rows += draw_rows(task, 20, seed=2)  # labels that the long one has not
        began = time.process_time()
        found = assign(task, write_rows(tmp_path / "table.jsonl", rows))
        kind = build_kind(found.facts.model_copy(update={"max_question": 32, "max_ending": 32}))
        windows = kind.encode(
            [each for each in (*found.train, *found.dev) if len(repr(each)) > 50_000], tokenizer
        )
        for item in windows:
            kind.build_batch([item])
        return time.process_time() - began

    measure(LONG)
    # Of twice the length: linear is 4 and quadratic 16; a busy machine blurs both.
    assert min(measure(4 * LONG) for _ in range(2)) < 9 * min(measure(LONG) for _ in range(2))


@contextmanager
def no_room_for(num_bytes: int) -> Iterator[None]:
    """No file larger than that can be written: what a full disk does to a large file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_no_room_to_begin_leaves_nothing(finetune, data, tmp_path):
    with no_room_for(10):
        outcome = finetune("classification", data)
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1].startswith(
        f"error: {tmp_path / 'run'}: cannot be written (File too large)"
    )
    assert "make room, or choose another --out" in outcome.err
    assert not (tmp_path / "run").exists()


def test_no_room_for_checkpoints_says_what_to_do_and_goes_on_when_there_is(finetune, data, tmp_path):
    with no_room_for(20_000):
        outcome = finetune("classification", data)
    assert outcome.code == 2
    assert "training goes on and saving is tried again" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("error: ")
    assert "Make room and go on with --resume" in outcome.err.splitlines()[-1]
    assert not list((tmp_path / "run" / "checkpoints").iterdir())
    assert finetune("classification", data, "--resume").code == 0


def test_no_room_for_the_model_loses_nothing(finetune, data, tmp_path):
    assert finetune("classification", data).code == 0
    run = tmp_path / "run"
    whole = {name: content for name, content in read_tree(run).items() if name.startswith("model/")}
    shutil.rmtree(run / "model")
    (run / "result.json").unlink()
    with no_room_for(20_000):
        outcome = finetune("classification", data, "--resume")
    assert outcome.code == 2
    error = outcome.err.splitlines()[-1]
    assert error.startswith(f"error: {run / 'model'}: model.safetensors: cannot be written (")
    assert error.endswith("all steps are saved: make room and go on with --resume")
    assert not [name for name in read_tree(run) if "model" in name or "result" in name]
    assert finetune("classification", data, "--resume").code == 0
    again = {name: content for name, content in read_tree(run).items() if name.startswith("model/")}
    assert again == whole


def test_a_damaged_checkpoint_is_passed_over(finetune, data, tmp_path):
    assert finetune("classification", data, "num_evaluations=2").code == 0
    newest = tmp_path / "run" / "checkpoints" / "step-2" / "tensors.safetensors"
    newest.write_bytes(newest.read_bytes()[:-10])
    outcome = finetune("classification", data, "num_evaluations=2", "--resume")
    assert outcome.code == 0, outcome.err
    assert "step-2/tensors.safetensors: damaged, the checksum does not fit; going back" in outcome.err
    assert "goes on at step 1 of 2" in outcome.err


def test_a_question_without_its_answer_among_published_ones_is_refused(refuse, tmp_path):
    """RACE's test has no answers; by such questions no model could be chosen."""
    passage = {"article": "the dog was big .", "questions": ["the dog was _"], "options": [["big", "old"]]}
    for split, extra in (("train", {"answers": ["A"]}), ("dev", {})):
        for level in ("middle", "high"):
            path = tmp_path / "race" / split / level / "1.txt"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps({**passage, **extra}))
    error = refuse("race", tmp_path)
    assert "dev: question 'middle/1.txt/0' comes without its answer" in error
    assert "give a development set with answers" in error


PAIRED = "columns.text_pair=other"


def test_sentences_need_pairs_to_be_asked_about(refuse, tmp_path):
    singles = write_rows(tmp_path / "singles.csv", [{"text": f"the {word} ."} for word in WORDS[10:40]])
    assert "singles.csv, those to be asked about: the text '" in refuse("embedding", singles)
    error = refuse("embedding", singles, "--dev", singles, PAIRED)
    assert "singles.csv: the text '2' has no second to be compared with" in error
    assert "give pairs with --dev" in error
    rows = [{"text": f"the {word} .", "other": word, "score": 4.5} for word in WORDS[10:30]]
    half = write_rows(tmp_path / "half.csv", [*rows[:5], {**rows[5], "score": ""}, *rows[6:]])
    error = refuse("embedding", singles, "--dev", half, PAIRED)
    assert "half.csv: the pairs '2' and '7': one has a number that says how similar it is" in error


def test_single_sentences_are_learned_from_and_pairs_asked_about(finetune, tmp_path):
    singles = write_rows(tmp_path / "singles.csv", [{"text": f"the {word} ."} for word in WORDS[10:40]])
    pairs = [
        {"text": f"the {word} .", "other": word, "score": place} for place, word in enumerate(WORDS[10:20])
    ]
    outcome = finetune("embedding", singles, "--dev", write_rows(tmp_path / "pairs.jsonl", pairs), PAIRED)
    assert outcome.code == 0, outcome.err
    assert "dev, spearman" in outcome.out
