"""Baselines of question answering: the first name, and a linear model over the spans of the context."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from albert.tasks.question_answering import FoundSpan, SpanAnswer, SpanExample
from bench.baselines.span_candidates import (
    Candidates,
    Floats,
    count_rarities,
    find_first_name,
    list_candidates,
)

_STREAM = 7004
_NUM_WRONG = 30  # wrong spans per example in training
_MAX_ITERATIONS = 1000
_LOWEST = -20.0  # score of a context without candidates
Examples = Sequence[SpanExample]


def predict_first_name(train: Examples, dev: Examples) -> list[SpanAnswer]:
    """Answer every question with the first name of the context."""
    found = [(each, *find_first_name(each.context)) for each in dev]
    return [SpanAnswer((_build_span(example, start, end, 0.0),)) for example, start, end in found]


def predict_by_words(train: Examples, dev: Examples, *, has_impossible: bool) -> list[SpanAnswer]:
    """Choose the best span by a linear model, as in SQuAD's first baseline but without a parser.

    Its features are the question's words around the span and in its sentence, and capitals, digits and
    length of the span by the type of the question. If questions may have no answer, a second model predicts
    that from the best span and the words that the context lacks.
    """
    rarities = count_rarities(train)
    model = _fit_spans(train, rarities)
    if model is None:
        return predict_first_name(train, dev)
    unanswerable = None
    labels = [example.is_impossible for example in train]
    if has_impossible and len(set(labels)) > 1:
        rows = []
        for example in train:
            candidates = list_candidates(example, rarities)
            rows.append(_summarize(candidates, _score(candidates, model)))
        unanswerable = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, labels)
    answers = []
    for example in dev:
        candidates = list_candidates(example, rarities)
        scores = _score(candidates, model)
        spans: tuple[FoundSpan, ...] = ()
        odds = 0.0
        if unanswerable is not None:
            odds = float(unanswerable.decision_function([_summarize(candidates, scores)])[0])
        if len(scores):
            best = int(scores.argmax())
            start, end = int(candidates.starts[best]), int(candidates.ends[best])
            spans = (_build_span(example, start, end, float(scores[best])),)
        answers.append(SpanAnswer(spans, odds))
    return answers


def _fit_spans(train: Examples, rarities: dict[str, float]) -> Pipeline | None:
    """Fit correct spans against some wrong ones of the same contexts; None if either is missing."""
    draw = np.random.default_rng(_STREAM)
    rows, labels = [], []
    for example in train:
        valid = [answer for answer in example.answers if answer.is_in(example.context)]
        golds = {(answer.start, answer.start + len(answer.text)) for answer in valid}
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
        rows.append(candidates.features[chosen])
        labels.append(is_right[chosen].astype(np.float64))
    if not labels or len(set(np.concatenate(labels).tolist())) < 2:
        return None
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=_MAX_ITERATIONS))
    return model.fit(np.concatenate(rows), np.concatenate(labels))


def _score(candidates: Candidates, model: Any) -> Floats:
    scores: Floats = model.decision_function(candidates.features) if len(candidates.starts) else np.empty(0)
    return scores


def _summarize(candidates: Candidates, scores: Floats) -> list[float]:
    """Compute features that indicate whether there is an answer."""
    return [float(scores.max(initial=_LOWEST)), candidates.best_overlap, candidates.missing]


def _build_span(example: SpanExample, start: int, end: int, score: float) -> FoundSpan:
    return FoundSpan(example.context[start:end], start, end, score)
