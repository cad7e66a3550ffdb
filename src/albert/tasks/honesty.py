"""Answers and examples come in; how honest probabilities and thresholds are goes out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from albert.tasks.tuning import Table, list_decisions


def measure_calibration(
    facts: TaskFacts,
    answers: Sequence[Any],
    examples: Sequence[Any],
    *,
    temperature: float | None,
    is_tuned_here: bool = False,
    seed: int = 0,
) -> Calibration | None:
    """How far confidence lies from accuracy; None where nothing is decided between classes.

    The answers are at `temperature` already, or each of several models' at its own. Where that was chosen on
    these very examples (`is_tuned_here`), it would flatter: each half of them is taken at a temperature that
    is chosen on the other.
    """
    found = list_decisions(facts, answers, examples)
    if found is None:
        return None
    logits, golds = found
    # As the model gave them: what is known of a temperature beforehand is known of these.
    own = 1.0 if temperature is None else temperature
    given = logits * own
    best = fit_temperature(given, golds=golds) / own
    if is_tuned_here and len(golds) > 1:
        logits = _temper_halves(given, golds, seed=seed)
    probabilities = calibrate(logits, temperature=1.0)
    return Calibration(
        temperature=temperature,
        ece=expected_calibration_error(probabilities, golds=golds),
        loss=negative_log_likelihood(logits, golds=golds),
        best_temperature=best,
        bins=list_reliability(probabilities, golds=golds),
        is_tuned_here=is_tuned_here,
    )


def _temper_halves(logits: Table, golds: NDArray[np.int64], *, seed: int) -> Table:
    """The decisions, each half of them at the temperature that is best for the other."""
    order = np.random.default_rng(seed).permutation(len(golds))
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    tempered: Table = logits.copy()
    for own, other in ((first, second), (second, first)):
        tempered[own] /= fit_temperature(logits[other], golds=golds[other])
    return tempered


def report_threshold(
    facts: TaskFacts,
    answers: Sequence[Any],
    examples: Sequence[Any],
    *,
    num_models: int,
    seed: int,
    is_tuned_here: bool = False,
) -> ThresholdReport | None:
    """The threshold that is used, where it is from, and what one chosen on other articles would give."""
    if facts.kind != "spans" or not facts.has_impossible:
        return None
    part = build_part(answers, examples)
    source = "the model's own" if num_models == 1 else "the median of the models' own"
    if is_tuned_here:
        source += ", chosen on these very questions, which flatters"
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
