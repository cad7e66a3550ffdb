"""Small official files of published tasks, in words of the tiny model's vocabulary."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

TEXTS = (
    "the ship was big", "a cold night", "he went to the hill", "the dog is old", "they had a warm day",
    "she left the town", "we saw the sea", "the man came from the river", "it was a small house",
    "one child found the road", "the woman is not here", "two ships and three dogs",
)  # fmt: skip


def write_lines(path: Path, rows: Sequence[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")


def write_sentiment(folder: Path) -> Path:
    """Write SST-2: a dev set with labels, and a test set without."""
    labeled = [(text, index % 2) for index, text in enumerate(TEXTS)]
    write_lines(folder / "SST-2" / "dev.tsv", [("sentence", "label"), *labeled])
    write_lines(folder / "SST-2" / "test.tsv", [("index", "sentence"), *enumerate(TEXTS[:4])])
    return folder


def write_entailment(folder: Path) -> Path:
    """Write the dev sets of MNLI and RTE, and the diagnostic set without labels."""
    names = ("contradiction", "entailment", "neutral")
    header = ("index", "sentence1", "sentence2")
    pairs = list(pairwise(TEXTS))
    three = [(index, *pair, names[index % 3]) for index, pair in enumerate(pairs)]
    write_lines(folder / "MNLI" / "dev_matched.tsv", [(*header, "gold_label"), *three])
    write_lines(folder / "MNLI" / "dev_mismatched.tsv", [(*header, "gold_label"), *three[:5]])
    two = [(index, *pair, ("entailment", "not_entailment")[index % 2]) for index, pair in enumerate(pairs)]
    write_lines(folder / "RTE" / "dev.tsv", [(*header, "label"), *two])
    rows = [(index, *pair) for index, pair in enumerate(pairs)]
    write_lines(folder / "diagnostic" / "diagnostic.tsv", [header, *rows])
    return folder


def write_similarity(folder: Path) -> Path:
    header = ("index", "sentence1", "sentence2")
    pairs = [(index, *pair) for index, pair in enumerate(pairwise(TEXTS))]
    scored = [(*row, round(0.45 * row[0], 3)) for row in pairs]
    write_lines(folder / "STS-B" / "dev.tsv", [(*header, "score"), *scored])
    write_lines(folder / "STS-B" / "test.tsv", [header, *pairs])
    return folder


def write_squad(folder: Path) -> Path:
    """Write the dev set of SQuAD 2.0: four articles of three questions, the third without an answer."""
    articles = []
    for number, title in enumerate(("ships", "dogs", "hills", "rivers")):
        context = f"the man found a big {title[:-1]} on the road . it was old and cold by night ."
        questions = [
            {
                "id": f"{title}-{index}",
                "question": f"the man found {index} ?",
                "is_impossible": index == 2,
                "answers": [] if index == 2 else [{"text": "a big", "answer_start": context.index("a big")}],
            }
            for index in range(3)
        ]
        paragraphs = [{"context": context, "qas": questions}]
        articles.append({"title": title if number else "Ships", "paragraphs": paragraphs})
    path = folder / "squad" / "dev-v2.0.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"version": "v2.0", "data": articles}), encoding="utf-8")
    return folder
