"""The fitted temperature is optimal, and the calibration error is that of Guo et al. 2017."""

import math
import random
from itertools import pairwise

import numpy as np
import pytest

from albert.errors import InputError
from albert.tasks.metrics.calibration import (
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    calibrate,
    expected_calibration_error,
    fit_temperature,
    negative_log_likelihood,
)


def draw_golds(logits, *, temperature, seed):
    """Draw golds from the probabilities at a temperature."""
    rng = np.random.default_rng(seed)
    return np.array([rng.choice(len(row), p=row) for row in calibrate(logits, temperature=temperature)])


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
def test_the_temperature_of_the_golds_is_recovered(temperature):
    logits = np.random.default_rng(1).normal(scale=3 * temperature, size=(8_000, 4))
    golds = draw_golds(logits, temperature=temperature, seed=2)
    found = fit_temperature(logits, golds=golds)
    assert found == pytest.approx(temperature, rel=0.06)
    before = expected_calibration_error(calibrate(logits, temperature=1.0), golds=golds)
    after = expected_calibration_error(calibrate(logits, temperature=found), golds=golds)
    assert after < 0.02
    assert after <= before + 0.005
    assert temperature == 1.0 or before > 0.05


def test_no_temperature_of_a_grid_is_better():
    def loss(logits, golds, temperature):
        prior = 1 / temperature - math.log(1 / temperature)
        return len(golds) * negative_log_likelihood(logits, golds=golds, temperature=temperature) + prior

    rng = np.random.default_rng(3)
    for number in [40] * 20 + [1000] * 5:
        logits = rng.normal(scale=rng.uniform(0.5, 8), size=(number, 3))
        golds = np.where(rng.random(number) < 0.7, logits.argmax(axis=1), rng.integers(3, size=number))
        found = fit_temperature(logits, golds=golds)
        grid = np.geomspace(MIN_TEMPERATURE, MAX_TEMPERATURE, 200)
        assert all(loss(logits, golds, found) <= loss(logits, golds, other) + 1e-6 for other in grid)
        if number == 1000:
            near = found * np.linspace(0.95, 1.05, 101)
            plain = [negative_log_likelihood(logits, golds=golds, temperature=each) for each in near]
            assert near[np.argmin(plain)] == pytest.approx(found, rel=0.01)


def test_the_loss_is_the_mean_negative_log_likelihood():
    logits = [[math.log(3), 0.0], [0.0, math.log(4)]]
    assert negative_log_likelihood(logits, golds=[0, 0]) == pytest.approx(
        -(math.log(3 / 4) + math.log(1 / 5)) / 2
    )
    assert negative_log_likelihood([[1e4, 0.0]], golds=[1]) == pytest.approx(1e4)


def test_the_temperature_is_limited():
    logits = np.array([[0.5, 0.0], [0.0, 0.6]] * 500)
    golds = np.array([0, 1] * 500)
    assert fit_temperature(logits, golds=golds) == pytest.approx(MIN_TEMPERATURE, rel=1e-3)
    assert fit_temperature(4 * logits, golds=1 - golds) == pytest.approx(MAX_TEMPERATURE, rel=1e-3)


def calibration_error_of(probabilities, golds, num_bins):
    """Compute the error bin by bin, as in Guo et al. 2017."""
    total = 0.0
    edges = np.linspace(0, 1, num_bins + 1)
    for low, high in pairwise(edges):
        pairs = zip(probabilities, golds, strict=True)
        own = [(max(row), row.index(max(row)) == gold) for row, gold in pairs if low < max(row) <= high]
        if own:
            share = sum(right for _, right in own) / len(own)
            confidence = sum(value for value, _ in own) / len(own)
            total += len(own) / len(golds) * abs(share - confidence)
    return total


def test_the_calibration_error_equals_the_plain_definition():
    rng = random.Random(5)
    for _ in range(1_000):
        # Sixteenths hit the borders of 2, 4, 8 and 16 bins exactly.
        tops = [rng.randint(8, 16) / 16 for _ in range(rng.randint(1, 30))]
        rows = [[top, 1 - top] if rng.random() < 0.5 else [1 - top, top] for top in tops]
        golds = [rng.randrange(2) for _ in rows]
        num_bins = rng.choice([1, 2, 4, 8, 15, 16])
        wanted = calibration_error_of(rows, golds, num_bins)
        found = expected_calibration_error(rows, golds=golds, num_bins=num_bins)
        assert found == pytest.approx(wanted, abs=1e-12)


def test_invalid_values_are_rejected():
    for logits, golds, value in (
        ([[0.0, 1.0]], [2], "0 to 1"),
        ([0.0, 1.0], [0, 1], r"\(2,\)"),
        ([[0.0, math.nan]], [0], "nan"),
    ):
        with pytest.raises(InputError, match=value):
            fit_temperature(logits, golds=golds)
    with pytest.raises(InputError, match="temperature is 0"):
        calibrate([[0.0, 1.0]], temperature=0)
