"""A run that is killed, stopped, or on a full disk loses nothing, and its result is bit-identical."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from albert.training.checkpoints import CheckpointFolder
from tests.faults.watched_run import NUM_STEPS, assert_same, last_step, list_saves, recipe, wait_until
from tests.training.conftest import story_corpus

__all__ = ["recipe", "story_corpus"]


@pytest.fixture(scope="module")
def start(recipe, story_corpus):
    """`albert pretrain … --resume` in a subprocess."""

    def run(out: Path, **options):
        words = ["pretrain", recipe, "--data", story_corpus, "--out", out, "--resume"]
        command = [sys.executable, "-m", "albert", *map(str, words)]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=env, text=True, **options
        )

    return run


def finish(process: "subprocess.Popen[str]", *, code: int = 0) -> str:
    """Wait for the end and return the messages."""
    _, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    assert "Traceback" not in err
    return err


def list_children(process: "subprocess.Popen[str]") -> list[int]:
    return [
        int(child) for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ]


@pytest.fixture(scope="module")
def undisturbed(start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run without interruption."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    finish(start(out))
    return out


@pytest.mark.parametrize("number", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_weights_are_the_same_after_repeated_kills(start, undisturbed, tmp_path, number):
    out, draw = tmp_path / "run", random.Random(11)
    num_killed = num_killed_saving = 0
    for attempt in range(40):
        left, first = list_saves(out), last_step(out)
        process = start(out)
        # Every second kill is during a save, the others at any time.
        target = first + draw.randint(1, 7)
        if attempt % 2:
            wait_until(
                lambda target=target, left=left: last_step(out) >= target - 4 and list_saves(out) - left,
                process,
            )
        else:
            wait_until(lambda target=target: last_step(out) >= target, process)
            time.sleep(draw.uniform(0, 0.05))
        was_saving = bool(list_saves(out) - left)
        workers = list_children(process)
        process.kill()
        process.wait()  # not for its workers: the next run starts at once
        if process.returncode == -signal.SIGKILL:
            num_killed += 1
            num_killed_saving += was_saving
        if num_killed == number:
            break
    assert num_killed == number
    if number == 10:
        assert num_killed_saving >= 2
    assert last_step(out) < NUM_STEPS
    assert "Resuming at step" in finish(start(out))
    assert_same(out, undisturbed)
    assert not list_saves(out)
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]


@pytest.mark.parametrize(
    ("number", "code", "is_saving"),
    [
        (signal.SIGINT, 130, False),
        pytest.param(signal.SIGTERM, 143, False, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 143, True, marks=pytest.mark.slow),
    ],
)
def test_a_signal_to_the_process_group_saves(start, undisturbed, tmp_path, number, code, is_saving):
    """Ctrl-C in a terminal, and a scheduler that stops a group."""
    out = tmp_path / "run"
    process = start(out, start_new_session=True)
    assert wait_until(lambda: last_step(out) >= 9 and (not is_saving or list_saves(out)), process)
    os.killpg(process.pid, number)
    messages = finish(process, code=code)
    assert number.name in messages
    assert "--resume" in messages
    steps = CheckpointFolder(out / "checkpoints").list_steps()
    assert CheckpointFolder(out / "checkpoints").load(steps[-1]).step == steps[-1]
    finish(start(out))
    assert_same(out, undisturbed)


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(start, undisturbed, tmp_path):
    out = tmp_path / "run"
    process = start(out)
    assert wait_until(lambda: last_step(out) >= 10, process)
    workers = list_children(process)
    assert workers
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    finish(process, code=2)
    messages = finish(start(out))
    assert "Resuming at step" in messages
    assert "Resuming at step 0" not in messages
    assert_same(out, undisturbed)


@pytest.mark.skipif(sys.platform != "linux", reason="limits the files of another process")
def test_a_full_disk_keeps_the_earlier_checkpoints(start, undisturbed, tmp_path):
    out = tmp_path / "run"
    process = start(out)
    assert wait_until(lambda: (out / "checkpoints" / "step-12").exists(), process)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (200_000, 200_000))
    messages = finish(process, code=2)
    assert "File too large" in messages
    assert "--resume" in messages.splitlines()[-1]
    assert 12 <= CheckpointFolder(out / "checkpoints").list_steps()[-1] < NUM_STEPS
    assert not list_saves(out)
    assert "Resuming at step" in finish(start(out))
    assert_same(out, undisturbed)
