"""A bad row of a table: refused by its line, or left out and counted."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.finetuning.asking import NO_ANSWER, NOWHERE, Row, assign
from tests.tasks.formats import FORMATS, list_settings, name_line, write_table
from tests.tasks.tables import OWN_TABLES, draw_rows, write_rows, write_tables

NUM_ROWS = {"train": 30, "dev": 12}
PLACE = 3  # of the bad row


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
