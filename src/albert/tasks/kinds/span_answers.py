"""What a model said of a question's windows comes in; one answer goes out: texts with their characters."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from scipy.special import softmax

from albert.tasks.encoding.windows import Window
from albert.tasks.kinds.span_search import PlacedSpan, WindowSpans


@dataclass(frozen=True, slots=True)
class FoundSpan:
    """The characters `[start, end)` of the raw context, their text, and how much the model is for them."""

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
    """One answer for each question: of all its windows the best spans, and the lowest odds for no answer.

    A question has an answer if one window has it: the others say nothing against it.
    """
    pairs = zip(windows, outputs, strict=True)
    answers = []
    for _, group in groupby(pairs, key=lambda pair: id(pair[0].question)):
        own = list(group)
        found = (_read(window, span) for window, output in own for span in output.spans)
        answers.append(
            SpanAnswer(_list_best(found, num_best=num_best), min(output.null_odds for _, output in own))
        )
    return answers


def merge_answers(answers: Sequence[SpanAnswer], *, num_best: int) -> SpanAnswer:
    """What several models say of one question: the mean score of each text, and the mean odds for no answer.

    A text that a model does not list gets the lowest score of those it lists. The place is that of the model
    which is most for the text: models that have found the same words in two places agree.
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


def _read(window: Window, span: PlacedSpan) -> FoundSpan:
    """The text without the white space around it; it is empty where a piece is but the border of a word."""
    start, end = window.span(span.first, span.last)
    raw = window.question.example.context[start:end]
    text = raw.strip()
    start += len(raw) - len(raw.lstrip())
    return FoundSpan(text, start, start + len(text), span.score)


def _list_best(spans: Iterable[FoundSpan], *, num_best: int) -> tuple[FoundSpan, ...]:
    """By score, then by place, so that equals have one order; of each text the first, and of `""` none."""
    ordered = sorted(spans, key=lambda span: (-span.score, span.start, span.end))
    by_text: dict[str, FoundSpan] = {}
    for span in ordered:
        by_text.setdefault(span.text, span)
    by_text.pop("", None)
    return tuple(by_text.values())[:num_best]
