"""Stages: which depth, length and batch a step has, and where its examples begin."""

import pytest

from albert.errors import SettingsError
from albert.settings import build_settings
from albert.training.curriculum import Curriculum, Stage
from albert.training.settings import PretrainSettings
from albert.training.timing import ShapeCost, fit_steps, parse_duration


def stages(*pairs):
    return tuple(Stage(until=until, value=value) for until, value in pairs)


CURRICULUM = Curriculum(
    num_steps=100,
    depth=6,
    length=128,
    batch_size=32,
    depths=stages((0.5, 2), (0.8, 4)),
    lengths=stages((0.7, 32)),
)


@pytest.mark.parametrize(
    ("step", "depth", "length", "batch_size", "first_step"),
    [(0, 2, 32, 128, 0), (49, 2, 32, 128, 0), (50, 4, 32, 128, 0), (70, 4, 128, 32, 70), (80, 6, 128, 32, 70),
     (99, 6, 128, 32, 70)],
)  # fmt: skip
def test_the_shape_of_a_step(step, depth, length, batch_size, first_step):
    shape = CURRICULUM.find(step)
    assert (shape.depth, shape.length, shape.batch_size) == (depth, length, batch_size)
    assert shape.first_step == first_step  # another depth alone goes on in the same row of examples


def test_the_shapes_in_a_row_make_up_the_run():
    assert [(shape.depth, shape.length, steps) for shape, steps in CURRICULUM.list_shapes()] == [
        (2, 32, range(50)), (4, 32, range(50, 70)), (4, 128, range(70, 80)), (6, 128, range(80, 100)),
    ]  # fmt: skip
    assert [CURRICULUM.find_end(step) for step in (0, 49, 50, 75, 99)] == [50, 50, 70, 80, 100]


def test_without_stages_every_step_is_full():
    plain = Curriculum(num_steps=10, depth=3, length=64, batch_size=8)
    assert {plain.find(step).depth for step in range(10)} == {3}
    assert plain.find_end(0) == 10


def test_a_stage_is_never_deeper_than_the_model():
    stages = (Stage(until=0.5, value=2), Stage(until=0.8, value=6))
    shallow = Curriculum(num_steps=10, depth=3, length=64, batch_size=8, depths=stages)
    assert [shallow.find(step).depth for step in (0, 5, 7, 8)] == [2, 3, 3, 3]


def test_stages_that_go_back_are_refused():
    values = {"depth_schedule": [{"until": 0.5, "value": 2}, {"until": 0.4, "value": 3}]}
    with pytest.raises(SettingsError, match="stages end at \\[0.5, 0.4\\]"):
        build_settings(PretrainSettings, values=values)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45s", 45), ("20m", 1200), ("2h", 7200), ("1h30m", 5400), ("1.5 h", 5400), ("1d", 86_400)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


def test_steps_that_fit_into_the_time():
    shapes = [ShapeCost(share=0.75, seconds=0.1), ShapeCost(share=0.25, seconds=0.5)]
    assert fit_steps(100.0, shapes) == 500


def test_a_length_that_comes_again_goes_on_with_its_examples():
    """Else the last stage would show the very examples, masks included, of an earlier one."""
    again = Curriculum(
        num_steps=100, depth=6, length=64, batch_size=32, lengths=stages((0.2, 64), (0.5, 32), (0.7, 64))
    )
    shapes = {step: again.find(step) for step in (0, 19, 20, 50, 69, 70, 99)}
    places = {step: step - shape.first_step for step, shape in shapes.items()}
    assert places == {0: 0, 19: 19, 20: 0, 50: 20, 69: 39, 70: 40, 99: 69}
