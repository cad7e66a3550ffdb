"""Compare sentence splitters: F1 of the boundaries on a hand-checked sample, and megabytes per second.

`python -m bench.sentences [TEXT_FILE…]` prints both; files have one paragraph per line. Libraries that are
not installed are skipped.
"""

import importlib
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert.text.sentences import iter_sentences
from bench.timing import summarize, time_interleaved

SAMPLE_DIR = Path(__file__).parents[1] / "tests" / "data" / "sentences"
LANGUAGES = ("en", "de", "fr", "zh")
_TEXTS = Path(__file__).parent / "texts.txt"
Splitter = Callable[[str], Iterable[str]]


@dataclass(frozen=True)
class Score:
    """True positives, false positives and false negatives of the boundaries inside paragraphs."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    @property
    def f1(self) -> float:
        """Return the harmonic mean of precision and recall."""
        return 2 * self.right / (2 * self.right + self.wrong + self.missed)


def read_sample(language: str) -> list[list[str]]:
    """Read the paragraphs of a language's sample, each as a list of sentences."""
    text = (SAMPLE_DIR / f"{language}.txt").read_text(encoding="utf-8")
    return [block.splitlines() for block in text.strip().split("\n\n")]


def join_sentences(sentences: Sequence[str], *, language: str) -> str:
    """Join sentences into a paragraph; Chinese has no spaces between them."""
    return ("" if language == "zh" else " ").join(sentences)


def score_splitter(split: Splitter, *, language: str) -> Score:
    """Split every paragraph of the sample, and compare boundaries, ignoring white space."""
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
    """Return the number of visible characters before the end of each sentence but the last."""
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
        raise ValueError("no Chinese")
    split: Splitter = module.SentenceSplitter(language=language).split
    return split


def _segtok(module: Any, language: str) -> Splitter:
    split: Splitter = module.split_single
    return split


def _razdel(module: Any, language: str) -> Splitter:
    return lambda text: [part.text for part in module.sentenize(text)]


# The module to import, and a function that builds its splitter for a language.
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
    """Build our splitter, and those of the installed libraries that support the language."""
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
    """Measure F1 on the sample by language, and MB per second on English paragraphs with one core."""
    paragraphs = paragraphs or _TEXTS.read_text(encoding="utf-8").splitlines() * 20
    megabytes = sum(len(text.encode()) for text in paragraphs) / 1e6
    steps = {name: _over(split, paragraphs) for name, split in build_splitters("en").items()}
    times = time_interleaved(steps, repeats=repeats)
    return {
        "megabytes": megabytes,
        "megabytes_per_second": {name: megabytes / summarize(times[name]).seconds for name in steps},
        "f1": {
            language: {
                name: score_splitter(split, language=language).f1
                for name, split in build_splitters(language).items()
            }
            for language in LANGUAGES
        },
    }


def format_results(found: dict[str, Any]) -> str:
    """Format the section of docs/benchmarks.md."""
    speeds, scores = found["megabytes_per_second"], found["f1"]
    lines = [
        "F1 of the boundaries inside paragraphs of the hand-checked sample (`tests/data/sentences`), and MB",
        f"per second on {found['megabytes']:.1f} MB of English novels with one core. Our rules were",
        "developed on this sample, so our F1 is optimistic. Libraries that were not installed are missing.",
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
