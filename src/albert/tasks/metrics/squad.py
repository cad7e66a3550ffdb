"""Exact match and F1 of SQuAD's two official scripts, and the threshold that leaves questions unanswered.

Answers are compared after normalization: lower case, ASCII punctuation dropped, `a`, `an` and `the` between
word borders made a space, whitespace (Unicode's) made one space. Python's idea of a word border is part of
it: an `a` before a combining accent is an article; full-width punctuation stays.

1.1: every question has an answer, and F1 without a common word is 0, even where gold and prediction are both
empty after normalization. 2.0: gold answers that are empty after normalization do not count; a question left
with none expects nothing, and nothing against nothing is 1. The best gold answer counts, for each measure.

Null odds say how much a model is for "no answer"; a question whose odds lie *above* the threshold is left
unanswered. `find_best_thresholds` is the official script's search, its oddities included: questions of equal
odds are tried one after the other in the order given, so that no threshold may reach the best score; any
answer to an unanswerable question costs a point; and where answering nothing is best, the threshold is 0
whatever the odds are. `choose_threshold` counts what a threshold really does to all questions: use it to
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
    """One value for each question, in their order, before or after a threshold.

    `is_answerable`: the data hold an answer. `is_answered`: the prediction is not the empty string.
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
    """Means over questions, in points of 100, and how many questions they are."""

    exact: float
    f1: float
    total: int


@dataclass(frozen=True)
class SquadScores:
    """All questions, and those with and without an answer apart where there are any."""

    overall: SpanScores
    has_answer: SpanScores | None
    no_answer: SpanScores | None

    @property
    def official(self) -> dict[str, float]:
        """The scores under the names that SQuAD 2.0's script prints."""
        parts = {"": self.overall, "HasAns_": self.has_answer, "NoAns_": self.no_answer}
        return {
            f"{prefix}{name}": getattr(part, name)
            for prefix, part in parts.items()
            if part is not None
            for name in ("exact", "f1", "total")
        }


@dataclass(frozen=True)
class BestThresholds:
    """The best reachable scores, in points of 100, and where; the names are the official script's."""

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
        elsewhere: Chosen on one half of the articles and scored on the other; None with a single article.
    """

    threshold: float  # the threshold in use
    source: str  # where it is from
    best: BestThresholds  # the official script's search over these questions, which is optimistic
    elsewhere: ChosenThreshold | None = None
    num_chosen_on: int = 0  # questions of the first half
    num_reported: int = 0  # questions of the second half


def score_questions(
    predictions: Sequence[str],
    *,
    golds: Sequence[Sequence[str]],
    version: SquadVersion,
    null_odds: Sequence[float] | None = None,
) -> QuestionScores:
    """Score one answer for each question; `""` is no answer, and so is an empty list of golds."""
    check_pairs(predictions, golds=golds)
    if version == "1.1" and not all(golds):
        index = next(number for number, texts in enumerate(golds) if not texts)
        raise InputError(f"question {index} has no gold answer, and SQuAD 1.1 needs one; score it as 2.0")
    exact, f1 = [], []
    for prediction, texts in zip(predictions, golds, strict=True):
        predicted, wanted = normalize_answer(prediction), [normalize_answer(text) for text in texts]
        if version == "2.0":
            wanted = [gold for gold in wanted if gold] or [""]
        exact.append(max(float(predicted == gold) for gold in wanted))
        f1.append(max(_word_f1(predicted, gold, empty_match=float(version == "2.0")) for gold in wanted))
    odds = np.zeros(len(golds)) if null_odds is None else np.asarray(null_odds, np.float64)
    check_pairs(odds, golds=golds)
    check_finite(odds, name="the null odds of question")
    is_answerable, is_answered = (np.array([bool(text) for text in side]) for side in (golds, predictions))
    return QuestionScores(np.array(exact), np.array(f1), is_answerable, is_answered, odds)


def summarize_squad(questions: QuestionScores) -> SquadScores:
    """Average over all questions, over the answerable and over the others."""

    def average(rows: NDArray[Any]) -> SpanScores | None:
        if not len(rows):
            return None
        # Python's own sum, as in the official scripts: the last digit agrees too.
        exact, f1 = (sum(values[rows].tolist()) for values in (questions.exact, questions.f1))
        return SpanScores(100.0 * exact / len(rows), 100.0 * f1 / len(rows), len(rows))

    overall = average(np.arange(len(questions.exact)))
    assert overall is not None
    rows = np.flatnonzero(questions.is_answerable), np.flatnonzero(~questions.is_answerable)
    return SquadScores(overall, *map(average, rows))


def apply_threshold(questions: QuestionScores, threshold: float) -> QuestionScores:
    """Score the questions with odds above the threshold as unanswered."""
    is_left = questions.null_odds > threshold
    is_right = (~questions.is_answerable).astype(np.float64)
    return replace(
        questions,
        exact=np.where(is_left, is_right, questions.exact),
        f1=np.where(is_left, is_right, questions.f1),
        is_answered=questions.is_answered & ~is_left,
    )


def choose_threshold(questions: QuestionScores, *, measure: Literal["exact", "f1"] = "f1") -> float:
    """Choose the best threshold, of equals the one that answers least; `ANSWER_NOTHING` where none pays.

    It lies midway between the odds of the last question that is answered and those of the next, or a little
    above the highest: odds differ in their last digits from batch to batch, and would fall on either side of
    a threshold that is one of them.
    """
    order = np.argsort(questions.null_odds, kind="stable")
    rising = questions.null_odds[order]
    gains: Floats = getattr(questions, measure) - ~questions.is_answerable
    totals = np.concatenate([[0.0], np.cumsum(gains[order])])
    is_reachable = np.concatenate([[True], rising[1:] != rising[:-1], [True]])  # equals are answered together
    # Rounded, since sums of the same gains in another order differ in their last digits.
    num_answered = int(np.argmax(np.where(is_reachable, totals.round(9), -np.inf)))
    if not num_answered:
        return ANSWER_NOTHING
    last = float(rising[num_answered - 1])
    if num_answered == len(rising):
        return last + _MARGIN * max(1.0, abs(last))
    following = float(rising[num_answered])
    middle = last / 2 + following / 2
    return middle if middle < following else last  # between neighboring floats there is no middle


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
    """Score some questions under the threshold that is best on others."""
    threshold = choose_threshold(chosen_on)
    return ChosenThreshold(threshold, summarize_squad(apply_threshold(reported, threshold)))


def normalize_answer(text: str) -> str:
    """Normalize an answer as SQuAD compares it."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _word_f1(predicted: str, gold: str, *, empty_match: float) -> float:
    """F1 over the words of two normalized answers, each word as often as it occurs."""
    predicted_words, gold_words = predicted.split(), gold.split()
    if not predicted_words and not gold_words:
        return empty_match
    num_same = sum((Counter(predicted_words) & Counter(gold_words)).values())
    if num_same == 0:
        return 0.0
    precision, recall = num_same / len(predicted_words), num_same / len(gold_words)
    return (2 * precision * recall) / (precision + recall)
