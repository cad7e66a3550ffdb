"""A question and its context come in; short spans of the context that may answer it go out, with features."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.tasks.examples import SpanExample

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MAX_WORDS = 6
_REACH = 5  # words to each side of a span that are looked at
_WORDS = re.compile(r"\w+|[^\w\s]")
_ENDS = frozenset(".?!")
_TYPES = ("who", "when", "where", "how many", "how much", "how", "which", "why", "what")
_PLAIN = frozenset(
    "a an the of in on at to for by with from and or as is was were are be been that this it its".split()
)


@dataclass(frozen=True)
class Candidates:
    """Spans `[start, end)` of the context's characters, a row of features for each, and how alike all is.

    `reach` is the share of the question's rare words that the best sentence has, `missing` the share that
    the whole context lacks.
    """

    starts: Ints
    ends: Ints
    features: Floats
    reach: float
    missing: float


@dataclass(frozen=True)
class _Word:
    text: str
    start: int
    end: int
    sentence: int

    @property
    def is_mark(self) -> bool:
        return not (self.text[0].isalnum() or self.text[0] == "_")


def count_rarities(examples: Sequence[SpanExample]) -> dict[str, float]:
    """How rare each word of the contexts is, by how many of them have it."""
    contexts = dict.fromkeys(example.context for example in examples)
    counts = Counter(word for context in contexts for word in set(_WORDS.findall(context.lower())))
    return {word: math.log((len(contexts) + 1) / count) for word, count in counts.items()}


def list_candidates(example: SpanExample, rarities: Mapping[str, float]) -> Candidates:
    """Every span of up to `MAX_WORDS` words of one sentence that neither begins nor ends with a mark."""
    words = _cut(example.context)
    asked = {word for word in _WORDS.findall(example.question.lower()) if word not in _PLAIN}
    unknown = max(rarities.values(), default=1.0)
    weights = {word: rarities.get(word, unknown) for word in asked if word[0].isalnum()}
    total = sum(weights.values()) or 1.0
    found = np.array([weights.get(word.text.lower(), 0.0) for word in words])
    reaches = _measure_sentences(words, weights) / total
    firsts, lasts = _pair_up(words)
    features = _describe(example, words, firsts, lasts, found / total, reaches, rarities, unknown)
    present = {word.text.lower() for word in words}
    missing = sum(weight for word, weight in weights.items() if word not in present) / total
    return Candidates(
        starts=np.array([words[place].start for place in firsts], dtype=np.int64),
        ends=np.array([words[place].end for place in lasts], dtype=np.int64),
        features=features,
        reach=float(reaches.max(initial=0.0)),
        missing=missing,
    )


def find_first_name(context: str) -> tuple[int, int]:
    """The first words in capitals behind the very first word, or that one."""
    words = _cut(context)
    for place, word in enumerate(words[1:], start=1):
        if word.text[0].isupper():
            last = place
            while last + 1 < len(words) and words[last + 1].text[0].isupper():
                last += 1
            return word.start, words[last].end
    return (words[0].start, words[0].end) if words else (0, 0)


def _cut(context: str) -> list[_Word]:
    """The words with their characters and the number of their sentence."""
    words, sentence = [], 0
    for match in _WORDS.finditer(context):
        words.append(_Word(match.group(), match.start(), match.end(), sentence))
        is_end = match.group() in _ENDS and context[match.end() : match.end() + 1].strip() == ""
        sentence += is_end
    return words


def _measure_sentences(words: Sequence[_Word], weights: Mapping[str, float]) -> Floats:
    """For each sentence the weights of the question's words that it has, each once."""
    sentences: dict[int, set[str]] = {}
    for word in words:
        sentences.setdefault(word.sentence, set()).add(word.text.lower())
    return np.array([sum(weights[word] for word in own & weights.keys()) for own in sentences.values()])


def _pair_up(words: Sequence[_Word]) -> tuple[Ints, Ints]:
    """First and last words of all spans."""
    pairs = [
        (first, last)
        for first, word in enumerate(words)
        if not word.is_mark
        for last in range(first, min(first + MAX_WORDS, len(words)))
        if not words[last].is_mark and words[last].sentence == word.sentence
    ]
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _describe(
    example: SpanExample,
    words: Sequence[_Word],
    firsts: Ints,
    lasts: Ints,
    found: Floats,
    reaches: Floats,
    rarities: Mapping[str, float],
    unknown: float,
) -> Floats:
    """What a linear model is told of each span: its words, its neighbours, its sentence, and the question."""
    marks = {
        "capital": [word.text[0].isupper() for word in words],
        "digit": [word.text[0].isdigit() for word in words],
        "plain": [word.text.lower() in _PLAIN for word in words],
        "mark": [word.is_mark for word in words],
        "rare": [rarities.get(word.text.lower(), unknown) for word in words],
        "asked": found > 0,
    }
    flags = {name: np.array(values, dtype=np.float64) for name, values in marks.items()}
    sums = {name: np.concatenate([[0.0], np.cumsum(values)]) for name, values in flags.items()}
    lengths = (lasts - firsts + 1).astype(np.float64)
    shares = {name: (values[lasts + 1] - values[firsts]) / lengths for name, values in sums.items()}
    near = np.concatenate([[0.0], np.cumsum(found)])
    low, high = np.maximum(firsts - _REACH, 0), np.minimum(lasts + 1 + _REACH, len(words))
    around = near[high] - near[low] - (near[lasts + 1] - near[firsts])
    sentences = np.array([word.sentence for word in words], dtype=np.int64)[firsts]
    edges = [flags[name][place] for name in ("plain", "capital") for place in (firsts, lasts)]
    before = [np.where(firsts > 0, flags[name][firsts - 1], 0.0) for name in ("plain", "capital", "asked")]
    behind = np.minimum(lasts + 1, len(words) - 1)
    after = [flags[name][behind] for name in ("mark", "capital", "asked")]
    whole = shares["capital"] == 1.0
    columns = [
        *shares.values(), around, reaches[sentences], reaches[sentences] - reaches.max(initial=0.0),
        *edges, *before, *after, whole, *(lengths == number for number in range(1, MAX_WORDS)),
    ]  # fmt: skip
    question = example.question.lower()
    asked_type = next((place for place, name in enumerate(_TYPES) if name in question), len(_TYPES))
    crossed = np.zeros((len(firsts), len(_TYPES) + 1, 4))
    crossed[:, asked_type] = np.column_stack([shares["capital"], shares["digit"], whole, lengths / MAX_WORDS])
    return np.column_stack([*columns, crossed.reshape(len(firsts), -1)]).astype(np.float64)
