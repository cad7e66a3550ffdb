"""Texts and pairs of texts come in; a sparse table goes out, a row for each: the words that they have."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from albert.tasks.examples import TextExample

Floats = NDArray[np.float64]
WORD = r"\w+|[^\w\s]"  # punctuation tells, too: a question mark, a quote
_WORDS = re.compile(WORD)


def list_words(text: str) -> list[str]:
    """The words and marks of a text, in small letters."""
    return _WORDS.findall(text.lower())


def fit_vectorizer(texts: Sequence[str], *, max_features: int | None = None, max_words: int = 2) -> Any:
    """TF-IDF of words and of pairs of neighbours, learned from these texts."""
    vectorizer = TfidfVectorizer(
        token_pattern=WORD, ngram_range=(1, max_words), sublinear_tf=True, max_features=max_features
    )
    return vectorizer.fit(texts)


@dataclass(frozen=True)
class WordFeatures:
    """A single text is its words. A pair is the words of each, what both have, what one has, and the overlap.

    Measures of overlap have mean 0 and deviation 1 over the examples that were learned from.
    """

    vectorizer: Any
    mean: Floats
    deviation: Floats

    @property
    def has_pairs(self) -> bool:
        """Whether it was fitted on pairs."""
        return len(self.mean) > 0

    def build(self, examples: Sequence[TextExample]) -> Any:
        """The table of examples."""
        firsts = self.vectorizer.transform([example.first for example in examples])
        if not self.has_pairs:
            return firsts
        seconds = self.vectorizer.transform([example.second or "" for example in examples])
        overlaps = (_measure_pairs(examples, firsts, seconds) - self.mean) / self.deviation
        both, one = firsts.minimum(seconds), abs(firsts - seconds)
        return sparse.hstack([firsts, seconds, both, one, sparse.csr_matrix(overlaps)], format="csr")


def fit_features(examples: Sequence[TextExample]) -> WordFeatures:
    """Learn the words, how rare they are, and the scales of overlap."""
    has_pairs = any(example.second is not None for example in examples)
    texts = [text for example in examples for text in (example.first, example.second) if text is not None]
    vectorizer = fit_vectorizer(texts)
    if not has_pairs:
        return WordFeatures(vectorizer, np.empty(0), np.empty(0))
    firsts, seconds = (
        vectorizer.transform([text or "" for text in side])
        for side in zip(*((example.first, example.second) for example in examples), strict=True)
    )
    overlaps = _measure_pairs(examples, firsts, seconds)
    deviation = overlaps.std(axis=0)
    return WordFeatures(vectorizer, overlaps.mean(axis=0), np.where(deviation > 0, deviation, 1.0))


def find_cosines(firsts: Any, seconds: Any) -> Floats:
    """How similar the rows of two tables of TF-IDF are, 0 to 1."""
    found: Floats = np.asarray(firsts.multiply(seconds).sum(axis=1), dtype=np.float64).ravel()
    return found


def _measure_pairs(examples: Sequence[TextExample], firsts: Any, seconds: Any) -> Floats:
    rows = [_measure_overlap(example) for example in examples]
    return np.column_stack([find_cosines(firsts, seconds), np.array(rows, dtype=np.float64)])


def _measure_overlap(example: TextExample) -> tuple[float, ...]:
    """Shared words in all, in the first and in the second; the lengths; whether the numbers agree."""
    first, second = list_words(example.first), list_words(example.second or "")
    one, other = set(first), set(second)
    num_shared, num_all = len(one & other), len(one | other)
    numbers = [{word for word in side if word.isdigit()} for side in (one, other)]
    ratio = math.log((len(first) + 1) / (len(second) + 1))
    return (
        num_shared / max(1, num_all),
        num_shared / max(1, len(one)),
        num_shared / max(1, len(other)),
        ratio,
        abs(ratio),
        float(numbers[0] == numbers[1]),
    )
