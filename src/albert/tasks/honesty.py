"""Answers and examples come in; how honest probabilities and thresholds are goes out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.errors import InputError
from albert.tasks.evaluation_result import Calibration, ThresholdReport
from albert.tasks.kinds.logits import merge_logits
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
from albert.tasks.tuning import Table, list_logits


def measure_calibration(
    facts: TaskFacts,
    answers: Sequence[Any],
    examples: Sequence[Any],
    *,
    members: Sequence[tuple[Sequence[Any], float]],
    is_tuned_here: bool = False,
    seed: int = 0,
) -> Calibration | None:
    """How far confidence lies from accuracy; None where nothing is decided between classes.

    `members` are what each model says, at its temperature already, and that temperature; `answers` are theirs
    together. Where a temperature was chosen on these very examples (`is_tuned_here`), it would flatter: of
    each half, every model's answers are taken at the temperature that is best for it on the other.
    """
    found = list_logits(facts, answers, examples)
    if found is None:
        return None
    logits, golds = found
    temperature = members[0][1] if len(members) == 1 else None
    # As the model gave them: what is known of a temperature beforehand is known of these.
    own = 1.0 if temperature is None else temperature
    best = fit_temperature(logits * own, golds=golds) / own
    if is_tuned_here and len(golds) > 1:
        logits = _temper_halves(_list_given(facts, members, examples), golds, seed=seed)
    probabilities = calibrate(logits, temperature=1.0)
    return Calibration(
        temperature=temperature,
        ece=expected_calibration_error(probabilities, golds=golds),
        loss=negative_log_likelihood(logits, golds=golds),
        best_temperature=best,
        bins=list_reliability(probabilities, golds=golds),
        is_tuned_here=is_tuned_here,
    )


def _list_given(
    facts: TaskFacts, members: Sequence[tuple[Sequence[Any], float]], examples: Sequence[Any]
) -> list[Table]:
    """The decisions of each model as it gave them, before its temperature."""
    found = [(list_logits(facts, answers, examples), heat) for answers, heat in members]
    return [decisions[0] * heat for decisions, heat in found if decisions is not None]


def _temper_halves(given: Sequence[Table], golds: NDArray[np.int64], *, seed: int) -> Table:
    """The decisions of all models, each half of them at the temperatures that are best for the other."""
    order = np.random.default_rng(seed).permutation(len(golds))
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    merged: Table = np.empty_like(given[0])
    for own, other in ((first, second), (second, first)):
        tempered = [table[own] / fit_temperature(table[other], golds=golds[other]) for table in given]
        # Each row is a decision between classes here, that on one label of several, too.
        merged[own] = merge_logits(tempered, "one")
    return merged


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
