"""Sentence splitters against the hand-checked sample and the clock: boundaries found and megabytes a second.

`python -m bench.sentences [TEXT_FILE…]` prints them; files are read as one paragraph a line. Libraries that
are not installed are left out.
"""

import importlib
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert.text.sentences import iter_sentences
from bench.timing import summarise, time_in_turns

SAMPLE_DIR = Path(__file__).parents[1] / "tests" / "data" / "sentences"
LANGUAGES = ("en", "de", "fr", "zh")
_TEXTS = Path(__file__).parent / "texts.txt"
Splitter = Callable[[str], Iterable[str]]


@dataclass(frozen=True)
class Score:
    """Boundaries inside paragraphs: found and right, found and wrong, missed."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.right / (2 * self.right + self.wrong + self.missed)


def read_sample(language: str) -> list[list[str]]:
    """The paragraphs of a language's sample, each a list of its sentences."""
    text = (SAMPLE_DIR / f"{language}.txt").read_text(encoding="utf-8")
    return [block.splitlines() for block in text.strip().split("\n\n")]


def join_sentences(sentences: Sequence[str], *, language: str) -> str:
    """The paragraph as it was before it was cut; Chinese has no space between sentences."""
    return ("" if language == "zh" else " ").join(sentences)


def score_splitter(split: Splitter, *, language: str) -> Score:
    """Cut every paragraph of the sample and count; white space does not count, for splitters change it."""
    right = wrong = missed = 0
    for sentences in read_sample(language):
        gold = _boundaries(sentences)
        found = _boundaries(split(join_sentences(sentences, language=language)))
        right, wrong, missed = (
            right + len(gold & found),
            wrong + len(found - gold),
            missed + len(gold - found),
        )
    return Score(right, wrong, missed)


def _boundaries(sentences: Iterable[str]) -> set[int]:
    """After how many visible characters each sentence but the last ends."""
    ends, seen = [], 0
    for sentence in sentences:
        visible = sum(map(len, sentence.split()))
        if visible:
            seen += visible
            ends.append(seen)
    return set(ends[:-1])


def _pysbd(module: Any, language: str) -> Splitter:
    split: Splitter = module.Segmenter(language=language, clean=False).segment
    return split


def _syntok(module: Any, language: str) -> Splitter:
    def split(text: str) -> list[str]:
        return [
            "".join(token.spacing + token.value for token in sentence)
            for paragraph in module.process(text)
            for sentence in paragraph
        ]

    return split


def _blingfire(module: Any, language: str) -> Splitter:
    return lambda text: module.text_to_sentences(text).split("\n")


def _spacy(module: Any, language: str) -> Splitter:
    pipeline = module.blank(language)
    pipeline.add_pipe("sentencizer")
    return lambda text: [sentence.text for sentence in pipeline(text).sents]


def _sentence_splitter(module: Any, language: str) -> Splitter:
    if language == "zh":
        raise ValueError("has no Chinese")
    split: Splitter = module.SentenceSplitter(language=language).split
    return split


def _segtok(module: Any, language: str) -> Splitter:
    split: Splitter = module.split_single
    return split


def _razdel(module: Any, language: str) -> Splitter:
    return lambda text: [part.text for part in module.sentenize(text)]


# Name: the module to import, and how it cuts a paragraph of a language.
_LIBRARIES: dict[str, tuple[str, Callable[[Any, str], Splitter]]] = {
    "pysbd": ("pysbd", _pysbd),
    "syntok": ("syntok.segmenter", _syntok),
    "blingfire": ("blingfire", _blingfire),
    "spacy sentencizer": ("spacy", _spacy),
    "sentence-splitter": ("sentence_splitter", _sentence_splitter),
    "segtok": ("segtok.segmenter", _segtok),
    "razdel": ("razdel", _razdel),
}


def build_splitters(language: str) -> dict[str, Splitter]:
    """Ours, and every library that is installed and knows the language."""
    found = {name: _build(module, build, language) for name, (module, build) in _LIBRARIES.items()}
    return {
        "ours": lambda text: iter_sentences(text, language=language),
        **{name: split for name, split in found.items() if split is not None},
    }


def _build(module: str, build: Callable[[Any, str], Splitter], language: str) -> Splitter | None:
    try:
        return build(importlib.import_module(module), language)
    except (ImportError, ValueError):
        return None


def measure(paragraphs: Sequence[str] | None = None, *, repeats: int = 3) -> dict[str, Any]:
    """F1 on the sample by language, and megabytes a second on English paragraphs on one core."""
    paragraphs = paragraphs or _TEXTS.read_text(encoding="utf-8").splitlines() * 20
    megabytes = sum(len(text.encode()) for text in paragraphs) / 1e6
    steps = {name: _over(split, paragraphs) for name, split in build_splitters("en").items()}
    times = time_in_turns(steps, repeats=repeats)
    return {
        "megabytes": megabytes,
        "megabytes_per_second": {name: megabytes / summarise(times[name]).seconds for name in steps},
        "f1": {
            language: {
                name: score_splitter(split, language=language).f1
                for name, split in build_splitters(language).items()
            }
            for language in LANGUAGES
        },
    }


def format_results(found: dict[str, Any]) -> str:
    """The table of docs/benchmarks.md."""
    speeds, scores = found["megabytes_per_second"], found["f1"]
    lines = [
        "F1 of the boundaries inside paragraphs of the hand-checked sample (`tests/data/sentences`), which",
        "was the development set of our rules and so is kind to them; and megabytes a second on one core,",
        f"{found['megabytes']:.1f} MB of English novels. Libraries as far as they are installed.",
        "",
        f"| | {' | '.join(LANGUAGES)} | MB/s |",
        f"|---|{'---|' * len(LANGUAGES)}---|",
    ]
    for name, speed in speeds.items():
        cells = [f"{scores[code][name]:.3f}" if name in scores[code] else "–" for code in LANGUAGES]
        lines.append(f"| {name} | {' | '.join(cells)} | {speed:.2f} |")
    return "\n".join(lines)


def _over(split: Splitter, paragraphs: Sequence[str]) -> Callable[[], None]:
    def step() -> None:
        for text in paragraphs:
            for _ in split(text):
                pass

    return step


if __name__ == "__main__":
    lines = [line for path in sys.argv[1:] for line in Path(path).read_text(encoding="utf-8").splitlines()]
    print(json.dumps(measure([line for line in lines if line.strip()]), indent=2))
