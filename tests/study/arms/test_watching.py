"""How far arms are that other processes train: read from their folders, and shown while one waits."""

import json

import pytest

from albert.study.arms import ablation
from albert.study.arms.ablation import run_ablation, show_units
from albert.study.arms.results import Unit
from albert.study.asking import Ask


class Screen:
    """Keeps what is shown."""

    def __init__(self):
        self.shown = []

    def say(self, text):
        """Not asked here."""

    def show(self, stage, message, *, fraction=None):
        self.shown.append((stage, message, fraction))


def build_units(folder, steps):
    """Units of 100 steps, by arm: at a step, `finished`, `failed`, or None where nothing is begun."""
    units = {}
    for arm, place in steps.items():
        unit = Unit(folder, arm, 0)
        units[unit] = 100
        run_dir = unit.folder / "pretrain"
        if place is None:
            continue
        run_dir.mkdir(parents=True)
        if isinstance(place, int):
            records = [{"kind": "train", "step": step} for step in (0, place)]
            (run_dir / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
        else:
            (unit.folder / {"finished": "result.json", "failed": "failure.json"}[place]).write_text("{}")
    return units


@pytest.mark.parametrize(
    ("steps", "message", "fraction"),
    [
        ({"all": 20, "none": None}, "all, seed 0: step 20 of 100", 0.1),
        ({"all": 20, "none": 40}, "all, seed 0: step 20 of 100; none, seed 0: step 40 of 100", 0.3),
        ({"all": "finished", "none": 40}, "none, seed 0: step 40 of 100", 0.7),
        ({"all": "failed", "none": 100}, "none, seed 0: trained, is asked", 1.0),
    ],
)
def test_units_tell_how_far_they_are(steps, message, fraction, tmp_path):
    screen = Screen()
    show_units(build_units(tmp_path, steps), screen)
    assert screen.shown == [("training", message, pytest.approx(fraction))]


def test_of_many_units_some_are_named(tmp_path):
    screen = Screen()
    show_units(build_units(tmp_path, {f"arm-{number}": 50 for number in range(9)}), screen)
    ((_, message, _),) = screen.shown
    assert message.startswith("arm-0, seed 0: step 50 of 100; arm-1, seed 0: ")
    assert message.endswith("; 5 more")


def test_a_study_of_two_workers_shows_their_steps(tiny_study, story_corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(ablation, "_SECONDS_BETWEEN_LOOKS", 0.02)
    screen = Screen()
    ask = Ask(out=tmp_path / "study", data=str(story_corpus), overrides=("num_seeds=1",), num_workers=2)
    run_ablation(str(tiny_study), ask, reporter=screen)
    told = [message for stage, message, _ in screen.shown if stage == "training"]
    assert any("all, seed 0: step " in message and " of 6" in message for message in told)
