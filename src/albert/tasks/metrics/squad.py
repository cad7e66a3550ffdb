"""Exact match and F1 of SQuAD's two official scripts, and the no-answer threshold of SQuAD 2.0.

Answers are normalized before they are compared: lower case, without ASCII punctuation, articles (`a`, `an`
and `the` between Python's word borders) and repeated white space.

In 1.1 every question has an answer, and F1 without a common word is 0, even if gold and prediction are both
empty after normalization. In 2.0, gold answers that are empty after normalization are dropped; for a question
without any, an empty prediction scores 1. Each metric uses the gold answer with the best score.

Questions with null odds *above* the threshold are left unanswered. `find_best_thresholds` is the search of
the official script, with its quirks: questions with equal odds are added one by one, so that no threshold may
reach the best score; any answer to an unanswerable question costs a point; and if answering nothing is best,
the threshold is 0 for any odds. `choose_threshold` computes the real effect on all questions; use it to
predict.
"""

import re
import string
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from albert.errors import InputError
from albert.tasks.metrics import Floats, check_finite, check_pairs

SquadVersion = Literal["1.1", "2.0"]
ANSWER_NOTHING = -sys.float_info.max  # a threshold; finite, so that it can be written as JSON
_MARGIN = 0.01  # above the highest odds, relative to them or to 1: more than batches or bfloat16 change
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


@dataclass(frozen=True)
class QuestionScores:
    """Values for each question, before or after a threshold.

    Args:
        is_answerable: Whether the data have an answer.
        is_answered: Whether the prediction is not empty.
    """

    exact: Floats
    f1: Floats
    is_answerable: NDArray[np.bool_]
    is_answered: NDArray[np.bool_]
    null_odds: Floats

    def keep(self, rows: Sequence[int]) -> "QuestionScores":
        """Select the questions at these indices."""
        return QuestionScores(*(values[list(rows)] for values in vars(self).values()))


@dataclass(frozen=True)
class SpanScores:
    """Means over questions, in points of 100, and the number of questions."""

    exact: float
    f1: float
    total: int


@dataclass(frozen=True)
class SquadScores:
    """The scores of all questions, and of those with and without an answer if there are any."""

    overall: SpanScores
    has_answer: SpanScores | None
    no_answer: SpanScores | None


@dataclass(frozen=True)
class BestThresholds:
    """The best scores, in points of 100, and their thresholds, named as in the official script."""

    best_exact: float
    best_exact_thresh: float
    best_f1: float
    best_f1_thresh: float


@dataclass(frozen=True)
class ChosenThreshold:
    """A threshold, and the scores of questions that it was not chosen on."""

    threshold: float
    scores: SquadScores


@dataclass(frozen=True)
class ThresholdReport:
    """The no-answer threshold of SQuAD 2.0: questions with null odds above it are left unanswered.

    Args:
        threshold: The threshold in use.
        source: Where it is from.
        best: The result of the official script's search on these questions, which is optimistic.
        elsewhere: Chosen on one half of the articles and scored on the other; None with a single article.
        num_chosen_on: The number of questions of the first half.
        num_reported: The number of questions of the second half.
    """

    threshold: float
    source: str
    best: BestThresholds
    elsewhere: ChosenThreshold | None = None
    num_chosen_on: int = 0
    num_reported: int = 0


def score_questions(
    predictions: Sequence[str],
    *,
    golds: Sequence[Sequence[str]],
    version: SquadVersion,
    null_odds: Sequence[float] | None = None,
) -> QuestionScores:
    """Score one answer for each question.

    Args:
        predictions: The predicted answers; `""` is no answer.
        golds: The gold answers of each question; empty if it has none.
        version: "1.1" or "2.0".
        null_odds: The odds of no answer for each question.
    """
    check_pairs(predictions, golds=golds)
    if version == "1.1" and not all(golds):
        index = next(number for number, texts in enumerate(golds) if not texts)
        raise InputError(f"question {index} has no gold answer, but SQuAD 1.1 needs one; use version 2.0")
    exact, f1 = [], []
    for prediction, texts in zip(predictions, golds, strict=True):
        predicted, expected = normalize_answer(prediction), [normalize_answer(text) for text in texts]
        if version == "2.0":
            expected = [gold for gold in expected if gold] or [""]
        exact.append(max(float(predicted == gold) for gold in expected))
        f1.append(max(_word_f1(predicted, gold, empty_match=float(version == "2.0")) for gold in expected))
    odds = np.zeros(len(golds)) if null_odds is None else np.asarray(null_odds, np.float64)
    check_pairs(odds, golds=golds)
    check_finite(odds, name="the null odds of question")
    is_answerable, is_answered = (np.array([bool(text) for text in side]) for side in (golds, predictions))
    return QuestionScores(np.array(exact), np.array(f1), is_answerable, is_answered, odds)


