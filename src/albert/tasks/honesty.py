"""Answers and examples come in; how honest probabilities and thresholds are goes out."""

from collections.abc import Sequence
from typing import Any

from albert.errors import InputError
from albert.tasks.evaluation_result import Calibration, ThresholdReport
from albert.tasks.kinds.span_scores import build_part
from albert.tasks.metrics.calibration import (
    calibrate,
    expected_calibration_error,
    fit_temperature,
    list_reliability,
    negative_log_likelihood,
)
from albert.tasks.metrics.squad_threshold import (
    choose_threshold,
    find_best_thresholds,
    report_elsewhere,
    select_questions,
)
from albert.tasks.selection import halve_examples
from albert.tasks.task_facts import TaskFacts
from albert.tasks.tuning import list_decisions


def measure_calibration(
    facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any], *, temperature: float | None
) -> Calibration | None:
    """How far confidence lies from accuracy; None where nothing is decided between classes.

    The answers are at `temperature` already, or each of several models' at its own.
    """
    found = list_decisions(facts, answers, examples)
    if found is None:
        return None
    logits, golds = found
    probabilities = calibrate(logits, temperature=1.0)
    return Calibration(
        temperature=temperature,
        ece=expected_calibration_error(probabilities, golds=golds),
        loss=negative_log_likelihood(logits, golds=golds),
        best_temperature=fit_temperature(logits, golds=golds),
        bins=list_reliability(probabilities, golds=golds),
    )


def report_threshold(
    facts: TaskFacts, answers: Sequence[Any], examples: Sequence[Any], *, num_models: int, seed: int
) -> ThresholdReport | None:
    """The threshold that is used, where it is from, and what one chosen on other articles would give."""
    if facts.kind != "spans" or not facts.has_impossible:
        return None
    part = build_part(answers, examples)
    source = "the model's own" if num_models == 1 else "the mean of the models' own"
    threshold = facts.threshold
    if threshold is None:
        threshold, source = choose_threshold(part), "the best for these very questions, which flatters"
    best = find_best_thresholds(part)
    try:
        halves = halve_examples(examples, seed=seed)
    except InputError:  # questions on a single text have no other part
        return ThresholdReport(threshold, source, best)
    first, second = (
        select_questions(part, is_kept=[place in own for place in range(len(examples))])
        for own in map(frozenset, halves)
    )
    elsewhere = report_elsewhere(second, chosen_on=first)
    return ThresholdReport(threshold, source, best, elsewhere, len(halves[0]), len(halves[1]))
