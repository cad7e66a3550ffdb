"""The curve of accuracy against speed that one model with exits has."""

import pytest

from albert.errors import InputError
from albert.pretrained.folder import load_vocabulary, save_model
from albert.pretrained.huggingface import TASK_NAME
from albert.tasks.examples import TextExample
from albert.tasks.exit_curve import ExitCurve, ExitPoint, measure_folder
from albert.tasks.kinds.texts import ExitTextKind
from albert.tasks.task_facts import TaskConfig, format_facts
from tests.tasks.kinds.learning import load_for

KIND = ExitTextKind(("no", "yes"), ("accuracy",))
TEXTS = [
    TextExample(str(place), f"the {noun} was {size}", None, place % 2)
    for place, (noun, size) in enumerate(
        (n, s) for n in ("dog", "man", "ship") for s in ("big", "old", "new")
    )
]


@pytest.fixture
def folder(tiny_folder, tmp_path):
    """Fresh classifiers: the layers agree on some texts and not on others."""
    save_model(
        tmp_path / "m",
        load_for(KIND, tiny_folder),
        tokenizer=load_vocabulary(tiny_folder),
        labels=KIND.labels,
    )
    facts = TaskConfig(task="one", kind="texts", labels=KIND.labels, metrics=KIND.metrics, has_exits=True)
    (tmp_path / "m" / TASK_NAME).write_text(format_facts(facts))
    return tmp_path / "m"


def test_a_point_for_every_depth_and_every_patience(folder):
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


def test_the_fastest_way_within_half_a_point_is_chosen_be_it_a_patience_or_a_depth():
    whole, shallow = point(80.0, 1.0), point(79.2, 2.0, depth=3)
    points = (point(78.0, 2.4, 1), point(79.6, 1.8, 2), point(80.5, 1.3, 3))
    curve = ExitCurve((shallow, whole), points, num_examples=10)
    assert curve.choose() == points[1]
    assert points[1].option == "--patience 2"
    assert curve.choose(max_loss=0.0) == points[2]
    assert curve.choose(max_loss=1.0) == shallow
    assert shallow.option == "--depth 3"
    assert curve.choose(max_loss=9.0) == points[0]
    assert ExitCurve((whole,), points[:1], num_examples=10).choose() is None


@pytest.mark.parametrize(("layers", "speed"), [(6.0, 1.02), (5.9, 0.98)])
def test_what_goes_through_all_layers_or_is_slower_is_not_chosen(layers, speed):
    patient = ExitPoint(6, 6, 80.0, layers, 0.0, speed)
    assert ExitCurve((point(80.0, 1.0),), (patient,), num_examples=10).choose() is None


def test_a_folder_without_exits_has_no_curve(tiny_folder, folder):
    with pytest.raises(InputError, match="has no exits; fine-tune a model with has_exits=true"):
        measure_folder(tiny_folder, TEXTS)
    with pytest.raises(InputError, match="no examples to measure a curve on"):
        measure_folder(folder, [])
