"""Bad tables and bad models for fine-tuning: one line with the place and the cure, or a counted skip."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from albert.tasks.assignment import Assignment, open_assignment
from albert.settings import apply_overrides
from tests.conftest import WORDS, Outcome, RunAlbert, read_tree, write_vocabulary
from tests.tasks.formats import FORMATS, Rows, list_settings, name_line, write_table
from tests.tasks.tables import OWN_TABLES, draw_rows, write_rows, write_tables

FAST = ("num_steps=2", "batch_size=4", "num_evaluations=1", "has_tensorboard=false")
NUM_TRAIN, NUM_DEV, PLACE = 30, 12, 3
Change = Callable[[dict[str, Any]], dict[str, Any]]
INPUTS = {"words": "words", "questions": "context", "choice": "question"}  # of the others, the text


@dataclass(frozen=True)
class Bad:
    """A table with one row changed in a split; its message must hold the words, and `{line}` of that row."""

    name: str
    split: str
    tasks: tuple[str, ...]
    change: Change
    said: str
    formats: tuple[str, ...] = FORMATS


def put(**values: Any) -> Change:
    return lambda row: {**row, **values}


def empty(row: dict[str, Any]) -> dict[str, Any]:
    """A row without a text; lists of nothing where it has lists."""
    if "words" in row:
        return {"words": [], "labels": []}
    if "options" in row:
        return {**row, "passage": "", "question": " "}
    return {**row, INPUTS["questions"] if "context" in row else "text": "  "}


NOT_THERE = {"text": ["zebra"], "answer_start": [4]}
ELSEWHERE = {"text": ["the"], "answer_start": [5]}
NO_ANSWER: dict[str, list[Any]] = {"text": [], "answer_start": []}

REFUSED = [
    Bad("a label that train lacks", "dev", ("classification",), put(label="zebra"),
        "{line}: the label 'zebra' is unknown (known: no, yes); mend it, or take it out"),
    Bad("a label that train spells otherwise", "dev", ("classification",), put(label="YES"),
        "{line}: the label 'YES' is unknown (known: no, yes; did you mean 'yes'?); mend it"),
    Bad("a label that train lacks, among several", "dev", ("multilabel",), put(label=["big", "zebra"]),
        "{line}: the label 'zebra' is unknown (known: big, new, old, small); mend it, or take it out"),
    Bad("a label of a word that train lacks", "dev", ("words",), put(words=["dog"], labels=["I-ZEBRA"]),
        "{line}: the label 'I-ZEBRA' is unknown (known: B-THING, O); mend it, or take it out"),
    Bad("a question without an answer, where train has none", "dev", ("questions",), put(answers=NO_ANSWER),
        "{line}: a question without an answer (those to learn from all have one); mend it, or take it out"),
]  # fmt: skip
COUNTED = [
    Bad("an empty text", split, OWN_TABLES, empty, f"left out 1 {{unit}}: an empty {what} (first in {{line}}")
    for split in ("train", "dev")
    for what in ("",)
]
COUNTED += [
    Bad("an answer that is nowhere", "train", ("questions",), put(answers=NOT_THERE),
        "1 {unit} with an answer that is nowhere in the context (first in {line}: question"),
    Bad("an answer that is elsewhere", "dev", ("questions",), put(answers=ELSEWHERE),
        "not at its place in the context, but elsewhere in it (first in {line}: question"),
    Bad("no label", "train", ("classification", "regression", "choice"), put(label=""),
        "left out 1 {unit}: no ", ("csv", "tsv", "jsonl")),
    Bad("a label that is no option", "dev", ("choice",), put(label="F"),
        "left out 1 {unit}: a label that is no option (first in {line}: 'F' of 4"),
    Bad("fewer labels than words", "train", ("words",), put(labels=["O"]),
        "left out 1 {unit}: not one label for each word (first in {line}: "),
    Bad("an id that occurs before", "dev", ("questions",), put(id="same"), "", ()),
]  # fmt: skip
for number, said in (("nan", "nan"), ("inf", "inf"), ("-inf", "-inf"), ("1e999", "inf")):
    COUNTED.append(
        Bad(f"{number} for a number", "train", ("regression",), put(label=float(number)),
            "left out 1 {unit}: no number in column 'label' (first in {line}: it holds")
    )  # fmt: skip


def write_split(folder: Path, task: str, format: str, *, bad: Bad | None = None) -> Path:
    """train.FORMAT and dev.FORMAT, in one of which one row is bad."""
    for split, number, seed in (("train", NUM_TRAIN, 1), ("dev", NUM_DEV, 2)):
        rows = draw_rows(task, number, seed=seed)
        if bad is not None and bad.split == split:
            rows[PLACE] = bad.change(rows[PLACE])
        write_table(folder / f"{split}.{format}", rows)
    return folder


def list_cases(faults: list[Bad]) -> list[Any]:
    return [
        pytest.param(bad, task, format, id=f"{bad.name}, {bad.split}, {task}, {format}")
        for bad in faults
        for task in bad.tasks
        for format in bad.formats
    ]
