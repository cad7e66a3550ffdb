"""The learning rate and the shape of every step, and the steps that fit into a time budget."""

import itertools
import math

import pytest

from albert.errors import InputError, SettingsError
from albert.settings import build_settings
from albert.training.schedules import Curriculum, ScheduleSettings, Stage
from albert.training.settings import PretrainSettings
from albert.training.timing import RecipeCost, ShapeCost, parse_duration


def test_published_schedule_at_every_step():
    """The paper's: 0.00176, 3,125 steps of warm-up, then the line from the first step to 0 at 125,000."""
    settings = ScheduleSettings(warmup_steps=3125)
    for step in range(125_001):
        expected = step / 3125 if step < 3125 else (125_000 - step) / 125_000
        factor = settings.find_factor(step, num_steps=125_000)
        assert math.isclose(factor, expected, rel_tol=1e-12, abs_tol=1e-12), step


@pytest.mark.parametrize("name", ["linear", "cosine", "stable"])
def test_other_schedules_warm_up_and_end_at_zero(name):
    settings = ScheduleSettings(name=name, warmup_share=0.1)
    factors = [settings.find_factor(step, num_steps=200) for step in range(201)]
    assert (factors[0], factors[10], factors[200]) == (0.0, 0.5, 0.0)
    assert max(factors) <= 1.0
    assert all(a >= b for a, b in itertools.pairwise(factors[20:]))


def test_stable_decays_at_the_end_and_constant_never():
    stable = ScheduleSettings(name="stable", decay_share=0.25)
    factors = [stable.find_factor(step, num_steps=100) for step in (0, 50, 75, 80, 99)]
    assert factors == [1, 1, 1, 0.8, 0.04]
    constant = ScheduleSettings(name="constant", warmup_steps=4)
    assert [constant.find_factor(step, num_steps=10) for step in (0, 2, 4, 9, 99)] == [0, 0.5, 1, 1, 1]


def test_warmup_steps_and_warmup_share_exclude_each_other():
    with pytest.raises(SettingsError, match="warmup_steps.*warmup_share"):
        build_settings(ScheduleSettings, values={"warmup_steps": 10, "warmup_share": 0.1})


def stages(*pairs):
    return tuple(Stage(until=until, value=value) for until, value in pairs)


CURRICULUM = Curriculum(
    num_steps=100, depth=6, length=128, batch_size=32, depths=stages((0.5, 2), (0.8, 4)),
    lengths=stages((0.7, 32)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("step", "depth", "length", "batch_size", "first_step"),
    [(0, 2, 32, 128, 0), (49, 2, 32, 128, 0), (50, 4, 32, 128, 0), (70, 4, 128, 32, 70), (80, 6, 128, 32, 70),
     (99, 6, 128, 32, 70)],
)  # fmt: skip
def test_shape_of_a_step(step, depth, length, batch_size, first_step):
    shape = CURRICULUM.find(step)
    assert (shape.depth, shape.length, shape.batch_size) == (depth, length, batch_size)
    assert shape.first_step == first_step  # a new depth alone continues with the same examples


def test_shapes_cover_the_run():
    assert [(shape.depth, shape.length, steps) for shape, steps in CURRICULUM.list_shapes()] == [
        (2, 32, range(50)), (4, 32, range(50, 70)), (4, 128, range(70, 80)), (6, 128, range(80, 100)),
    ]  # fmt: skip
    assert [CURRICULUM.find_end(step) for step in (0, 49, 50, 75, 99)] == [50, 50, 70, 80, 100]


def test_a_stage_is_never_deeper_than_the_model():
    shallow = Curriculum(num_steps=10, depth=3, length=64, batch_size=8, depths=stages((0.5, 2), (0.8, 6)))
    assert [shallow.find(step).depth for step in (0, 5, 7, 8)] == [2, 3, 3, 3]


def test_a_repeated_length_continues_with_its_examples():
    """Else the last stage would show the very examples, masks included, of an earlier one."""
    again = Curriculum(
        num_steps=100, depth=6, length=64, batch_size=32, lengths=stages((0.2, 64), (0.5, 32), (0.7, 64))
    )
    shapes = {step: again.find(step) for step in (0, 19, 20, 50, 69, 70, 99)}
    positions = {step: step - shape.first_step for step, shape in shapes.items()}
    assert positions == {0: 0, 19: 19, 20: 0, 50: 20, 69: 39, 70: 40, 99: 69}


def test_stages_must_be_in_order():
    values = {"depth_schedule": [{"until": 0.5, "value": 2}, {"until": 0.4, "value": 3}]}
    with pytest.raises(SettingsError, match="\\[0.5, 0.4\\]"):
        build_settings(PretrainSettings, values=values)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45s", 45), ("20m", 1200), ("2h", 7200), ("1h30m", 5400), ("1.5 h", 5400), ("1d", 86_400)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds
    for wrong in ("soon", "10", "0s", ""):
        with pytest.raises(InputError, match=f"'{wrong}'"):
            parse_duration(wrong)


def test_steps_that_fit_into_the_time():
    shapes = [ShapeCost("short", share=0.75, seconds=0.1), ShapeCost("long", share=0.25, seconds=0.5)]
    assert RecipeCost(shapes, pause_seconds=20.0).count_steps(120.0) == 500
    with pytest.raises(InputError, match="5 steps"):
        RecipeCost(shapes, pause_seconds=20.0).count_steps(21.0)
