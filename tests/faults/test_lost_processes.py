"""One of several processes is killed, stopped or fails: the run resumes, or all end with its message."""

import os
import random
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from albert.training.checkpoints import CheckpointFolder
from tests.faults.watched_run import assert_same, last_step, list_saves, recipe, wait_until
from tests.training.conftest import build_torchrun, story_corpus

__all__ = ["recipe", "story_corpus"]


@dataclass(frozen=True)
class Launched:
    """A torchrun process and the file with its messages."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def wait_until(self, condition: Callable[[], bool]) -> None:
        assert wait_until(condition, self.process, seconds=180), self.log.read_text()

    def finish(self, *, code: int | None = 0) -> str:
        self.process.wait(timeout=180)
        text = self.log.read_text()
        assert code is None or self.process.returncode == code, text
        return text

    def list_workers(self) -> dict[int, psutil.Process]:
        """The training processes by rank."""
        try:
            children = psutil.Process(self.process.pid).children()
            ranks = {
                child: child.environ().get("RANK") for child in children if "pretrain" in child.cmdline()
            }
        except psutil.Error:
            return {}
        return {int(rank): child for child, rank in ranks.items() if rank is not None}


def list_errors(messages: str) -> list[str]:
    return [line for line in messages.splitlines() if line.startswith("error:")]


@pytest.fixture(scope="module")
def launch(recipe, story_corpus, tmp_path_factory):
    """`torchrun … albert pretrain` with two processes."""
    started: list[Launched] = []
    folder = tmp_path_factory.mktemp("logs")

    def start(out: Path, *words: str, max_restarts: int = 0, module: str = "albert") -> Launched:
        albert = [module, "pretrain", str(recipe), "--data", str(story_corpus), "--out", str(out), *words]
        log = folder / f"{len(started)}"
        process = subprocess.Popen(
            build_torchrun(albert, processes=2, max_restarts=max_restarts),
            stderr=log.open("w"),
            stdout=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        started.append(Launched(process, log))
        return started[-1]

    yield start
    for launched in started:
        if launched.process.poll() is None:
            launched.process.terminate()
            launched.process.wait(timeout=60)


@pytest.fixture(scope="module")
def undisturbed(launch, tmp_path_factory) -> Path:
    """The run without interruption."""
    out: Path = tmp_path_factory.mktemp("undisturbed") / "run"
    launch(out).finish()
    return out


@pytest.mark.parametrize("number", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_torchrun_resumes_after_repeated_kills(launch, undisturbed, tmp_path, number):
    out, draw = tmp_path / "run", random.Random(5)
    run = launch(out, "--resume", max_restarts=10)  # --resume also starts a run
    num_cut_saves, killed = 0, set()
    for attempt in range(number):
        first = last_step(out)
        run.wait_until(lambda: set(run.list_workers()) == {0, 1})
        worker = run.list_workers()[draw.randint(0, 1)]
        assert worker.pid not in killed
        if attempt % 2:  # at any time: a start, an evaluation, a save
            target = first + draw.randint(0, 8)
            run.wait_until(lambda target=target: last_step(out) >= target)
        else:  # during a save after the first
            run.wait_until(lambda first=first: last_step(out) > max(first, 6) and bool(list_saves(out)))
        worker.send_signal(signal.SIGKILL)
        num_cut_saves += bool(list_saves(out))
        killed.add(worker.pid)
        run.wait_until(lambda: killed.isdisjoint(w.pid for w in run.list_workers().values()))
    messages = run.finish()
    if number == 5:
        assert num_cut_saves >= 2
    assert len(killed) == number
    assert messages.count("Resuming at step") >= (2 if number == 5 else 1), messages
    assert all("--resume" in line for line in list_errors(messages))
    assert_same(out, undisturbed)


@pytest.mark.slow
def test_a_restart_without_resume_is_rejected(launch, tmp_path):
    out = tmp_path / "run"
    launch(out, "num_steps=4").finish()
    messages = launch(out, "num_steps=4", max_restarts=1).finish(code=1)
    errors = list_errors(messages)
    assert len(errors) == 2, messages  # one of each start
    assert all("--out" in line for line in errors)


@pytest.mark.slow
def test_a_stopped_run_saves_and_resumes_exactly(launch, undisturbed, tmp_path):
    out = tmp_path / "run"
    run = launch(out)
    run.wait_until(lambda: last_step(out) >= 20)
    run.process.terminate()
    messages = run.finish(code=None)
    assert run.process.returncode != 0
    assert messages.count("--resume") == 1
    assert CheckpointFolder(out / "checkpoints").list_steps()[-1] == last_step(out) >= 20
    assert not list_saves(out)
    launch(out, "--resume").finish()
    assert_same(out, undisturbed)


def test_an_error_in_one_process_ends_all_with_its_message(launch, tmp_path):
    out = tmp_path / "run"
    messages = launch(out, module="tests.faults.failing_process").finish(code=1)
    (error,) = list_errors(messages)
    assert all(value in error for value in ("process 1 of 2", "step 5", "the disk fails")), error
    assert CheckpointFolder(out / "checkpoints").list_steps()[-1] == 5
