"""`albert doctor` on a run that was cut short or damaged: what is broken, and how to go on."""

import json
from pathlib import Path
from typing import Any

import pytest

from albert.files import hold
from albert.text.folder import VOCABULARY_FILES
from albert.training.checkpoints import STATE_NAME, TENSORS_NAME
from albert.training.metrics import METRICS_NAME, MetricsLog
from albert.training.run_folder import LOCK_NAME
from tests.app.doctor.synthetic import HEALTHY, diagnose, spoil_tensors

DAMAGES = {
    "cut": (spoil_tensors, "the checksum does not fit"),
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
        "damaged: checkpoint step-2000",
    )
    assert reason in str(found.figures["step-2000"])
    assert "goes on from step 1000" in found.cure


def test_a_damaged_old_checkpoint_is_only_a_note(build):
    folder = build(num_done=2000)
    spoil_tensors(folder / "checkpoints" / "step-1000")
    (found,) = [found for found in diagnose(folder) if "checkpoint" in found.title]
    assert (found.severity, found.title) == ("note", "damaged: checkpoint step-1000")


def test_an_unfinished_run_is_told_how_to_go_on_unless_someone_is_at_work(build, story_corpus):
    folder = build(num_done=2000)
    (found,) = diagnose(folder)
    assert (found.kind, found.severity, found.title) == ("damaged", "warning", "the run is unfinished")
    assert (found.figures["step"], found.figures["of_steps"]) == (2000, 4000)
    assert f"--data {story_corpus} --out {folder} --resume" in found.cure
    with hold(folder / LOCK_NAME, busy=""):
        assert [found.title for found in diagnose(folder)] == [HEALTHY]
    assert [found.title for found in diagnose(folder)] == ["the run is unfinished"]


def test_an_error_that_ended_a_run_is_told_and_comes_first(build):
    folder = build(num_done=2000)
    log = MetricsLog(folder, first_step=2000, say=print, has_tensorboard=False)
    log.write("end", 2000, is_finished=False, error="No space left on device")
    log.close()
    (found,) = diagnose(folder)
    assert found.figures["ended_by"] == "No space left on device"
    assert found.cure.startswith("mend what ended it, then go on exactly: `albert pretrain ")


def test_a_run_of_several_processes_goes_on_with_as_many(build):
    (found,) = diagnose(build(num_done=2000, start={"threads": 1, "cores": 2, "processes": 2}))
    assert "`torchrun --nproc-per-node=2 -m albert pretrain " in found.cure


def test_a_run_that_the_guard_stopped_is_not_told_to_go_on_as_before(build):
    findings = diagnose(build(num_done=2000, skips=tuple(range(1996, 2001))))
    assert not [found for found in findings if "--resume" in found.cure]
    few = diagnose(build(num_done=2000, skips=tuple(range(1997, 2001))))
    assert [found for found in few if "--resume" in found.cure]


def test_a_finished_run_whose_model_was_not_written(build):
    folder = build()
    (folder / "model" / "config.json").unlink()
    (found,) = diagnose(folder)
    assert "the model was not written" in found.title
    assert "--resume" in found.cure


def test_a_finished_run_whose_weights_were_cut(build):
    folder = build()
    path = folder / "model" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    (found,) = diagnose(folder)
    assert (found.severity, found.title) == ("serious", "the model cannot be opened")
    assert "model.safetensors: truncated" in found.figures["reason"]
    assert "--resume" in found.cure


def test_a_finished_run_whose_vocabulary_is_lost(build):
    folder = build()
    for name in (*VOCABULARY_FILES, "tokenizer_config.json"):
        (folder / "model" / name).unlink(missing_ok=True)
    (found,) = diagnose(folder)
    assert (found.severity, found.title) == ("serious", "the model cannot be opened")
    assert "has no vocabulary" in found.figures["reason"]


def test_what_a_killed_save_left_over_and_what_a_living_one_is_writing(build):
    folder = build()
    aside = folder / "checkpoints" / ".step-4000.abc"
    aside.mkdir()
    (aside / TENSORS_NAME).write_bytes(bytes(2_000_000))
    found = diagnose(folder)[0]
    assert (found.kind, found.severity, found.figures["megabytes"]) == ("damaged", "note", 2.0)
    with hold(folder / LOCK_NAME, busy=""):
        assert [found.title for found in diagnose(folder)] == [HEALTHY]


@pytest.mark.parametrize("line", ["[" * 100_000, '{"step": ' + "1" * 5000 + "}", '{"step": "x"}'])
def test_lines_that_no_one_can_read_are_told(build, line):
    folder = build()
    with (folder / METRICS_NAME).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    (folder / "checkpoints" / "step-²").mkdir()  # a digit, and no number
    found = diagnose(folder)[0]
    assert (found.kind, found.title) == ("damaged", f"{METRICS_NAME} has lines that were cut")


def test_lines_that_were_cut(build):
    folder = build()
    path = folder / METRICS_NAME
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines) + lines[5][:30], encoding="utf-8")
    at_the_end = diagnose(folder)[0]
    assert (at_the_end.severity, at_the_end.figures["line"]) == ("note", str(len(lines) + 1))
    with hold(folder / LOCK_NAME, busy=""):  # it is being written
        assert [found.title for found in diagnose(folder)] == [HEALTHY]
    path.write_text("".join([*lines[:5], lines[5][:30] + "\n", *lines[6:]]), encoding="utf-8")
    (inside,) = diagnose(folder)
    assert (inside.kind, inside.severity, inside.figures["line"]) == ("damaged", "warning", "6")


def change_facts(folder: Path, **values: Any) -> None:
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}), encoding="utf-8")


def test_a_corpus_that_is_gone_or_another(build, tmp_path):
    folder = build(num_done=2000)
    change_facts(folder, data=str(tmp_path / "gone"))
    found = diagnose(folder)[0]
    assert (found.kind, found.severity, found.title) == ("damaged", "serious", "the corpus cannot be opened")
    assert str(tmp_path / "gone") in str(found.figures["reason"])


def test_another_corpus(build):
    folder = build(num_done=2000)
    change_facts(folder, corpus="0" * 64)
    found = diagnose(folder)[0]
    assert "not the one that the run began with" in found.title
    assert found.figures["began_with"] == "0" * 12
    assert found.cure == "put the old one back, or start a new run on this one"  # there is no model yet


def test_other_held_out_text(build):
    folder = build(num_done=2000)
    change_facts(folder, held_out="0" * 64)
    assert "the held-out text is not the one that the run began with" in diagnose(folder)[0].title
