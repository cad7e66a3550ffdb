"""Temperatures and thresholds: choose them on answers to the dev set, and report how good they are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert.errors import InputError
from albert.tasks.evaluation_result import Calibration, ThresholdReport
from albert.tasks.examples import Example, SpanExample, TokenExample, halve_examples, list_places
from albert.tasks.kinds.logits import merge_logits
from albert.tasks.kinds.span_answers import score_possible
from albert.tasks.metrics import Floats
from albert.tasks.metrics.calibration import (
    calibrate,
    expected_calibration_error,
    fit_temperature,
    list_reliability,
    negative_log_likelihood,
)
from albert.tasks.metrics.classification import mark_labels
from albert.tasks.metrics.squad import choose_threshold, find_best_thresholds, report_elsewhere
from albert.tasks.task_facts import TaskConfig

_NEVER = -1e9  # the logit of an option that a question does not have


def tune_facts(facts: TaskConfig, answers: Sequence[Any], examples: Sequence[Example]) -> TaskConfig:
    """Choose the temperature or the threshold by the answers to examples that were not trained on."""
    if facts.kind == "spans":
        if not facts.has_impossible:
            return facts
        spans = [example for example in examples if isinstance(example, SpanExample)]
        # With or without an answer all alike, the best threshold would tell none apart: the head's own is 0.
        is_one_sided = len({example.is_impossible for example in spans}) == 1
        threshold = 0.0 if is_one_sided else choose_threshold(score_possible(answers, spans))
        return facts.model_copy(update={"threshold": threshold})
    found = list_logits(facts, answers, examples)
    if found is None:
        return facts
    logits, golds = found
    return facts.model_copy(update={"temperature": fit_temperature(logits, golds=golds)})


def list_logits(
    facts: TaskConfig, answers: Sequence[Any], examples: Sequence[Any]
) -> tuple[Floats, NDArray[np.int64]] | None:
    """List every decision between classes as a row of logits and its gold class; None where there is none.

    Labels that are decided one by one are rows of two logits: 0 and the label's own.
    """
    if facts.label_kind == "number" or facts.kind not in ("texts", "words", "choices"):
        return None
    if facts.kind == "words":
        words = [label for each in examples if isinstance(each, TokenExample) for label in each.labels or ()]
        return np.concatenate(answers), np.array(words, dtype=np.int64)
    golds = [example.label for example in examples]
    if facts.kind == "choices":
        width = max(len(answer) for answer in answers)
        rows = [np.pad(answer, (0, width - len(answer)), constant_values=_NEVER) for answer in answers]
        return np.stack(rows), np.array(golds, dtype=np.int64)
    logits = np.stack(answers)
    if facts.label_kind == "one":
        return logits, np.array(golds, dtype=np.int64)
    marks = mark_labels([list_places(gold) for gold in golds], num_labels=logits.shape[1])
    flat = logits.ravel()
    return np.stack([np.zeros_like(flat), flat], axis=1), marks.ravel().astype(np.int64)


def measure_calibration(
    facts: TaskConfig,
    answers: Sequence[Any],
    examples: Sequence[Any],
    *,
    members: Sequence[tuple[Sequence[Any], float]],
    is_tuned_here: bool = False,
    seed: int = 0,
) -> Calibration | None:
    """Measure how far confidence lies from accuracy; None where nothing is decided between classes.

    `members` are the answers of each model, at its temperature already, and that temperature; `answers` are
    the ensemble's. A temperature chosen on these very examples (`is_tuned_here`) would flatter: then every
    model's answers to each half are taken at the temperature that is best for it on the other half.
    """
    found = list_logits(facts, answers, examples)
    if found is None:
        return None
    logits, golds = found
    temperature = members[0][1] if len(members) == 1 else None
    # Before the temperature, as the prior for 1 is about the model's own logits.
    own = 1.0 if temperature is None else temperature
    best = fit_temperature(logits * own, golds=golds) / own
    if is_tuned_here and len(golds) > 1:
        tables = [(list_logits(facts, each, examples), heat) for each, heat in members]
        given = [table[0] * heat for table, heat in tables if table is not None]
        order = np.random.default_rng(seed).permutation(len(golds))
        first, second = order[: len(order) // 2], order[len(order) // 2 :]
        logits = np.empty_like(given[0])
        for rows, others in ((first, second), (second, first)):
            scaled = [table[rows] / fit_temperature(table[others], golds=golds[others]) for table in given]
            # Each row is a decision between classes, also that on one label of several.
            logits[rows] = merge_logits(scaled, "one")
    probabilities = calibrate(logits, temperature=1.0)
    return Calibration(
        temperature=temperature,
        ece=expected_calibration_error(probabilities, golds=golds),
        loss=negative_log_likelihood(logits, golds=golds),
        best_temperature=best,
        bins=list_reliability(probabilities, golds=golds),
        is_tuned_here=is_tuned_here,
    )


def report_threshold(
    facts: TaskConfig,
    answers: Sequence[Any],
    examples: Sequence[Any],
    *,
    num_models: int,
    seed: int,
    is_tuned_here: bool = False,
) -> ThresholdReport | None:
    """Report the threshold in use, its source, and what one chosen on other articles would give."""
    if facts.kind != "spans" or not facts.has_impossible:
        return None
    questions = score_possible(answers, examples)
    source = "the model's own" if num_models == 1 else "the median of the models' own"
    if is_tuned_here:
        source += ", chosen on these very questions, which flatters"
    threshold = facts.threshold
    if threshold is None:
        threshold, source = choose_threshold(questions), "the best for these very questions, which flatters"
    best = find_best_thresholds(questions)
    try:
        first, second = halve_examples(examples, seed=seed)
    except InputError:  # questions on a single text have no other part
        return ThresholdReport(threshold, source, best)
    elsewhere = report_elsewhere(questions.keep(second), chosen_on=questions.keep(first))
    return ThresholdReport(threshold, source, best, elsewhere, len(first), len(second))
