"""Learning rates, point by point."""

import itertools
import math

import pytest

from albert.errors import SettingsError
from albert.settings import build_settings
from albert.training.schedules import ScheduleSettings, find_factor


def published(step: int) -> float:
    """The paper's: 0.00176, 3,125 steps of warm-up, then the line from the first step to 0 at 125,000."""
    return 0.00176 * step / 3125 if step < 3125 else 0.00176 * (125_000 - step) / 125_000


def test_the_published_schedule_at_every_step():
    settings = ScheduleSettings(warmup_steps=3125)
    for step in range(125_001):
        factor = find_factor(settings, step, num_steps=125_000)
        assert math.isclose(0.00176 * factor, published(step), rel_tol=1e-12, abs_tol=1e-15), step


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (0, 0.0),
        (1, 5.632e-7),
        (3124, 0.00175943680),
        (3125, 0.001716),
        (64_062, 0.00085800704),
        (125_000, 0.0),
    ],
)
def test_the_published_schedule_in_numbers(step, rate):
    factor = find_factor(ScheduleSettings(warmup_steps=3125), step, num_steps=125_000)
    assert 0.00176 * factor == pytest.approx(rate, rel=1e-9)


@pytest.mark.parametrize("name", ["linear", "cosine", "stable"])
def test_every_other_schedule_warms_up_and_ends_at_zero(name):
    settings = ScheduleSettings(name=name, warmup_share=0.1)
    factors = [find_factor(settings, step, num_steps=200) for step in range(201)]
    assert factors[0] == 0.0
    assert factors[10] == 0.5
    assert factors[200] == 0.0
    assert max(factors) <= 1.0
    assert all(a >= b for a, b in itertools.pairwise(factors[20:]))


def test_stable_stays_and_then_falls():
    settings = ScheduleSettings(name="stable", decay_share=0.25)
    assert [find_factor(settings, step, num_steps=100) for step in (0, 50, 75, 80, 99)] == [
        1,
        1,
        1,
        0.8,
        0.04,
    ]


def test_constant_never_falls():
    settings = ScheduleSettings(name="constant", warmup_steps=4)
    assert [find_factor(settings, step, num_steps=10) for step in (0, 2, 4, 9, 99)] == [0, 0.5, 1, 1, 1]


def test_two_answers_to_one_question_are_refused():
    with pytest.raises(SettingsError, match="warmup_steps 10 and warmup_share 0.1"):
        build_settings(ScheduleSettings, values={"warmup_steps": 10, "warmup_share": 0.1})
