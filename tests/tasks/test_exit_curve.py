"""Accuracy against speed of a model with early exits."""

import pytest

from albert.errors import InputError
from albert.tasks.classification import ClassificationConfig, TextExample
from albert.tasks.exit_curve import ExitCurve, ExitPoint, measure_folder
from tests.tasks.finetuned_folder import write_finetuned_folder
from tests.tasks.tables import NOUNS, SIZES

CONFIG = ClassificationConfig(
    task="classification", labels=("no", "yes"), metrics=("accuracy",), max_length=40, has_exits=True
)
TEXTS = [
    TextExample(f"{noun} {size}", f"the {noun} was {size}", None, int(size == "big"))
    for noun in NOUNS[:3]
    for size in SIZES[:3]
]


@pytest.fixture
def folder(tiny_folder, tmp_path):
    return write_finetuned_folder(tmp_path / "m", tiny_folder, CONFIG)


def test_a_curve_has_a_point_for_every_depth_and_every_patience(folder):
    curve = measure_folder(folder, TEXTS, max_tokens=30, num_rounds=2)
    assert [(point.patience, point.depth) for point in curve.depths] == [(None, 1), (None, 2), (None, 3)]
    assert [(point.patience, point.depth) for point in curve.patiences] == [(1, 3), (2, 3), (3, 3)]
    assert [point.mean_layers for point in curve.depths] == [1, 2, 3]
    assert 2 <= curve.patiences[0].mean_layers < 3
    assert [point.mean_layers for point in curve.patiences[1:]] == [3, 3]
    assert curve.full.speed == 1.0
    assert {point.score for point in curve.patiences[1:]} == {curve.full.score}
    assert all(point.seconds > 0 and point.speed > 0 for point in (*curve.depths, *curve.patiences))
    assert curve.num_examples == len(TEXTS)


def point(score, speed, patience=None, depth=6):
    return ExitPoint(patience, depth, score, depth / speed, 0.0, speed)


def test_the_fastest_point_within_the_loss_is_chosen():
    full, shallow = point(80.0, 1.0), point(79.2, 2.0, depth=3)
    points = (point(78.0, 2.4, 1), point(79.6, 1.8, 2), point(80.5, 1.3, 3))
    curve = ExitCurve((shallow, full), points, num_examples=10)
    assert curve.choose() == points[1]
    assert points[1].option == "--patience 2"
    assert curve.choose(max_loss=0.0) == points[2]
    assert curve.choose(max_loss=1.0) == shallow
    assert shallow.option == "--depth 3"
    assert curve.choose(max_loss=9.0) == points[0]
    assert ExitCurve((full,), points[:1], num_examples=10).choose() is None


def test_a_folder_without_exits_is_rejected(tiny_folder):
    with pytest.raises(InputError, match="has_exits=true"):
        measure_folder(tiny_folder, TEXTS)
