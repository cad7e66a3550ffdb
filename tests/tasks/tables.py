"""Small tables that can be learned, one for each task type."""

import csv
import json
import random
from pathlib import Path
from typing import Any

from albert.tasks.catalogue import find_task

NOUNS, SIZES = ("dog", "man", "house", "ship"), ("big", "small", "old", "new")


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write a table as CSV or JSONL, by its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def draw_rows(task: str, number: int, *, seed: int) -> list[dict[str, Any]]:
    """Draw rows whose labels depend on their words."""
    draw = random.Random(seed)
    build = _BUILDERS[find_task(task).name]
    return [build(draw) for _ in range(number)]


def _classification(draw: random.Random) -> dict[str, Any]:
    noun, first, second = draw.choice(NOUNS), draw.choice(SIZES), draw.choice(SIZES)
    return {
        "text": f"the {noun} was {first} and {second} .",
        "label": "yes" if "big" in (first, second) else "no",
    }


def _multilabel(draw: random.Random) -> dict[str, Any]:
    first, second = draw.choice(SIZES), draw.choice(SIZES)
    return {"text": f"the dog was {first} and {second} .", "label": sorted({first, second})}


def _regression(draw: random.Random) -> dict[str, Any]:
    noun = draw.choice(NOUNS)
    return {"text": f"the {noun} was {draw.choice(SIZES)} .", "label": NOUNS.index(noun) + 0.5}


def _words(draw: random.Random) -> dict[str, Any]:
    words = [draw.choice((*NOUNS, *SIZES, "the", "was")) for _ in range(draw.randint(3, 8))]
    labels = ["B-THING" if word in NOUNS else "O" for word in words]
    return {"words": words, "labels": labels}


def _questions(draw: random.Random) -> dict[str, Any]:
    noun, size, other = draw.choice(NOUNS), draw.choice(SIZES), draw.choice(SIZES)
    context = f"the {noun} was {size} . and {other} ."
    start = context.index(size)
    return {
        "id": str(draw.random()), "question": f"the {noun} was", "context": context,
        "answers": {"text": [size], "answer_start": [start]},
    }  # fmt: skip


def _choice(draw: random.Random) -> dict[str, Any]:
    size = draw.choice(SIZES)
    options = list(SIZES)
    draw.shuffle(options)
    return {
        "passage": f"the dog was {size} .", "question": "the dog was", "options": options,
        "label": "ABCD"[options.index(size)],
    }  # fmt: skip


_BUILDERS = {
    "classification": _classification, "multilabel": _multilabel, "regression": _regression,
    "token-classification": _words, "question-answering": _questions, "multiple-choice": _choice,
}  # fmt: skip
OWN_TABLES = tuple(_BUILDERS)


def write_tables(folder: Path, task: str, *, num_train: int = 300, num_dev: int = 60) -> Path:
    """Write train.jsonl and dev.jsonl."""
    write_rows(folder / "train.jsonl", draw_rows(task, num_train, seed=1))
    write_rows(folder / "dev.jsonl", draw_rows(task, num_dev, seed=2))
    return folder
