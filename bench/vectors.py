"""Compare the text vectors of models without fine-tuning: similarity of sentences, and retrieval.

`python -m bench.vectors --data DATA MODEL… [--split train] [--depth 3]`. DATA is a folder with glue/STS-B/,
similarity/ and squad/. Models and settings are selected with `--split train`; the dev sets are for reports.
"""

import argparse
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr

import albert
from albert.inference.predictor import Predictor

_YEARS = ("sts2012", "sts2013", "sts2014")
_K1, _B = 1.2, 0.75  # of BM25
_WORD = re.compile(r"\w+")
_RANKS = (1, 10)


@dataclass(frozen=True)
class SimilaritySet:
    """Pairs of texts, and how similar people found them."""

    name: str
    first: list[str]
    second: list[str]
    scores: list[float]


@dataclass(frozen=True)
class Retrieval:
    """Questions, the paragraphs to search, and the index of the right one."""

    questions: list[str]
    paragraphs: list[str]
    gold: NDArray[np.int64]


def read_similarity(data: Path, *, split: str) -> Iterator[SimilaritySet]:
    """Read STS-B and SICK, and for `dev` all sets of STS 2012 to 2014."""
    columns = ("sentence1", "sentence2", "score")
    yield _read_table(data / "glue" / "STS-B" / f"{split}.tsv", "sts-b", columns)
    columns = ("sentence_A", "sentence_B", "relatedness_score")
    yield _read_table(data / "similarity" / f"sick-{split}.tsv", "sick", columns)
    if split == "dev":
        for path in sorted((data / "similarity").glob("sts20*.tsv")):
            rows = [line.split("\t") for line in path.read_text("utf-8").splitlines() if line.strip()]
            scored = [row for row in rows if row[0]]
            first, second = ([row[i] for row in scored] for i in (1, 2))
            yield SimilaritySet(path.stem, first, second, [float(row[0]) for row in scored])


def _read_table(path: Path, name: str, columns: Sequence[str]) -> SimilaritySet:
    header, *lines = path.read_text("utf-8").splitlines()
    indices = [header.split("\t").index(column) for column in columns]
    rows = [[line.split("\t")[i] for i in indices] for line in lines if line.strip()]
    first, second, scores = (list(column) for column in zip(*rows, strict=True))
    return SimilaritySet(name, first, second, [float(score) for score in scores])


def read_retrieval(folder: Path, *, split: str) -> Retrieval:
    """Read the questions of one SQuAD 1.1 file, and the distinct paragraphs of all files."""
    paragraphs: dict[str, int] = {}
    questions, gold = [], []
    for path in sorted(folder.glob("*.json")):
        for article in json.loads(path.read_text("utf-8"))["data"]:
            for paragraph in article["paragraphs"]:
                index = paragraphs.setdefault(paragraph["context"], len(paragraphs))
                if path.name == f"{split}-v1.1.json":
                    questions += [each["question"] for each in paragraph["qas"]]
                    gold += [index] * len(paragraph["qas"])
    return Retrieval(questions, list(paragraphs), np.array(gold))


def score_vectors(
    model: Predictor, sets: Sequence[SimilaritySet], retrieval: Retrieval, *, depth: int | None = None
) -> dict[str, float]:
    """Return Spearman correlations and recalls in percent, by name."""
    limit = model.model.config.max_position_embeddings - 2

    def embed(texts: list[str]) -> NDArray[np.float32]:
        encodings = model.tokenizer.encode_batch(texts)
        cut = [
            text if len(encoding.ids) <= limit else text[: encoding.spans[limit - 1][1]]
            for text, encoding in zip(texts, encodings, strict=True)
        ]
        return model.embed(cut, is_normalized=True, depth=depth)

    scores = {}
    for each in sets:
        cosines = (embed(each.first) * embed(each.second)).sum(1)
        scores[each.name] = 100 * float(spearmanr(cosines, each.scores).statistic)
    similarities = embed(retrieval.questions) @ embed(retrieval.paragraphs).T
    return scores | _summarize_years(scores) | score_retrieval(similarities, retrieval.gold)


def _summarize_years(scores: Mapping[str, float]) -> dict[str, float]:
    """Average the sets of each year, and the years with SICK."""
    years = {year: [value for name, value in scores.items() if name.startswith(year)] for year in _YEARS}
    means = {year: fmean(values) for year, values in years.items() if values}
    return means | ({"similarity": fmean([*means.values(), scores["sick"]])} if means else {})


def score_retrieval(similarities: NDArray[np.floating], gold: NDArray[np.int64]) -> dict[str, float]:
    """Return the share of questions whose paragraph is among the first ones; ties count against it."""
    right = similarities[np.arange(len(gold)), gold]
    rank = (similarities >= right[:, None]).sum(1)
    return {f"recall@{number}": 100 * float((rank <= number).mean()) for number in _RANKS}


def score_bm25(retrieval: Retrieval) -> dict[str, float]:
    """Retrieve by BM25 over lowercase words."""
    documents = [Counter(_WORD.findall(text.lower())) for text in retrieval.paragraphs]
    sizes = np.array([sum(each.values()) for each in documents])
    norms = _K1 * (1 - _B + _B * sizes / sizes.mean())
    frequency = Counter(word for each in documents for word in each)
    columns: dict[str, NDArray[np.floating]] = {}

    def score(word: str) -> NDArray[np.floating]:
        if word not in columns:
            counts = np.array([each[word] for each in documents])
            rarity = math.log(1 + (len(documents) - frequency[word] + 0.5) / (frequency[word] + 0.5))
            columns[word] = rarity * counts * (_K1 + 1) / (counts + norms)
        return columns[word]

    rows = [
        sum((score(word) for word in _WORD.findall(question.lower())), np.zeros(len(documents)))
        for question in retrieval.questions
    ]
    return score_retrieval(np.stack(rows), retrieval.gold)


def format_table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Format a Markdown table with a row for each model."""
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    lines = [["model", *columns], ["---"] + ["---:"] * len(columns)]
    lines += [
        [name, *(f"{row[column]:.1f}" if column in row else "–" for column in columns)]
        for name, row in rows.items()
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(words: Sequence[str] | None = None) -> int:
    """Print a table of all models, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.vectors", description=__doc__)
    parser.add_argument("models", nargs="+", help="model folders or names")
    parser.add_argument("--data", type=Path, required=True, help="folder with glue/, similarity/ and squad/")
    parser.add_argument("--split", choices=("train", "dev"), default="dev")
    parser.add_argument("--depth", type=int, action="append", help="numbers of layers [default: all]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(words)
    torch.set_num_threads(args.threads)
    sets = list(read_similarity(args.data, split=args.split))
    retrieval = read_retrieval(args.data / "squad", split=args.split)
    rows = {"BM25": score_bm25(retrieval)}
    for name in args.models:
        model = albert.load(name)
        for depth in args.depth or [None]:
            shown = name if depth is None else f"{name}, {depth} layers"
            rows[shown] = score_vectors(model, sets, retrieval, depth=depth)
    content = {"num_paragraphs": len(retrieval.paragraphs), "rows": rows}
    print(json.dumps(content, indent=1) if args.json else format_table(rows), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
