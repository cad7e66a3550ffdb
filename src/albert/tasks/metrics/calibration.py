"""Calibration: temperature scaling, calibration error, and averages of probabilities for ensembles.

A temperature changes probabilities, but no predictions. Independent labels with a sigmoid each are rows of
two logits: 0 and the label's own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, logit, logsumexp

from albert.errors import InputError
from albert.tasks.metrics import Floats, Values, check_finite, check_pairs

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.25, 10.0
_MIN_PROBABILITY = 1e-12  # of a mean of probabilities, so that its logit is finite


@dataclass(frozen=True)
class ReliabilityBin:
    """Predictions with a confidence in (low, high]: how many, their mean confidence and their accuracy."""

    low: float
    high: float
    num_answers: int
    confidence: float
    accuracy: float


def fit_temperature(logits: Values, *, golds: Values) -> float:
    """Fit the temperature, from 0.25 to 10, with the lowest negative log-likelihood.

    For a few predictions that are all correct (or no better than chance) the optimum is 0 (or infinity). A
    weak prior for 1, worth one or two predictions, prevents that: with β = 1 ÷ temperature, β - log β is
    added to the sum. Both are convex in β, so the minimum is unique.

    Args:
        logits: A row of logits for each example.
        golds: The indices of the gold classes.
    """
    table, rows = _read_logits(logits, golds)

    def loss(log_temperature: float) -> float:
        prior = math.exp(-log_temperature) + log_temperature
        return _mean_loss(table, rows, math.exp(log_temperature)) + prior / len(rows)

    limits = (math.log(MIN_TEMPERATURE), math.log(MAX_TEMPERATURE))
    found = minimize_scalar(loss, bounds=limits, method="bounded", options={"xatol": 1e-7})
    return math.exp(float(found.x))


def negative_log_likelihood(logits: Values, *, golds: Values, temperature: float = 1.0) -> float:
    """Compute the mean of -log p(gold class) over the examples."""
    return _mean_loss(*_read_logits(logits, golds), temperature)


def _mean_loss(table: Floats, rows: NDArray[Any], temperature: float) -> float:
    scores = log_softmax(table / temperature, axis=1)
    return float(-np.mean(scores[np.arange(len(rows)), rows]))


def calibrate(logits: Values, *, temperature: float) -> Floats:
    """Compute the probabilities of logits [..., classes] at a temperature."""
    if not temperature > 0:
        raise InputError(f"temperature is {temperature}; set it above 0")
    probabilities: Floats = np.exp(log_softmax(np.asarray(logits, np.float64) / temperature, axis=-1))
    return probabilities


def expected_calibration_error(probabilities: Values, *, golds: Values, num_bins: int = 15) -> float:
    """Compute the mean |accuracy - mean confidence| over bins of equal width (Guo et al. 2017)."""
    bins = list_reliability(probabilities, golds=golds, num_bins=num_bins)
    gaps = [each.num_answers * abs(each.accuracy - each.confidence) for each in bins]
    return sum(gaps) / len(golds)


def list_reliability(
    probabilities: Values, *, golds: Values, num_bins: int = 10
) -> tuple[ReliabilityBin, ...]:
    """List the non-empty bins of equal width, in order of confidence."""
    if num_bins < 1:
        raise InputError(f"num_bins is {num_bins}; set it to at least 1")
    table, rows = _read_logits(probabilities, golds)
    confidence, is_correct = table.max(axis=1), table.argmax(axis=1) == rows
    edges = np.linspace(0, 1, num_bins + 1)
    indices = np.digitize(confidence, edges[1:-1], right=True)
    found = []
    for index in np.unique(indices).tolist():
        own = indices == index
        means = (float(confidence[own].mean()), float(is_correct[own].mean()))
        found.append(ReliabilityBin(float(edges[index]), float(edges[index + 1]), int(own.sum()), *means))
    return tuple(found)


def merge_softmax(members: Sequence[Floats]) -> Floats:
    """Compute the logits [..., classes] whose softmax is the mean of the members'."""
    merged: Floats = logsumexp(log_softmax(np.stack(members), axis=-1), axis=0) - np.log(len(members))
    return merged


def merge_sigmoid(members: Sequence[Floats]) -> Floats:
    """Compute the logits of independent labels whose sigmoid is the mean of the members'."""
    means = expit(np.stack(members)).mean(0)
    merged: Floats = logit(means.clip(_MIN_PROBABILITY, 1 - _MIN_PROBABILITY))
    return merged


def _read_logits(logits: Values, golds: Values) -> tuple[Floats, NDArray[Any]]:
    check_pairs(logits, golds=golds)
    table, rows = np.asarray(logits, np.float64), np.asarray(golds)
    if table.ndim != 2:
        raise InputError(f"logits have the shape {table.shape}; give a row for each example")
    if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= table.shape[1]:
        raise InputError(f"gold classes must be whole numbers from 0 to {table.shape[1] - 1}")
    check_finite(table, name="value")
    return table, rows
