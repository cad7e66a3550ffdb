"""Scores of SQuAD 2.0 questions and their null odds come in; thresholds, and scores under them, go out.

Null odds say how much a model is for "no answer"; a question whose odds lie *above* the threshold is left
unanswered. Predictions must be the best answers there are, before any threshold.

`find_best_thresholds` is the official script's search, its oddities included: questions of equal odds are
tried one after the other in the order given, so that no threshold may reach the best score; any answer to an
unanswerable question costs a point; and where answering nothing is best, the threshold is 0 whatever the odds
are. `choose_threshold` counts what a threshold really does to all questions: use it to predict.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from albert.tasks.metrics.pairs import check_finite, check_pairs
from albert.tasks.metrics.squad import QuestionScores, SquadScores, summarise_squad

Measure = Literal["exact", "f1"]
ANSWER_NOTHING = -sys.float_info.max  # finite, so that it can be written as JSON
_MARGIN = 0.01  # above the highest odds, as a share of them or of 1: more than batches or bfloat16 change


@dataclass(frozen=True)
class BestThresholds:
    """The best reachable scores, in points of 100, and where; the names are the official script's."""

    best_exact: float
    best_exact_thresh: float
    best_f1: float
    best_f1_thresh: float


@dataclass(frozen=True)
class SquadPart:
    """Some questions: their scores when answered, and how much the model is for no answer."""

    questions: QuestionScores
    null_odds: Sequence[float]


@dataclass(frozen=True)
class ChosenThreshold:
    """A threshold, and the scores of questions that had no part in choosing it."""

    threshold: float
    scores: SquadScores


def apply_threshold(part: SquadPart, *, threshold: float) -> QuestionScores:
    """The scores when questions with odds above the threshold stay unanswered."""
    questions, is_left = part.questions, (_read_odds(part) > threshold).tolist()

    def replace(values: Sequence[float]) -> tuple[float, ...]:
        rows = zip(values, is_left, questions.is_answerable, strict=True)
        return tuple(float(not answerable) if left else value for value, left, answerable in rows)

    is_answered = (
        answered and not left for answered, left in zip(questions.is_answered, is_left, strict=True)
    )
    return QuestionScores(
        replace(questions.exact), replace(questions.f1), questions.is_answerable, tuple(is_answered)
    )


def find_best_thresholds(part: SquadPart) -> BestThresholds:
    """`best_exact`, `best_f1` and their thresholds as the official script finds them."""
    order = np.argsort(_read_odds(part), kind="stable").tolist()
    return BestThresholds(
        *_search(part, scores=part.questions.exact, order=order),
        *_search(part, scores=part.questions.f1, order=order),
    )


def choose_threshold(part: SquadPart, *, measure: Measure = "f1") -> float:
    """The best threshold, of equals the one that answers least; `ANSWER_NOTHING` where no answer is worth it.

    It lies midway between the odds of the last question that is answered and those of the next, or a little
    above the highest: odds differ in their last digits from batch to batch, and would fall on either side of
    a threshold that is one of them.
    """
    odds, questions = _read_odds(part), part.questions
    order = np.argsort(odds, kind="stable")
    rising = odds[order]
    gains = np.array(getattr(questions, measure)) - ~np.array(questions.is_answerable)
    totals = np.concatenate([[0.0], np.cumsum(gains[order])])
    is_last_of_equals = np.append(rising[1:] != rising[:-1], True)
    is_reachable = np.concatenate([[True], is_last_of_equals])
    # Rounded, since sums of the same gains in another order differ in their last digits.
    num_answered = int(np.argmax(np.where(is_reachable, totals.round(9), -np.inf)))
    if not num_answered:
        return ANSWER_NOTHING
    last = float(rising[num_answered - 1])
    if num_answered == len(rising):
        return last + _MARGIN * max(1.0, abs(last))
    following = float(rising[num_answered])
    middle = last / 2 + following / 2
    return middle if middle < following else last  # between neighbouring floats there is no middle


def report_elsewhere(reported: SquadPart, *, chosen_on: SquadPart) -> ChosenThreshold:
    """The scores of one part under the threshold that is best on another."""
    threshold = choose_threshold(chosen_on)
    return ChosenThreshold(threshold, summarise_squad(apply_threshold(reported, threshold=threshold)))


def select_questions(part: SquadPart, *, is_kept: Sequence[bool]) -> SquadPart:
    """The questions that are kept, in the same order."""
    check_pairs(is_kept, golds=part.null_odds)
    rows = [place for place, keep in enumerate(is_kept) if keep]
    own = part.questions
    questions = QuestionScores(
        exact=tuple(own.exact[row] for row in rows),
        f1=tuple(own.f1[row] for row in rows),
        is_answerable=tuple(own.is_answerable[row] for row in rows),
        is_answered=tuple(own.is_answered[row] for row in rows),
    )
    return SquadPart(questions, [part.null_odds[row] for row in rows])


def _read_odds(part: SquadPart) -> NDArray[np.float64]:
    check_pairs(part.null_odds, golds=part.questions.exact)
    odds = np.asarray(part.null_odds, np.float64)
    check_finite(odds, name="the null odds of question")
    return odds


def _search(part: SquadPart, *, scores: Sequence[float], order: Sequence[int]) -> tuple[float, float]:
    questions = part.questions
    score = best_score = float(questions.is_answerable.count(False))
    best_threshold = 0.0
    for place in order:
        if questions.is_answerable[place]:
            score += scores[place]
        elif questions.is_answered[place]:
            score -= 1
        if score > best_score:
            best_score, best_threshold = score, float(part.null_odds[place])
    return 100.0 * best_score / len(scores), best_threshold