def summarize_squad(questions: QuestionScores) -> SquadScores:
    """Average over all questions, those with and those without an answer."""

    def average(rows: NDArray[Any]) -> SpanScores | None:
        if not len(rows):
            return None
        # Python's sum, as in the official scripts, so that even the last digit agrees.
        exact, f1 = (sum(values[rows].tolist()) for values in (questions.exact, questions.f1))
        return SpanScores(100.0 * exact / len(rows), 100.0 * f1 / len(rows), len(rows))

    overall = average(np.arange(len(questions.exact)))
    assert overall is not None
    rows = np.flatnonzero(questions.is_answerable), np.flatnonzero(~questions.is_answerable)
    return SquadScores(overall, *map(average, rows))


def apply_threshold(questions: QuestionScores, threshold: float) -> QuestionScores:
    """Score the questions with odds above the threshold as unanswered."""
    is_unanswered = questions.null_odds > threshold
    is_correct = (~questions.is_answerable).astype(np.float64)
    return replace(
        questions,
        exact=np.where(is_unanswered, is_correct, questions.exact),
        f1=np.where(is_unanswered, is_correct, questions.f1),
        is_answered=questions.is_answered & ~is_unanswered,
    )


def choose_threshold(questions: QuestionScores, *, measure: Literal["exact", "f1"] = "f1") -> float:
    """Choose the best threshold, of equals the lowest; `ANSWER_NOTHING` if answering does not help.

    It is midway between the odds of the last answered question and the next one, or slightly above the
    highest, because the last digits of odds differ from batch to batch.
    """
    order = np.argsort(questions.null_odds, kind="stable")
    rising = questions.null_odds[order]
    gains: Floats = getattr(questions, measure) - ~questions.is_answerable
    totals = np.concatenate([[0.0], np.cumsum(gains[order])])
    is_reachable = np.concatenate([[True], rising[1:] != rising[:-1], [True]])  # equal odds stay together
    # Rounded, because sums of the same gains in another order differ in their last digits.
    num_answered = int(np.argmax(np.where(is_reachable, totals.round(9), -np.inf)))
    if not num_answered:
        return ANSWER_NOTHING
    last = float(rising[num_answered - 1])
    if num_answered == len(rising):
        return last + _MARGIN * max(1.0, abs(last))
    following = float(rising[num_answered])
    middle = last / 2 + following / 2
    return middle if middle < following else last  # adjacent floats have no middle


def find_best_thresholds(questions: QuestionScores) -> BestThresholds:
    """Find `best_exact`, `best_f1` and their thresholds as the official script does."""
    order = np.argsort(questions.null_odds, kind="stable")
    found: list[float] = []
    for values in (questions.exact, questions.f1):
        score = best_score = float((~questions.is_answerable).sum())
        best_threshold = 0.0
        for index in order.tolist():
            if questions.is_answerable[index]:
                score += float(values[index])
            elif questions.is_answered[index]:
                score -= 1
            if score > best_score:
                best_score, best_threshold = score, float(questions.null_odds[index])
        found += [100.0 * best_score / len(order), best_threshold]
    return BestThresholds(*found)


def report_elsewhere(reported: QuestionScores, *, chosen_on: QuestionScores) -> ChosenThreshold:
    """Score questions with the threshold that is best on others."""
    threshold = choose_threshold(chosen_on)
    return ChosenThreshold(threshold, summarize_squad(apply_threshold(reported, threshold)))


def normalize_answer(text: str) -> str:
    """Normalize an answer as SQuAD's official scripts do."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _word_f1(predicted: str, gold: str, *, empty_match: float) -> float:
    """Compute the F1 of the multisets of words of two normalized answers."""
    predicted_words, gold_words = predicted.split(), gold.split()
    if not predicted_words and not gold_words:
        return empty_match
    num_same = sum((Counter(predicted_words) & Counter(gold_words)).values())
    if num_same == 0:
        return 0.0
    precision, recall = num_same / len(predicted_words), num_same / len(gold_words)
    return (2 * precision * recall) / (precision + recall)
