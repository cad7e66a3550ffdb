"""Predicted and gold answers come in; exact match and F1, as SQuAD's two official scripts count them, go out.

Answers are compared after normalisation: lower case, ASCII punctuation dropped, `a`, `an` and `the` between
word borders made a space, whitespace (Unicode's) made one space. Python's idea of a word border is part of
it: an `a` before a combining accent is an article; full-width punctuation stays.

1.1: every question has an answer, and F1 without a common word is 0, even where gold and prediction are both
empty after normalisation. 2.0: gold answers that are empty after normalisation do not count; a question left
with none expects nothing, and nothing against nothing is 1. The best gold answer counts, for each measure.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from albert.errors import InputError
from albert.tasks.metrics.pairs import check_pairs

SquadVersion = Literal["1.1", "2.0"]
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


@dataclass(frozen=True)
class QuestionScores:
    """One value for each question, in their order.

    `is_answerable`: the data hold an answer. `is_answered`: the prediction is not the empty string.
    """

    exact: tuple[float, ...]
    f1: tuple[float, ...]
    is_answerable: tuple[bool, ...]
    is_answered: tuple[bool, ...]


@dataclass(frozen=True)
class SpanScores:
    """Means over questions, in points of 100, and how many they are."""

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
        """The names that SQuAD 2.0's script prints."""
        parts = {"": self.overall, "HasAns_": self.has_answer, "NoAns_": self.no_answer}
        return {
            f"{prefix}{name}": getattr(part, name)
            for prefix, part in parts.items()
            if part is not None
            for name in ("exact", "f1", "total")
        }


def score_squad(
    predictions: Sequence[str], *, golds: Sequence[Sequence[str]], version: SquadVersion
) -> SquadScores:
    """The official scores of one answer for each question; `""` is no answer, and so are no golds."""
    return summarise_squad(score_questions(predictions, golds=golds, version=version))


def score_questions(
    predictions: Sequence[str], *, golds: Sequence[Sequence[str]], version: SquadVersion
) -> QuestionScores:
    """Exact match and F1 of every question; refused: in 1.1, a question without a gold answer."""
    check_pairs(predictions, golds=golds)
    if version == "1.1" and not all(golds):
        place = next(number for number, texts in enumerate(golds) if not texts)
        raise InputError(f"question {place} has no gold answer, and SQuAD 1.1 needs one; score it as 2.0")
    scores = [
        _score_question(prediction, texts, version)
        for prediction, texts in zip(predictions, golds, strict=True)
    ]
    return QuestionScores(
        exact=tuple(exact for exact, _ in scores),
        f1=tuple(f1 for _, f1 in scores),
        is_answerable=tuple(bool(texts) for texts in golds),
        is_answered=tuple(bool(prediction) for prediction in predictions),
    )


def summarise_squad(questions: QuestionScores) -> SquadScores:
    """The means over all questions, over the answerable and over the others."""
    answerable = [place for place, flag in enumerate(questions.is_answerable) if flag]
    others = [place for place, flag in enumerate(questions.is_answerable) if not flag]
    return SquadScores(
        overall=_average(questions, list(range(len(questions.exact)))),
        has_answer=_average(questions, answerable) if answerable else None,
        no_answer=_average(questions, others) if others else None,
    )


def normalise_answer(text: str) -> str:
    """An answer as SQuAD compares it."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _score_question(prediction: str, golds: Sequence[str], version: SquadVersion) -> tuple[float, float]:
    predicted = normalise_answer(prediction)
    wanted = [normalise_answer(gold) for gold in golds]
    if version == "2.0":
        wanted = [gold for gold in wanted if gold] or [""]
    exact = max(float(predicted == gold) for gold in wanted)
    return exact, max(_word_f1(predicted, gold, empty_match=float(version == "2.0")) for gold in wanted)


def _word_f1(predicted: str, gold: str, *, empty_match: float) -> float:
    """F1 over the words of two normalised answers, each word as often as it stands there."""
    predicted_words, gold_words = predicted.split(), gold.split()
    if not predicted_words and not gold_words:
        return empty_match
    num_same = sum((Counter(predicted_words) & Counter(gold_words)).values())
    if num_same == 0:
        return 0.0
    precision, recall = num_same / len(predicted_words), num_same / len(gold_words)
    return (2 * precision * recall) / (precision + recall)


def _average(questions: QuestionScores, places: Sequence[int]) -> SpanScores:
    # Python's own sum, as in the official scripts: the last digit agrees too.
    exact, f1 = (sum(values[place] for place in places) for values in (questions.exact, questions.f1))
    return SpanScores(100.0 * exact / len(places), 100.0 * f1 / len(places), len(places))
