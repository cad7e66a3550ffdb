"""No room on the disk, or a damaged checkpoint: nothing is lost, and the run goes on later."""

import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from tests.conftest import read_tree


@contextmanager
def no_room_for(num_bytes: int) -> Iterator[None]:
    """No file larger than that can be written: what a full disk does to a large file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_no_room_to_begin_leaves_nothing(finetune, data, tmp_path):
    with no_room_for(10):
        outcome = finetune("classification", data)
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1].startswith(
        f"error: {tmp_path / 'run'}: cannot be written (File too large)"
    )
    assert "make room, or choose another --out" in outcome.err
    assert not (tmp_path / "run").exists()


def test_no_room_for_checkpoints_says_what_to_do_and_goes_on_when_there_is(finetune, data, tmp_path):
    with no_room_for(20_000):
        outcome = finetune("classification", data)
    assert outcome.code == 2
    assert "Training continues" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("error: ")
    assert "Free some space and use --resume" in outcome.err.splitlines()[-1]
    assert not list((tmp_path / "run" / "checkpoints").iterdir())
    assert finetune("classification", data, "--resume").code == 0


def test_no_room_for_the_model_loses_nothing(finetune, data, tmp_path):
    assert finetune("classification", data).code == 0
    run = tmp_path / "run"
    whole = {name: content for name, content in read_tree(run).items() if name.startswith("model/")}
    shutil.rmtree(run / "model")
    (run / "result.json").unlink()
    with no_room_for(20_000):
        outcome = finetune("classification", data, "--resume")
    assert outcome.code == 2
    error = outcome.err.splitlines()[-1]
    assert error.startswith(f"error: {run / 'model'}: cannot be written (File too large); ")
    assert error.endswith("all steps are saved: free some space and use --resume")
    assert not [name for name in read_tree(run) if "model" in name or "result" in name]
    assert finetune("classification", data, "--resume").code == 0
    again = {name: content for name, content in read_tree(run).items() if name.startswith("model/")}
    assert again == whole


def test_a_damaged_checkpoint_is_passed_over(finetune, data, tmp_path):
    assert finetune("classification", data, "num_evaluations=2").code == 0
    newest = tmp_path / "run" / "checkpoints" / "step-2" / "tensors.safetensors"
    newest.write_bytes(newest.read_bytes()[:-10])
    outcome = finetune("classification", data, "num_evaluations=2", "--resume")
    assert outcome.code == 0, outcome.err
    assert "step-2/tensors.safetensors: damaged" in outcome.err
    assert "Resuming at step 1 of 2" in outcome.err
