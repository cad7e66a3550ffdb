"""Answers of question answering: aggregated over windows, merged over models, and scored."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from scipy.special import softmax

from albert.errors import InputError
from albert.tasks.encoding.windows import Window
from albert.tasks.examples import SpanExample
from albert.tasks.metrics.squad import (
    QuestionScores,
    apply_threshold,
    choose_threshold,
    find_best_thresholds,
    score_questions,
    summarise_squad,
)


@dataclass(frozen=True, slots=True)
class PlacedSpan:
    """The first and the last token of a span in its window, and its score."""

    first: int
    last: int
    score: float


@dataclass(frozen=True, slots=True)
class WindowSpans:
    """The best spans of a window, the best first, and the odds for there being no answer."""

    spans: tuple[PlacedSpan, ...]
    null_odds: float = 0.0


@dataclass(frozen=True, slots=True)
class FoundSpan:
    """The characters `[start, end)` of the raw context, their text and their score."""

    text: str
    start: int
    end: int
    score: float


NO_SPAN = FoundSpan("", 0, 0, 0.0)


@dataclass(frozen=True, slots=True)
class SpanAnswer:
    """The best spans, the best first and no text twice; and the odds for no answer, where there may be none.

    `spans` is empty where a context has no pieces, or a beam found nothing.
    """

    spans: tuple[FoundSpan, ...]
    null_odds: float = 0.0

    @property
    def best(self) -> FoundSpan:
        """The best span, before any threshold."""
        return self.spans[0] if self.spans else NO_SPAN

    @property
    def probabilities(self) -> tuple[float, ...]:
        """How likely each span is among the spans."""
        scores = np.array([span.score for span in self.spans], dtype=np.float64)
        return tuple(softmax(scores).tolist()) if self.spans else ()

    def choose(self, threshold: float | None) -> FoundSpan:
        """The best span, or none where the odds lie above the threshold; without one it is always given."""
        return NO_SPAN if threshold is not None and self.null_odds > threshold else self.best


def conclude_windows(
    windows: Sequence[Window], outputs: Sequence[WindowSpans], *, num_best: int
) -> list[SpanAnswer]:
    """Aggregate the windows of each question: the best spans of all, and the lowest odds for no answer."""
    pairs = zip(windows, outputs, strict=True)
    answers = []
    for _, group in groupby(pairs, key=lambda pair: id(pair[0].question)):
        own = list(group)
        found = (_find_text(window, span) for window, output in own for span in output.spans)
        answers.append(
            SpanAnswer(_list_best(found, num_best=num_best), min(output.null_odds for _, output in own))
        )
    return answers


def merge_answers(answers: Sequence[SpanAnswer], *, num_best: int) -> SpanAnswer:
    """Average several models' scores of each text and their odds for no answer.

    A text that a model does not list gets the lowest score of those it lists. The position is that of the
    model with the highest score for the text: models that found the same words in two places agree.
    """
    members = [{span.text: span for span in answer.spans} for answer in answers if answer.spans]
    lowest = [min(span.score for span in member.values()) for member in members]
    merged = []
    for text in dict.fromkeys(text for member in members for text in member):
        known = [member[text] for member in members if text in member]
        scores = [
            member[text].score if text in member else least
            for member, least in zip(members, lowest, strict=True)
        ]
        place = max(known, key=lambda span: span.score)
        merged.append(replace(place, score=sum(scores) / len(scores)))
    odds = sum(answer.null_odds for answer in answers) / len(answers)
    return SpanAnswer(_list_best(merged, num_best=num_best), odds)


def _find_text(window: Window, span: PlacedSpan) -> FoundSpan:
    """Strip the white space; the text is empty where a token is only the border of a word."""
    start, end = window.span(span.first, span.last)
    raw = window.question.example.context[start:end]
    text = raw.strip()
    start += len(raw) - len(raw.lstrip())
    return FoundSpan(text, start, start + len(text), span.score)


def _list_best(spans: Iterable[FoundSpan], *, num_best: int) -> tuple[FoundSpan, ...]:
    """Sort by score, then by position; keep the first of each text, and no empty one."""
    ordered = sorted(spans, key=lambda span: (-span.score, span.start, span.end))
    by_text: dict[str, FoundSpan] = {}
    for span in ordered:
        by_text.setdefault(span.text, span)
    by_text.pop("", None)
    return tuple(by_text.values())[:num_best]


def score_spans(
    answers: Sequence[SpanAnswer],
    examples: Sequence[SpanExample],
    *,
    has_impossible: bool,
    threshold: float | None = None,
) -> tuple[QuestionScores, float | None]:
    """Score each question as SQuAD 1.1 or, with `has_impossible`, as 2.0 under a threshold, also returned.

    Without a threshold it is the best one for these very questions, which flatters a little.
    """
    if has_impossible:
        questions = score_possible(answers, examples)
        threshold = choose_threshold(questions) if threshold is None else threshold
        return apply_threshold(questions, threshold), threshold
    golds = [_list_golds(example, has_impossible=False) for example in examples]
    return score_questions([answer.best.text for answer in answers], golds=golds, version="1.1"), None


def score_possible(answers: Sequence[SpanAnswer], examples: Sequence[SpanExample]) -> QuestionScores:
    """Score the best answers as SQuAD 2.0, with their null odds, before any threshold."""
    golds = [_list_golds(example, has_impossible=True) for example in examples]
    odds = [answer.null_odds for answer in answers]
    return score_questions([each.best.text for each in answers], golds=golds, version="2.0", null_odds=odds)


def summarise_spans(
    answers: Sequence[SpanAnswer],
    examples: Sequence[SpanExample],
    *,
    has_impossible: bool,
    threshold: float | None = None,
) -> dict[str, float]:
    """Average exact match and F1, in points of 100, F1 being the score.

    SQuAD 2.0 has them also for questions with and without an answer, and `best_exact` and `best_f1` by the
    official script's search.
    """
    questions, used = score_spans(answers, examples, has_impossible=has_impossible, threshold=threshold)
    scores = summarise_squad(questions)
    found = {"exact": scores.overall.exact, "f1": scores.overall.f1}
    if used is not None:
        for name, part in (("has_answer", scores.has_answer), ("no_answer", scores.no_answer)):
            if part is not None:
                found |= {f"{name}_exact": part.exact, f"{name}_f1": part.f1}
        best = find_best_thresholds(score_possible(answers, examples))
        found |= {"best_exact": best.best_exact, "best_f1": best.best_f1, "threshold": used}
    return {**found, "score": found["f1"]}


def _list_golds(example: SpanExample, *, has_impossible: bool) -> tuple[str, ...]:
    """The texts that are right; none for an impossible question."""
    if has_impossible and example.is_impossible:
        return ()
    if not example.answers:
        known = "an answer, or to be marked as impossible" if has_impossible else "an answer"
        raise InputError(
            f"question {example.id!r} cannot be scored without {known}; leave out what is only to be answered"
        )
    return tuple(answer.text for answer in example.answers)
