"""Chosen and right options with each question's level come in; accuracy overall and per level goes out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from albert.errors import InputError
from albert.tasks.metrics.classification import accuracy
from albert.tasks.metrics.pairs import Values, check_pairs

LEVELS = ("middle", "high")


@dataclass(frozen=True)
class RaceScores:
    """In points of 100; a level without questions has none. Overall counts questions, not levels."""

    accuracy: float
    middle: float | None
    high: float | None


def score_race(predictions: Values, *, golds: Values, levels: Sequence[str]) -> RaceScores:
    """The three accuracies; refused: a level that is neither middle nor high."""
    check_pairs(predictions, golds=golds)
    check_pairs(levels, golds=golds)
    for level in set(levels) - set(LEVELS):
        raise InputError(f"level {level!r} of a RACE question; only {' and '.join(LEVELS)}")
    predicted, gold, found = np.asarray(predictions), np.asarray(golds), np.asarray(levels)
    rows = [found == level for level in LEVELS]
    middle, high = (100.0 * accuracy(predicted[own], golds=gold[own]) if own.any() else None for own in rows)
    return RaceScores(100.0 * accuracy(predicted, golds=gold), middle, high)
