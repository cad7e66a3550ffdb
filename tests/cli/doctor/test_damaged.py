"""The checks of damaged and unfinished runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from albert.files import hold
from albert.text.folder import VOCABULARY_FILES
from albert.training.checkpoints import STATE_NAME, TENSORS_NAME
from albert.training.run_folder import LOCK_NAME, MetricsLog
from tests.cli.doctor.synthetic import HEALTHY, UNFINISHED, diagnose, spoil_tensors

DAMAGES = {
    "cut": (spoil_tensors, "the checksum does not match"),
    "no tensors": (lambda place: (place / TENSORS_NAME).unlink(), "missing"),
    "no state": (lambda place: (place / STATE_NAME).unlink(), "No such file"),
    "half a state": (lambda place: (place / STATE_NAME).write_text('{"step"'), "not valid JSON"),
}


@pytest.mark.parametrize(("spoil", "reason"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it(build, spoil, reason):
    folder = build(num_done=2000)
    spoil(folder / "checkpoints" / "step-2000")
    found = diagnose(folder)[0]
    assert (found.kind, found.severity, found.title) == (
        "damaged",
        "serious",
        "damaged checkpoint: step-2000",
    )
    assert reason in str(found.figures["step-2000"])
    assert "continues from step 1000" in found.hint


def test_a_damaged_old_checkpoint_is_only_a_note(build):
    folder = build(num_done=2000)
    spoil_tensors(folder / "checkpoints" / "step-1000")
    (found,) = [found for found in diagnose(folder) if "checkpoint" in found.title]
    assert (found.severity, found.title) == ("note", "damaged checkpoint: step-1000")


def test_an_unfinished_run_is_told_how_to_go_on_unless_someone_is_at_work(build, story_corpus):
    folder = build(num_done=2000)
    (found,) = diagnose(folder)
    assert (found.kind, found.severity, found.title) == ("damaged", "warning", UNFINISHED)
    assert (found.figures["step"], found.figures["of_steps"]) == (2000, 4000)
    assert f"--data {story_corpus} --out {folder} --resume" in found.hint
    with hold(folder / LOCK_NAME, busy=""):
        assert [found.title for found in diagnose(folder)] == [HEALTHY]
    assert [found.title for found in diagnose(folder)] == [UNFINISHED]


def test_an_error_that_ended_a_run_is_told_and_comes_first(build):
    folder = build(num_done=2000)
    log = MetricsLog(folder, first_step=2000, say=print, has_tensorboard=False)
    log.write("end", 2000, is_finished=False, error="No space left on device")
    log.close()
    (found,) = diagnose(folder)
    assert found.figures["ended_by"] == "No space left on device"
    assert found.hint.startswith("Resume it after fixing the error: `albert pretrain ")


def test_a_run_of_several_processes_goes_on_with_as_many(build):
    (found,) = diagnose(build(num_done=2000, start={"threads": 1, "cores": 2, "processes": 2}))
    assert "`torchrun --nproc-per-node=2 -m albert pretrain " in found.hint


def test_a_run_that_the_guard_stopped_is_not_told_to_go_on_as_before(build):
    findings = diagnose(build(num_done=2000, skips=tuple(range(1996, 2001))))
    assert not [found for found in findings if "--resume" in found.hint]
    few = diagnose(build(num_done=2000, skips=tuple(range(1997, 2001))))
    assert [found for found in few if "--resume" in found.hint]


def test_a_finished_run_whose_model_was_not_written(build):
    folder = build()
    (folder / "model" / "config.json").unlink()
    (found,) = diagnose(folder)
    assert "the model was not written" in found.title
    assert "--resume" in found.hint


def test_a_finished_run_whose_weights_were_cut(build):
    folder = build()
    path = folder / "model" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    (found,) = diagnose(folder)
    assert (found.severity, found.title) == ("serious", "the model cannot be loaded")
    assert "model.safetensors: truncated" in found.figures["reason"]
    assert "--resume" in found.hint


def test_a_finished_run_whose_vocabulary_is_lost(build):
    folder = build()
    for name in (*VOCABULARY_FILES, "tokenizer_config.json"):
        (folder / "model" / name).unlink(missing_ok=True)
    (found,) = diagnose(folder)
    assert (found.severity, found.title) == ("serious", "the model cannot be loaded")
    assert "has no vocabulary" in found.figures["reason"]


def change_facts(folder: Path, **values: Any) -> None:
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}), encoding="utf-8")


def test_a_missing_corpus(build, tmp_path):
    folder = build(num_done=2000)
    change_facts(folder, data=str(tmp_path / "gone"))
    found = diagnose(folder)[0]
    assert (found.kind, found.severity, found.title) == ("damaged", "serious", "the corpus cannot be opened")
    assert str(tmp_path / "gone") in str(found.figures["reason"])
