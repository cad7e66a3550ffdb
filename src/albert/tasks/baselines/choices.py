"""An assignment of questions with options comes in; how much is for each option goes out, from words alone."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from albert.tasks.assignment import Assignment
from albert.tasks.baselines.features import Floats, list_words
from albert.tasks.baselines.texts import find_most_frequent
from albert.tasks.examples import ChoiceExample, Example

_STREAM = 7003


def answer_same_place(assignment: Assignment) -> list[Floats]:
    """The option at the place that is right most often."""
    labels = [each.label for each in _list_questions(assignment.train) if each.label is not None]
    best = find_most_frequent(labels)
    return [_choose(min(best, len(each.options) - 1), each) for each in _list_questions(assignment.dev)]


def answer_at_random(assignment: Assignment) -> list[Floats]:
    """Any option, always the same ones."""
    draw = np.random.default_rng(_STREAM)
    dev = _list_questions(assignment.dev)
    return [_choose(int(draw.integers(len(each.options))), each) for each in dev]


def answer_by_sliding_window(assignment: Assignment) -> list[Floats]:
    """The baseline of RACE's paper (Richardson et al. 2013): the option with the best window of the passage.

    A window is as long as question and option have different words, and counts those of its words that are
    theirs, rare ones for more.
    """
    return [
        np.array([_find_best_window(each, option) for option in each.options])
        for each in _list_questions(assignment.dev)
    ]


def _find_best_window(example: ChoiceExample, option: str) -> float:
    passage = list_words(example.passage)
    wanted = {*list_words(example.question.replace("_", " ")), *list_words(option)}
    counts = Counter(passage)
    weights = [np.log1p(1.0 / counts[word]) if word in wanted else 0.0 for word in passage]
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    size = min(len(wanted), len(passage))
    return float((sums[size:] - sums[: len(sums) - size]).max())


def _choose(place: int, example: ChoiceExample) -> Floats:
    return np.eye(len(example.options))[place]


def _list_questions(examples: Sequence[Example]) -> list[ChoiceExample]:
    return [example for example in examples if isinstance(example, ChoiceExample)]
