"""An assignment of questions on contexts comes in; answers go out, those of a linear model among them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from albert.tasks.assignment import Assignment
from albert.tasks.examples import Example, SpanExample
from albert.tasks.kinds.span_answers import FoundSpan, SpanAnswer
from bench.baselines.span_candidates import (
    Candidates,
    Floats,
    count_rarities,
    find_first_name,
    list_candidates,
)

_STREAM = 7004
_NUM_WRONG = 30  # spans to learn from beside each right one
_MAX_ITERATIONS = 1000
_NEVER = -1e9


def answer_first_name(assignment: Assignment) -> list[SpanAnswer]:
    """The first name of the context, whatever the question."""
    places = [(each, *find_first_name(each.context)) for each in _list_questions(assignment.dev)]
    return [SpanAnswer((_build_span(example, start, end, 0.0),)) for example, start, end in places]


def answer_by_words(assignment: Assignment) -> list[SpanAnswer]:
    """The span that a linear model likes best, as in SQuAD's first baseline but without a parser.

    It is told which of the question's words stand around a span and in its sentence, and what the span looks
    like: capitals, digits, length, by the question's first word. Where questions may have no answer, a second
    one says how likely that is, from the best span and from the words that the context lacks.
    """
    train, dev = _list_questions(assignment.train), _list_questions(assignment.dev)
    rarities = count_rarities(train)
    judge = _learn_spans(train, rarities)
    if judge is None:
        return answer_first_name(assignment)
    silence = None
    if assignment.facts.has_impossible:
        summaries = [_summarise(_judge(list_candidates(each, rarities), judge)) for each in train]
        silence = _learn_silence(train, summaries)
    answers = []
    for example in dev:
        judged = _judge(list_candidates(example, rarities), judge)
        odds = 0.0 if silence is None else float(silence.decision_function([_summarise(judged)])[0])
        answers.append(_conclude(example, judged, odds))
    return answers


@dataclass(frozen=True)
class _Judged:
    """The candidates of a question, and how much the model is for each."""

    candidates: Candidates
    scores: Floats


def _learn_spans(train: Sequence[SpanExample], rarities: dict[str, float]) -> Pipeline | None:
    """Right spans against some wrong ones of the same contexts; None where there is nothing to tell apart."""
    rows, marks = [], []
    for features, mark in _iter_lessons(train, rarities):
        rows.append(features)
        marks.append(mark)
    if not marks or len(set(np.concatenate(marks).tolist())) < 2:
        return None
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=_MAX_ITERATIONS))
    return model.fit(np.concatenate(rows), np.concatenate(marks))


def _iter_lessons(
    train: Sequence[SpanExample], rarities: dict[str, float]
) -> Iterator[tuple[Floats, Floats]]:
    draw = np.random.default_rng(_STREAM)
    for example in train:
        golds = {(answer.start, answer.start + len(answer.text)) for answer in example.places}
        if not golds:
            continue
        candidates = list_candidates(example, rarities)
        pairs = zip(candidates.starts.tolist(), candidates.ends.tolist(), strict=True)
        is_right = np.array([pair in golds for pair in pairs], dtype=np.bool_)
        if not is_right.any():
            continue
        wrong = np.flatnonzero(~is_right)
        some = draw.choice(wrong, size=min(_NUM_WRONG, len(wrong)), replace=False)
        chosen = np.concatenate([np.flatnonzero(is_right), some])
        yield candidates.features[chosen], is_right[chosen].astype(np.float64)


def _judge(candidates: Candidates, judge: Any) -> _Judged:
    has_any = len(candidates.starts) > 0
    return _Judged(candidates, judge.decision_function(candidates.features) if has_any else np.empty(0))


def _summarise(judged: _Judged) -> list[float]:
    """What tells whether there is an answer at all."""
    best = float(judged.scores.max(initial=_NEVER))
    return [max(best, -20.0), judged.candidates.reach, judged.candidates.missing]


def _learn_silence(train: Sequence[SpanExample], summaries: Sequence[list[float]]) -> Pipeline | None:
    marks = [example.is_impossible for example in train]
    if len(set(marks)) < 2:
        return None
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(summaries, marks)


def _conclude(example: SpanExample, judged: _Judged, odds: float) -> SpanAnswer:
    if not len(judged.scores):
        return SpanAnswer((), odds)
    best = int(judged.scores.argmax())
    start, end = int(judged.candidates.starts[best]), int(judged.candidates.ends[best])
    return SpanAnswer((_build_span(example, start, end, float(judged.scores[best])),), odds)


def _build_span(example: SpanExample, start: int, end: int, score: float) -> FoundSpan:
    return FoundSpan(example.context[start:end], start, end, score)


def _list_questions(examples: Sequence[Example]) -> list[SpanExample]:
    return [example for example in examples if isinstance(example, SpanExample)]
