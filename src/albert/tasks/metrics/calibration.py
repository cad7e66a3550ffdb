"""Logits and gold classes come in; a temperature and the distance of confidence from accuracy go out.

Logits divided by the temperature keep their order: no answer changes, only how sure the model is of it.
Labels that are decided one by one (a sigmoid each) are rows of two logits: 0 and the label's own.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from albert.errors import InputError
from albert.tasks.metrics.pairs import Values, check_finite, check_pairs

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.25, 10.0


@dataclass(frozen=True)
class ReliabilityBin:
    """The answers whose confidence lies in (low, high]: how many, how sure on average, and how many right."""

    low: float
    high: float
    num_answers: int
    confidence: float
    accuracy: float


def fit_temperature(logits: Values, *, golds: Values) -> float:
    """The temperature with the smallest negative log-likelihood, between 0.25 and 10, and near 1 in doubt.

    A few answers that are all right (or no better than chance) would ask for 0 (or for infinity), and nothing
    would be left to tell sure from unsure. So 1 is known beforehand, as weakly as by an answer or two: with
    β = 1 ÷ temperature, β - log β is added to the sum. Both are convex in β: the one minimum is found.
    """
    table, rows = _read_logits(logits, golds)

    def loss(log_temperature: float) -> float:
        known = math.exp(-log_temperature) + log_temperature
        return _mean_loss(table, rows, math.exp(log_temperature)) + known / len(rows)

    limits = (math.log(MIN_TEMPERATURE), math.log(MAX_TEMPERATURE))
    found = minimize_scalar(loss, bounds=limits, method="bounded", options={"xatol": 1e-7})
    return math.exp(float(found.x))


def negative_log_likelihood(logits: Values, *, golds: Values, temperature: float = 1.0) -> float:
    """The mean over examples of -log p(gold class) at a temperature."""
    table, rows = _read_logits(logits, golds)
    return _mean_loss(table, rows, temperature)


def calibrate(logits: Values, *, temperature: float) -> NDArray[np.float64]:
    """Probabilities of the classes at a temperature; refused: one that is not above 0."""
    if not temperature > 0:
        raise InputError(f"temperature {temperature} is not above 0; 1 leaves probabilities as they are")
    probabilities: NDArray[np.float64] = softmax(np.asarray(logits, np.float64) / temperature, axis=-1)
    return probabilities


def expected_calibration_error(probabilities: Values, *, golds: Values, num_bins: int = 15) -> float:
    """How far confidence and accuracy lie apart, on average over examples.

    Examples are sorted by the probability of their answer into bins of equal width, each (low, high]; a bin
    counts |accuracy - mean confidence| as often as it has examples (Guo et al. 2017).
    """
    if num_bins < 1:
        raise InputError(f"{num_bins} bins; at least 1")
    table, rows = _read_logits(probabilities, golds)
    confidence, is_right = table.max(axis=1), table.argmax(axis=1) == rows
    bins = np.digitize(confidence, np.linspace(0, 1, num_bins + 1)[1:-1], right=True)
    gaps = np.bincount(bins, weights=is_right - confidence, minlength=num_bins)
    return float(np.abs(gaps).sum() / len(rows))


def list_reliability(
    probabilities: Values, *, golds: Values, num_bins: int = 10
) -> tuple[ReliabilityBin, ...]:
    """The bins of equal width that have answers, from the least sure to the surest."""
    table, rows = _read_logits(probabilities, golds)
    confidence, is_right = table.max(axis=1), table.argmax(axis=1) == rows
    edges = np.linspace(0, 1, num_bins + 1)
    places = np.digitize(confidence, edges[1:-1], right=True)
    found = []
    for place in np.unique(places).tolist():
        own = places == place
        means = (float(confidence[own].mean()), float(is_right[own].mean()))
        found.append(ReliabilityBin(float(edges[place]), float(edges[place + 1]), int(own.sum()), *means))
    return tuple(found)


def _mean_loss(table: NDArray[np.float64], rows: NDArray[Any], temperature: float) -> float:
    scores = log_softmax(table / temperature, axis=1)
    return float(-np.mean(scores[np.arange(len(rows)), rows]))


def _read_logits(logits: Values, golds: Values) -> tuple[NDArray[np.float64], NDArray[Any]]:
    check_pairs(logits, golds=golds)
    table, rows = np.asarray(logits, np.float64), np.asarray(golds)
    if table.ndim != 2:
        raise InputError(
            f"an array of shape {table.shape}; it needs a row for each example and a column for each class"
        )
    if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= table.shape[1]:
        raise InputError(f"gold classes must be whole numbers from 0 to {table.shape[1] - 1}")
    check_finite(table, name="value")
    return table, rows
