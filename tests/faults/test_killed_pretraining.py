"""A run that is killed, stopped, or on a full disk: nothing is lost, and the result is bit-identical."""

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
from tests.faults.watched_run import NUM_STEPS, curve, is_saving, last_step, list_saves, recipe, wait_until
from tests.training.conftest import story_corpus

__all__ = ["recipe", "story_corpus"]


@pytest.fixture(scope="module")
def start(recipe, story_corpus):
    """`albert pretrain … --resume` in a process of its own."""

    def begin(out: Path, **options):
        words = ["pretrain", recipe, "--data", story_corpus, "--out", out, "--resume"]
        command = [sys.executable, "-m", "albert", *map(str, words)]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=env, **options
        )

    return begin


def finish(process: "subprocess.Popen[bytes]") -> str:
    """Wait for the end and return the messages."""
    _, err = process.communicate(timeout=120)
    text = err.decode()
    assert process.returncode == 0, text
    return text


@pytest.fixture(scope="module")
def undisturbed(start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run without interruption."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    finish(start(out))
    return out


def assert_same(out: Path, undisturbed: Path) -> None:
    """The same weights, the same moments, the same records."""
    for name in ("model/model.safetensors", f"checkpoints/step-{NUM_STEPS}/tensors.safetensors"):
        assert (out / name).read_bytes() == (undisturbed / name).read_bytes(), name
    assert curve(out) == curve(undisturbed)


@pytest.mark.parametrize("number", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_weights_are_the_same_after_repeated_kills(start, undisturbed, tmp_path, number):
    out, draw = tmp_path / "run", random.Random(11)
    num_killed = num_killed_saving = 0
    for attempt in range(40):
        left, first = list_saves(out), last_step(out)
        process = start(out)
        # Every second time a save is waited for; the other times anything may be going on.
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
        process.send_signal(signal.SIGKILL)
        process.wait()  # and not for its workers: the next one starts at once
        if process.returncode == -signal.SIGKILL:
            num_killed += 1
            num_killed_saving += was_saving
        if num_killed == number:
            break
    assert num_killed == number
    if number == 10:  # of two, chance may have it that none was in a save
        assert num_killed_saving >= 2
    assert last_step(out) < NUM_STEPS
    said = finish(start(out))
    assert "Resuming at step" in said
    assert_same(out, undisturbed)
    assert not is_saving(out)


@pytest.mark.slow
def test_sigterm_during_a_save_saves_and_says_so(start, undisturbed, tmp_path):
    out = tmp_path / "run"
    process = start(out)
    assert wait_until(lambda: last_step(out) >= 9 and is_saving(out), process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert b"stopped by SIGTERM" in err
    assert b"--resume" in err
    assert b"Traceback" not in err
    steps = CheckpointFolder(out / "checkpoints").list_steps()
    assert CheckpointFolder(out / "checkpoints").load(steps[-1]).step == steps[-1]
    finish(start(out))
    assert_same(out, undisturbed)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_to_the_whole_process_group_saves(start, undisturbed, tmp_path, number, code):
    """Ctrl-C in a terminal, and a scheduler that stops a whole group."""
    out = tmp_path / "run"
    process = start(out, start_new_session=True)
    assert wait_until(lambda: last_step(out) >= 10, process)
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert f"stopped by {number.name}".encode() in err
    assert b"Traceback" not in err
    finish(start(out))
    assert_same(out, undisturbed)


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(start, undisturbed, tmp_path):
    out = tmp_path / "run"
    process = start(out)
    assert wait_until(lambda: last_step(out) >= 10, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert children
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert b"cannot read the data at step" in err
    assert b"Traceback" not in err
    said = finish(start(out))
    assert "Resuming at step" in said
    assert "Resuming at step 0" not in said
    assert_same(out, undisturbed)


def limit_files(num_bytes: int):
    """Limit the size of files, which has the effect of a full disk."""

    def apply() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))

    return apply


def test_a_full_disk_keeps_the_earlier_checkpoints(start, undisturbed, tmp_path):
    out = tmp_path / "run"
    process = start(out)
    assert wait_until(lambda: (out / "checkpoints" / "step-12").exists(), process)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    kept = CheckpointFolder(out / "checkpoints").list_steps()
    process = start(out, preexec_fn=limit_files(200_000))
    _, err = process.communicate(timeout=120)
    text = err.decode()
    assert process.returncode == 2
    assert "cannot save step" in text
    assert "Training continues" in text
    assert text.splitlines()[-1].startswith("error: ")
    assert "Free some space and use --resume" in text
    assert "Traceback" not in text
    assert CheckpointFolder(out / "checkpoints").list_steps() == kept
    assert not is_saving(out)
    finish(start(out))
    assert_same(out, undisturbed)


def test_the_workers_of_a_killed_run_end(start, tmp_path):
    out = tmp_path / "run"
    process = start(out)
    assert wait_until(lambda: last_step(out) >= 10, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert children
    process.kill()
    process.wait()
    end = time.monotonic() + 20
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < end, "a worker waits for a reader that is gone"
        time.sleep(0.1)
