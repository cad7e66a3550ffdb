"""The inputs of the golden values: texts of the repository, and texts generated from their words."""

import gzip
import json
import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
TASKS = ("classification", "pairs", "multilabel", "regression", "words", "questions", "choice", "embedding")


def list_words() -> list[str]:
    text = (REPOSITORY / "LICENSE").read_text(encoding="utf-8")
    return sorted({word.lower() for word in re.findall(r"[A-Za-z]+", text)})


def list_lines() -> list[str]:
    """1,000 lines of four languages and of random words, with numbers, quotation marks and odd spaces."""
    lines = [
        line
        for name in ("en", "de", "fr", "zh")
        for line in (REPOSITORY / f"tests/data/sentences/{name}.txt").read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    draw, words = random.Random(3), list_words()
    marks = (",", ".", ' "', '"', "'s", " 1,000", " 25", "-", " (a)", " £3.50", " naïve", " ﬁ", "  ", "…")
    while len(lines) < 1000:
        chosen = [draw.choice(words) + (draw.choice(marks) if draw.random() < 0.3 else "") for _ in range(12)]
        lines.append(" ".join(chosen).strip())
    return lines[:1000]


def write_sources(folder: Path) -> Path:
    """Documents whose sentences belong together, as text, compressed text and JSON lines."""
    draw, words = random.Random(5), list_words()
    documents = []
    for _ in range(150):
        topic = draw.sample(words, 12)
        sentences = [
            " ".join(
                draw.choice(topic if draw.random() < 0.7 else words[:80]) for _ in range(draw.randint(4, 11))
            )
            for _ in range(draw.randint(3, 9))
        ]
        documents.append([f"{sentence.capitalize()}." for sentence in sentences])
    folder.mkdir(parents=True, exist_ok=True)
    paragraphs = "\n\n".join(" ".join(document) for document in documents[:60])
    (folder / "a.txt").write_text(paragraphs + "\n", encoding="utf-8")
    license_text = (REPOSITORY / "LICENSE").read_text(encoding="utf-8")
    (folder / "b.txt").write_text("\ufeff" + license_text.replace("\n", "\r\n"), encoding="utf-8", newline="")
    with gzip.GzipFile(folder / "c.txt.gz", "w", mtime=0) as file:
        file.write("\n\n".join("\n".join(document) for document in documents[60:100]).encode())
    rows = [json.dumps({"text": " ".join(document)}) for document in documents[100:]]
    (folder / "d.jsonl").write_text("\n".join([*rows, rows[0]]) + "\n", encoding="utf-8")
    return folder


def write_task(folder: Path, task: str) -> Path:
    """train.jsonl and dev.jsonl of a task whose answers can be read off the words."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, size, seed in (("train", 96, 1), ("dev", 40, 2)):
        draw = random.Random(f"{task}{seed}")
        rows = [_draw_row(task, draw, number) for number in range(size)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{split}.jsonl").write_text(text, encoding="utf-8")
    return folder


def _draw_row(task: str, draw: random.Random, number: int) -> dict[str, Any]:
    nouns = ("work", "license", "notice", "contribution", "party")
    adjectives = ("original", "such", "other", "different", "separate")
    noun, adjective, other = draw.choice(nouns), draw.choice(adjectives), draw.choice(adjectives)
    text = f"the {noun} is {adjective} and number {number} is {other}"
    if task == "classification":
        return {"text": text, "label": ("one", "two", "three")[nouns.index(noun) % 3]}
    if task == "pairs":
        second = f"{draw.choice((noun, draw.choice(nouns)))} is {other}"
        return {"text": text, "other": second, "label": "same" if noun in second else "not"}
    if task == "multilabel":
        return {"text": text, "label": sorted({adjective, other})}
    if task == "regression":
        return {"text": text, "label": nouns.index(noun) + 0.25 * adjectives.index(other)}
    if task == "words":
        words = text.split()
        labels = ["B-N" if word in nouns else "B-A" if word in adjectives else "O" for word in words]
        return {"words": words, "labels": labels}
    if task == "questions":
        context = f"{text} . " * draw.randint(1, 4)
        found = [] if number % 3 == 0 else [adjective]
        answers = {"text": found, "answer_start": [context.index(adjective)] if found else []}
        return {"id": str(number), "question": f"what is the {noun}", "context": context, "answers": answers}
    if task == "choice":
        options = [*sorted({*adjectives} - {adjective})[:3], adjective]
        draw.shuffle(options)
        gold = "ABCD"[options.index(adjective)]
        return {"passage": text, "question": f"the {noun} is", "options": options, "label": gold}
    return {"text": text, "other": f"{other} number {number} and the {noun}", "score": 5.0 * draw.random()}


def write_published(folder: Path) -> Path:
    """A few examples of GLUE, SQuAD and RACE in their official files, test sets without labels included."""
    draw = random.Random(11)
    texts = [_draw_row("classification", draw, number)["text"] for number in range(60)]

    def write(path: str, rows: Iterable[Sequence[object]]) -> None:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")

    rows = [(text, number % 2) for number, text in enumerate(texts)]
    for name, part in (("train", rows[:40]), ("dev", rows[40:])):
        write(f"SST-2/{name}.tsv", [("sentence", "label"), *part])
    write("SST-2/test.tsv", [("index", "sentence"), *enumerate(texts[:20])])
    header, names = ("index", "sentence1", "sentence2"), ("contradiction", "entailment", "neutral")
    pairs = [(n, texts[n], texts[-1 - n]) for n in range(50)]
    labeled = [(*pair, names[n % 3]) for n, pair in enumerate(pairs)]
    for name, part in (
        ("train", labeled[:30]),
        ("dev_matched", labeled[30:]),
        ("dev_mismatched", labeled[35:]),
    ):
        write(f"MNLI/{name}.tsv", [(*header, "gold_label"), *part])
    for path in ("MNLI/test_matched.tsv", "MNLI/test_mismatched.tsv", "diagnostic/diagnostic.tsv"):
        write(path, [header, *pairs[:15]])
    scored = [(*pair, round(draw.random() * 5, 3)) for pair in pairs]
    for name, part in (("train", scored[:30]), ("dev", scored[30:])):
        write(f"STS-B/{name}.tsv", [(*header, "score"), *part])
    write("STS-B/test.tsv", [header, *pairs[:15]])
    for split, seed in (("train", 1), ("dev", 2)):
        draw = random.Random(seed)
        articles = []
        for title in "abcdef":
            questions = [_draw_row("questions", draw, number) for number in range(4)]
            paragraphs = [
                {
                    "context": row["context"],
                    "qas": [
                        {
                            "id": f"{split}-{title}-{row['id']}", "question": row["question"],
                            "is_impossible": not row["answers"]["text"],
                            "answers": [
                                {"text": text, "answer_start": start}
                                for text, start in zip(*row["answers"].values(), strict=True)
                            ],
                        }
                    ],
                }
                for row in questions
            ]  # fmt: skip
            articles.append({"title": title, "paragraphs": paragraphs})
        path = folder / "squad" / f"{split}-v2.0.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"version": "v2.0", "data": articles}), encoding="utf-8")
        for number in range(12):
            level = ("middle", "high")[number % 2]
            row = _draw_row("choice", draw, number)
            content = {
                "article": row["passage"],
                "questions": [f"{row['question']} _ ."],
                "options": [row["options"]],
                "answers": [row["label"]],
            }
            path = folder / "race" / split / level / f"{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content), encoding="utf-8")
    return folder
