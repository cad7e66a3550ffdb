"""An assignment of questions with options comes in; a score for each option goes out, from words alone."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

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
    return [_score_options(each) for each in _list_questions(assignment.dev)]


def _score_options(example: ChoiceExample) -> Floats:
    passage, question = list_words(example.passage), list_words(example.question.replace("_", " "))
    rarities = {word: math.log1p(1.0 / count) for word, count in Counter(passage).items()}
    options = [{*question, *list_words(option)} for option in example.options]
    return np.array([_find_best_window(passage, wanted, rarities) for wanted in options])


def _find_best_window(passage: Sequence[str], wanted: set[str], rarities: Mapping[str, float]) -> float:
    weights = [rarities[word] if word in wanted else 0.0 for word in passage]
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    size = min(len(wanted), len(passage))
    return float((sums[size:] - sums[: len(sums) - size]).max())


def _choose(place: int, example: ChoiceExample) -> Floats:
    row = np.zeros(len(example.options))
    row[place] = 1.0
    return row


def _list_questions(examples: Sequence[Example]) -> list[ChoiceExample]:
    return [example for example in examples if isinstance(example, ChoiceExample)]
