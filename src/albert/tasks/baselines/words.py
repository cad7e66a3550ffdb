"""An assignment on words comes in; labels of the words of its development set go out, from counts alone."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from albert.tasks.assignment import Assignment
from albert.tasks.baselines.features import Floats
from albert.tasks.examples import Example, TokenExample


def answer_most_frequent(assignment: Assignment) -> list[Floats]:
    """The most frequent label for every word."""
    row = Counter(label for _, label in _iter_labelled(assignment.train))
    return [_tabulate(example, {}, row, assignment) for example in _list_texts(assignment.dev)]


def answer_by_word(assignment: Assignment) -> list[Floats]:
    """The most frequent label of each word, as written or in small letters; of unknown words, the overall."""
    known: dict[str, Counter[int]] = defaultdict(Counter)
    for word, label in _iter_labelled(assignment.train):
        known[word][label] += 1
        if word != word.lower():
            known[word.lower()][label] += 1
    overall = Counter(label for _, label in _iter_labelled(assignment.train))
    return [_tabulate(example, known, overall, assignment) for example in _list_texts(assignment.dev)]


def _tabulate(
    example: TokenExample, known: dict[str, Counter[int]], overall: Counter[int], assignment: Assignment
) -> Floats:
    """Rows [words, labels] with 1 for the label of each word; of equals that of the lowest place."""
    table = np.zeros((len(example.words), len(assignment.facts.labels)))
    for row, word in zip(table, example.words, strict=True):
        counts = known.get(word) or known.get(word.lower()) or overall
        row[max(counts, key=lambda place: (counts[place], -place))] = 1.0
    return table


def _iter_labelled(examples: Iterable[Example]) -> Iterator[tuple[str, int]]:
    for example in _list_texts(examples):
        yield from zip(example.words, example.labels or (), strict=False)


def _list_texts(examples: Iterable[Example]) -> list[TokenExample]:
    return [example for example in examples if isinstance(example, TokenExample)]
