"""Answers, what is known of their examples and a seed come in; an interval for each metric goes out.

Examples are drawn with replacement: texts, questions, or, of words, whole texts, since the words of one are
no examples by themselves. What does not depend on a draw is computed once, so that it takes seconds.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.tasks.decisions import Decisions, list_decided, score_spans
from albert.tasks.kinds.words import ENTITY_METRICS, WORD_METRICS, WordKind
from albert.tasks.metrics.entities import EntityScore, find_entities
from albert.tasks.metrics.intervals import Interval, bootstrap_mean, bootstrap_times
from albert.tasks.metrics.race import LEVELS
from albert.tasks.metrics.weighted import WEIGHTED_METRICS, count_classes, find_accuracy, find_macro_f1
from albert.tasks.task_facts import TaskFacts, build_kind

Floats = NDArray[np.float64]


def find_intervals(
    facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any], *, seed: int = 0
) -> dict[str, Interval]:
    """The 95% interval of each metric that is a function of the examples, in points of 100.

    Not of the best threshold's scores: they are maxima over the very examples that would be drawn.
    """
    found = _FINDERS[facts.kind](facts, answers, examples, seed)
    return {name: interval.in_points() for name, interval in found.items()}


def _draw_texts(
    facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any], seed: int
) -> dict[str, Interval]:
    return _draw_metrics(list_decided(facts, answers, examples), facts.metrics, seed, judges=facts.metrics)


def _draw_choices(
    facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any], seed: int
) -> dict[str, Interval]:
    decided, metrics = list_decided(facts, answers, examples), facts.metrics or ("accuracy",)
    found = _draw_metrics(decided, metrics, seed, judges=metrics)
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
    metrics = ("spearman", "pearson")
    return _draw_metrics(list_decided(facts, answers, examples), metrics, seed, judges=metrics[:1])


def _draw_metrics(
    decided: Decisions, metrics: Sequence[str], seed: int, *, judges: Sequence[str]
) -> dict[str, Interval]:
    prepared = {name: WEIGHTED_METRICS[name](decided.given, decided.golds) for name in metrics}

    def measure(times: Floats) -> dict[str, float]:
        return _with_score({name: metric(times) for name, metric in prepared.items()}, judges)

    return bootstrap_times(len(decided.golds), measure=measure, seed=seed)


def _with_score(values: dict[str, float], judges: Sequence[str]) -> dict[str, float]:
    return {**values, "score": sum(values[name] for name in judges) / len(judges)}


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
    decided = list_decided(facts, answers, examples)
    rows = np.repeat(np.arange(len(examples)), [len(example.words) for example in examples])
    classes = count_classes(decided.given, decided.golds, num_classes=len(facts.labels), rows=rows)
    entities = _count_entities(facts, answers, examples) if kind.has_entities else None
    judges = facts.metrics or (ENTITY_METRICS[:1] if kind.has_entities else WORD_METRICS)

    def measure(times: Floats) -> dict[str, float]:
        totals = classes.sum(times)
        values = {"word_accuracy": find_accuracy(totals), "macro_f1": find_macro_f1(totals)}
        if entities is not None:
            score = EntityScore(*(int(total) for total in times @ entities))
            values |= zip(ENTITY_METRICS, (score.f1, score.precision, score.recall), strict=True)
        return _with_score(values, judges)

    return bootstrap_times(len(examples), measure=measure, seed=seed)


def _count_entities(facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any]) -> Floats:
    """How many entities each text has, how many were given, and how many of these are right."""
    counts = []
    for answer, example in zip(answers, examples, strict=True):
        sides = (example.labels, answer.argmax(-1))
        gold, given = (set(find_entities([facts.labels[place] for place in side])) for side in sides)
        counts.append((len(gold), len(given), len(gold & given)))
    return np.array(counts, dtype=np.float64)


_FINDERS: Mapping[str, Callable[..., dict[str, Interval]]] = {
    "texts": _draw_texts,
    "words": _draw_words,
    "spans": _draw_spans,
    "choices": _draw_choices,
    "embedding": _draw_embeddings,
}
