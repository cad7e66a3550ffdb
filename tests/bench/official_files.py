"""Small tasks in their official files, with something to learn from, in words that the tiny model knows."""

import json
import random
from pathlib import Path

from tests.tasks.published import write_lines
from tests.tasks.tables import draw_rows


def write_tasks(folder: Path, *, num_train: int = 60, num_dev: int = 24) -> Path:
    """SST-2 and MRPC."""
    for split, number, seed in (("train", num_train, 1), ("dev", num_dev, 2)):
        rows = [
            (row["text"], int(row["label"] == "yes"))
            for row in draw_rows("classification", number, seed=seed)
        ]
        write_lines(folder / "SST-2" / f"{split}.tsv", [("sentence", "label"), *rows])
        draw = random.Random(seed)
        pairs = [(label, 1, 2, text, text if label else draw.choice(rows)[0]) for text, label in rows]
        header = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
        write_lines(folder / "MRPC" / f"{split}.tsv", [header, *pairs])
    return folder


def write_questions(folder: Path, *, num_train: int) -> Path:
    """SQuAD 1.1: two questions on each context."""
    for split, number in (("train", num_train), ("dev", 4)):
        rows = draw_rows("question-answering", number, seed=number)
        articles = [
            {
                "title": str(place),
                "paragraphs": [{"context": rows[place]["context"], "qas": _ask(rows[place])}],
            }
            for place in range(0, number, 2)
        ]
        path = folder / "squad" / f"{split}-v1.1.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"version": "1.1", "data": articles}), encoding="utf-8")
    return folder


def _ask(row) -> list[dict[str, object]]:
    text, start = row["answers"]["text"][0], row["answers"]["answer_start"][0]
    answers = [{"text": text, "answer_start": start}]
    return [
        {"id": f"{row['id']}-{place}", "question": row["question"], "answers": answers} for place in (1, 2)
    ]


def write_passages(folder: Path, *, num_train: int) -> Path:
    """RACE: passages with three questions each."""
    for split, number in (("train", num_train), ("dev", 2)):
        for place in range(number):
            row = draw_rows("multiple-choice", 1, seed=place)[0]
            content = {
                "article": row["passage"],
                "questions": [row["question"]] * 3,
                "options": [row["options"]] * 3,
                "answers": [row["label"]] * 3,
            }
            path = folder / "race" / split / ("middle", "high")[place % 2] / f"{place}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content), encoding="utf-8")
    return folder
