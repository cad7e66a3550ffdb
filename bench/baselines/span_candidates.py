"""Candidate answers of a question: short spans of its context, with features."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.tasks.question_answering import SpanExample

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MAX_WORDS = 6
_CONTEXT_WORDS = 5  # on each side of a span
_WORDS = re.compile(r"\w+|[^\w\s]")
_ENDS = frozenset(".?!")
_TYPES = ("who", "when", "where", "how many", "how much", "how", "which", "why", "what")
_QUESTION_TYPE = re.compile(rf"\b({'|'.join(_TYPES)})\b")
_PLAIN = frozenset({
    "a", "an", "the", "of", "in", "on", "at", "to", "for", "by", "with", "from", "and", "or", "as", "is",
    "was", "were", "are", "be", "been", "that", "this", "it", "its",
})  # fmt: skip


@dataclass(frozen=True)
class Candidates:
    """Spans `[start, end)` of the context's characters, and a row of features for each.

    Of the question's words, weighted by rarity, `best_overlap` is the share in the best sentence and
    `missing` the share that the context lacks.
    """

    starts: Ints
    ends: Ints
    features: Floats
    best_overlap: float
    missing: float


@dataclass(frozen=True)
class _Word:
    text: str
    start: int
    end: int
    sentence: int

    @property
    def is_punctuation(self) -> bool:
        return not (self.text[0].isalnum() or self.text[0] == "_")


def count_rarities(examples: Sequence[SpanExample]) -> dict[str, float]:
    """Compute the inverse document frequency of each word of the contexts."""
    contexts = dict.fromkeys(example.context for example in examples)
    counts = Counter(word for context in contexts for word in set(_WORDS.findall(context.lower())))
    return {word: math.log((len(contexts) + 1) / count) for word, count in counts.items()}


def list_candidates(example: SpanExample, rarities: Mapping[str, float]) -> Candidates:
    """List the spans of up to `MAX_WORDS` words of a sentence that begin and end with a word."""
    context = _read(example, rarities)
    words, present = context.words, {word.text.lower() for word in context.words}
    firsts, lasts = _pair_up(words)
    return Candidates(
        starts=np.array([words[index].start for index in firsts], dtype=np.int64),
        ends=np.array([words[index].end for index in lasts], dtype=np.int64),
        features=np.column_stack(
            [*_describe_spans(context, firsts, lasts), *_describe_surroundings(context, firsts, lasts)]
        ),
        best_overlap=float(context.overlaps.max(initial=0.0)),
        missing=sum(weight for word, weight in context.weights.items() if word not in present),
    )


def find_first_name(context: str) -> tuple[int, int]:
    """Find the first capitalized words after the first word; without any, the first word."""
    words = _split_words(context)
    for index, word in enumerate(words[1:], start=1):
        if word.text[0].isupper():
            last = index
            while last + 1 < len(words) and words[last + 1].text[0].isupper():
                last += 1
            return word.start, words[last].end
    return (words[0].start, words[0].end) if words else (0, 0)


@dataclass(frozen=True)
class _Context:
    """The words of a context, and their relation to the question.

    `weights` are the rarities of the question's words, normalized to 1; `overlaps` their sum over the
    distinct words of each sentence. `question_type` is the index in `_TYPES`.
    """

    words: list[_Word]
    weights: dict[str, float]
    overlaps: Floats
    rarities: Floats
    question_type: int

    def mark(self, condition: Callable[[_Word], bool]) -> Floats:
        """Return 1 for each word that fulfills a condition, else 0."""
        return np.array([condition(word) for word in self.words], dtype=np.float64)


def _read(example: SpanExample, rarities: Mapping[str, float]) -> _Context:
    words, unknown = _split_words(example.context), max(rarities.values(), default=1.0)
    wanted = {
        word for word in _WORDS.findall(example.question.lower()) if word not in _PLAIN and word.isalnum()
    }
    total = sum(rarities.get(word, unknown) for word in wanted) or 1.0
    weights = {word: rarities.get(word, unknown) / total for word in sorted(wanted)}
    sentences: dict[int, set[str]] = {}
    for word in words:
        sentences.setdefault(word.sentence, set()).add(word.text.lower())
    match = _QUESTION_TYPE.search(example.question.lower())
    return _Context(
        words=words,
        weights=weights,
        overlaps=np.array(
            [sum(weights[word] for word in weights if word in own) for own in sentences.values()]
        ),
        rarities=np.array([rarities.get(word.text.lower(), unknown) for word in words], dtype=np.float64),
        question_type=len(_TYPES) if match is None else _TYPES.index(match.group()),
    )


def _split_words(context: str) -> list[_Word]:
    """Split a context into words with their characters and the index of their sentence."""
    words, sentence = [], 0
    for match in _WORDS.finditer(context):
        words.append(_Word(match.group(), match.start(), match.end(), sentence))
        is_end = match.group() in _ENDS and context[match.end() : match.end() + 1].strip() == ""
        sentence += is_end
    return words


def _pair_up(words: Sequence[_Word]) -> tuple[Ints, Ints]:
    """List the first and last words of all spans."""
    pairs = [
        (first, last)
        for first, word in enumerate(words)
        if not word.is_punctuation
        for last in range(first, min(first + MAX_WORDS, len(words)))
        if not words[last].is_punctuation and words[last].sentence == word.sentence
    ]
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _describe_spans(context: _Context, firsts: Ints, lasts: Ints) -> Iterator[Floats]:
    """Compute features of the words of a span, also by the type of the question."""
    lengths = (lasts - firsts + 1).astype(np.float64)

    def share(values: Floats) -> Floats:
        sums = np.concatenate([[0.0], np.cumsum(values)])
        found: Floats = (sums[lasts + 1] - sums[firsts]) / lengths
        return found

    capital = share(context.mark(lambda word: word.text[0].isupper()))
    digit = share(context.mark(lambda word: word.text[0].isdigit()))
    is_name = (capital == 1.0).astype(np.float64)
    yield from (capital, digit, is_name)
    yield share(context.mark(lambda word: word.text.lower() in _PLAIN))
    yield share(context.mark(lambda word: word.is_punctuation))
    yield share(context.mark(lambda word: word.text.lower() in context.weights))
    yield share(context.rarities)
    for number in range(1, MAX_WORDS):
        yield (lengths == number).astype(np.float64)
    for question_type in range(len(_TYPES) + 1):
        for column in (capital, digit, is_name, lengths / MAX_WORDS):
            yield column if question_type == context.question_type else np.zeros(len(firsts))


def _describe_surroundings(context: _Context, firsts: Ints, lasts: Ints) -> Iterator[Floats]:
    """Compute features of the edges and surroundings of a span, and of the overlap of its sentence."""
    size = len(context.words)
    plain = context.mark(lambda word: word.text.lower() in _PLAIN)
    capital = context.mark(lambda word: word.text[0].isupper())
    wanted = np.array([context.weights.get(word.text.lower(), 0.0) for word in context.words])
    has_weight = (wanted > 0).astype(np.float64)
    for values in (plain, capital):
        yield from (values[firsts], values[lasts])
    for values in (plain, capital, has_weight):
        yield np.where(firsts > 0, values[firsts - 1], 0.0)
    for values in (context.mark(lambda word: word.is_punctuation), capital, has_weight):
        yield np.where(lasts + 1 < size, values[np.minimum(lasts + 1, size - 1)], 1.0)
    sums = np.concatenate([[0.0], np.cumsum(wanted)])
    low, high = np.maximum(firsts - _CONTEXT_WORDS, 0), np.minimum(lasts + 1 + _CONTEXT_WORDS, size)
    yield sums[high] - sums[low] - (sums[lasts + 1] - sums[firsts])
    own = context.overlaps[np.array([word.sentence for word in context.words], dtype=np.int64)[firsts]]
    yield from (own, own - context.overlaps.max(initial=0.0))
