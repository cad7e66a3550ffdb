"""Answers to questions and what is known of them come in; SQuAD's metrics go out, in points of 100."""

from collections.abc import Sequence

from albert.errors import InputError
from albert.tasks.examples import SpanExample
from albert.tasks.kinds.span_answers import SpanAnswer
from albert.tasks.metrics.squad import SquadScores, score_questions, score_squad, summarise_squad
from albert.tasks.metrics.squad_threshold import (
    SquadPart,
    apply_threshold,
    choose_threshold,
    find_best_thresholds,
)


def score_answered(answers: Sequence[SpanAnswer], examples: Sequence[SpanExample]) -> dict[str, float]:
    """Exact match and F1 as SQuAD 1.1 has them: every question has an answer, and gets one."""
    golds = [_list_golds(example, has_impossible=False) for example in examples]
    scores = score_squad([answer.best.text for answer in answers], golds=golds, version="1.1").overall
    return {"exact": scores.exact, "f1": scores.f1, "score": scores.f1}


def score_possible(
    answers: Sequence[SpanAnswer], examples: Sequence[SpanExample], *, threshold: float | None
) -> dict[str, float]:
    """Exact match and F1 as SQuAD 2.0 has them, where questions whose odds lie above the threshold have none.

    Without a threshold it is the best one for these very questions, which flatters a little: choose it on
    others and give it. `best_exact` and `best_f1` are those of the official script's search.
    """
    part = build_part(answers, examples)
    threshold = choose_threshold(part) if threshold is None else threshold
    scores = summarise_squad(apply_threshold(part, threshold=threshold))
    best = find_best_thresholds(part)
    return {
        **_flatten(scores),
        "best_exact": best.best_exact,
        "best_f1": best.best_f1,
        "threshold": threshold,
        "score": scores.overall.f1,
    }


def build_part(answers: Sequence[SpanAnswer], examples: Sequence[SpanExample]) -> SquadPart:
    """The scores of the best answers, before any threshold, and the odds for none: what thresholds need."""
    golds = [_list_golds(example, has_impossible=True) for example in examples]
    questions = score_questions([answer.best.text for answer in answers], golds=golds, version="2.0")
    return SquadPart(questions, [answer.null_odds for answer in answers])


def _flatten(scores: SquadScores) -> dict[str, float]:
    parts = {"": scores.overall, "has_answer_": scores.has_answer, "no_answer_": scores.no_answer}
    return {
        f"{prefix}{name}": getattr(part, name)
        for prefix, part in parts.items()
        if part is not None
        for name in ("exact", "f1")
    }


def _list_golds(example: SpanExample, *, has_impossible: bool) -> tuple[str, ...]:
    """The texts that are right; none for an impossible question. Refused: one of which nothing is known."""
    if has_impossible and example.is_impossible:
        return ()
    if not example.answers:
        known = "an answer, or to be marked as impossible" if has_impossible else "an answer"
        raise InputError(
            f"question {example.id!r} cannot be scored without {known}; leave out what is only to be answered"
        )
    return tuple(answer.text for answer in example.answers)
