"""Answers, what is known of their examples and a seed come in; an interval for each metric goes out.

Examples are drawn with replacement: texts, questions, or, of words, whole texts, since the words of one are
no examples by themselves. What would take the whole scorer a thousand times is added up from parts instead.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.tasks.decisions import Decisions, list_decided, score_spans
from albert.tasks.kinds.words import ENTITY_METRICS, WORD_METRICS, WordKind
from albert.tasks.metrics.entities import EntityScore, find_entities
from albert.tasks.metrics.intervals import Interval, bootstrap_mean, bootstrap_metric, bootstrap_totals
from albert.tasks.metrics.race import LEVELS
from albert.tasks.metrics.task_score import METRICS, Metric
from albert.tasks.task_facts import TaskFacts, build_kind

Floats = NDArray[np.float64]
Totals = Callable[[Floats], float]


def find_intervals(
    facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any], *, seed: int = 0
) -> dict[str, Interval]:
    """The 95% interval of each metric that is a function of the examples, in points of 100.

    Not of the best threshold's scores: they are maxima over the very examples that would be drawn.
    """
    found = _FINDERS[facts.kind](facts, answers, examples, seed)
    return {name: _in_points(interval) for name, interval in found.items()}


def _draw_texts(
    facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any], seed: int
) -> dict[str, Interval]:
    return _draw_metrics(list_decided(facts, answers, examples), facts.metrics, seed)


def _draw_choices(
    facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any], seed: int
) -> dict[str, Interval]:
    decided = list_decided(facts, answers, examples)
    found = _draw_metrics(decided, facts.metrics or ("accuracy",), seed)
    levels = np.array([example.level for example in examples])
    if set(levels.tolist()) <= set(LEVELS):
        for level in LEVELS:
            if (own := levels == level).any():
                found[level] = bootstrap_mean(decided.is_right[own], seed=seed)
    return found


def _draw_embeddings(
    facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any], seed: int
) -> dict[str, Interval]:
    if any(example.label is None for example in examples):
        return {}  # the nearest of all texts is no matter of one example
    found = _draw_metrics(list_decided(facts, answers, examples), ("spearman", "pearson"), seed)
    return {**found, "score": found["spearman"]}


def _draw_metrics(decided: Decisions, metrics: Sequence[str], seed: int) -> dict[str, Interval]:
    def draw(metric: Metric) -> Interval:
        return bootstrap_metric(decided.given, golds=decided.golds, metric=metric, seed=seed)

    found = {
        name: bootstrap_mean(decided.is_right, seed=seed) if name == "accuracy" else draw(METRICS[name])
        for name in metrics
    }

    def mean(given: Any, /, *, golds: Any) -> float:
        return float(np.mean([METRICS[name](given, golds=golds) for name in metrics]))

    return {**found, "score": found[metrics[0]] if len(metrics) == 1 else draw(mean)}


def _draw_spans(
    facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any], seed: int
) -> dict[str, Interval]:
    questions = score_spans(facts, answers, examples)
    is_answerable = np.array(questions.is_answerable)
    parts = {"": np.ones(len(is_answerable), np.bool_)}
    if facts.has_impossible:
        parts |= {"has_answer_": is_answerable, "no_answer_": ~is_answerable}
    found = {
        f"{prefix}{name}": bootstrap_mean(np.array(getattr(questions, name))[own], seed=seed)
        for prefix, own in parts.items()
        if own.any()
        for name in ("exact", "f1")
    }
    return {**found, "score": found["f1"]}


def _draw_words(
    facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any], seed: int
) -> dict[str, Interval]:
    kind = build_kind(facts)
    assert isinstance(kind, WordKind)
    measures: dict[str, Totals] = {"word_accuracy": _find_accuracy, "macro_f1": _find_macro_f1}
    judges: Sequence[str] = facts.metrics or WORD_METRICS
    if kind.has_entities:
        measures = {**dict(zip(ENTITY_METRICS, _ENTITY_MEASURES, strict=True)), **measures}
        judges = facts.metrics or ENTITY_METRICS[:1]
    counts = np.array(
        [
            _count_text(answer.argmax(-1), example.labels, facts.labels, has_entities=kind.has_entities)
            for answer, example in zip(answers, examples, strict=True)
        ]
    )
    measures["score"] = lambda totals: float(np.mean([measures[name](totals) for name in judges]))
    return {name: bootstrap_totals(counts, measure=measure, seed=seed) for name, measure in measures.items()}


def _count_text(
    given: NDArray[np.int64], gold: Sequence[int], labels: Sequence[str], *, has_entities: bool
) -> Floats:
    """What a text adds to totals: its entities, then how often each label is right, given, and gold."""
    golds = np.array(gold, dtype=np.int64)
    size = len(labels)
    by_label = [np.bincount(each, minlength=size) for each in (golds[golds == given], given, golds)]
    entities = [0, 0, 0]
    if has_entities:
        wanted, found = (set(find_entities([labels[place] for place in each])) for each in (golds, given))
        entities = [len(wanted), len(found), len(wanted & found)]
    return np.array([*entities, *chain(*by_label)], dtype=np.float64)


def _find_accuracy(totals: Floats) -> float:
    right, _, gold = totals[3:].reshape(3, -1)
    return float(right.sum() / gold.sum())


def _find_macro_f1(totals: Floats) -> float:
    right, given, gold = totals[3:].reshape(3, -1)
    is_used = (both := given + gold) > 0
    return float(np.mean(2 * right[is_used] / both[is_used]))


def _measure_entities(name: str) -> Totals:
    return lambda totals: float(getattr(EntityScore(*(int(each) for each in totals[:3])), name))


_ENTITY_MEASURES = tuple(_measure_entities(name) for name in ("f1", "precision", "recall"))
_FINDERS: Mapping[str, Callable[..., dict[str, Interval]]] = {
    "texts": _draw_texts,
    "words": _draw_words,
    "spans": _draw_spans,
    "choices": _draw_choices,
    "embedding": _draw_embeddings,
}


def _in_points(interval: Interval) -> Interval:
    return replace(
        interval, value=100.0 * interval.value, low=100.0 * interval.low, high=100.0 * interval.high
    )
