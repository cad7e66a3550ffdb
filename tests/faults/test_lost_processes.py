"""One of several processes is killed, stopped or fails: the run resumes, or all end with its message."""

import os
import random
import resource
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from albert.training.checkpoints import CheckpointFolder
from tests.faults.watched_run import curve, is_saving, last_step, recipe, wait_until
from tests.training.conftest import build_torchrun, story_corpus

__all__ = ["recipe", "story_corpus"]


@pytest.fixture(scope="module")
def launch(recipe, story_corpus, tmp_path_factory):
    """`torchrun … albert pretrain` with two processes."""
    begun: list[Launched] = []
    folder = tmp_path_factory.mktemp("said")

    def start(
        out: Path, *words: str, max_restarts: int = 0, module: str = "albert", limit: int = 0, **env: str
    ) -> Launched:
        albert = [module, "pretrain", str(recipe), "--data", str(story_corpus), "--out", str(out), *words]
        command = build_torchrun(albert, processes=2, max_restarts=max_restarts)
        said = folder / f"{len(begun)}"
        process = subprocess.Popen(
            command,
            stderr=said.open("w"),
            stdout=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", **env},
            preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) if limit else None,
        )
        begun.append(Launched(process, said))
        return begun[-1]

    yield start
    for launched in begun:
        if launched.process.poll() is None:
            launched.process.terminate()
            launched.process.wait(timeout=60)


@pytest.fixture(scope="module")
def undisturbed(launch, tmp_path_factory) -> Path:
    """The run without interruption."""
    out: Path = tmp_path_factory.mktemp("undisturbed") / "run"
    launch(out).finish()
    return out


@dataclass(frozen=True)
class Launched:
    """A torchrun that is on its way, and the file that it writes its messages to."""

    process: "subprocess.Popen[bytes]"
    said: Path

    def wait_until(self, condition: Callable[[], bool]) -> None:
        assert wait_until(condition, self.process, seconds=180), self.said.read_text()

    def finish(self, *, code: int | None = 0) -> str:
        self.process.wait(timeout=180)
        text = self.said.read_text()
        assert code is None or self.process.returncode == code, text
        return text

    def list_workers(self) -> dict[int, psutil.Process]:
        """The processes that train, by rank."""
        try:
            children = psutil.Process(self.process.pid).children()
            ranks = {
                child: child.environ().get("RANK") for child in children if "pretrain" in child.cmdline()
            }
        except psutil.Error:
            return {}
        return {int(rank): child for child, rank in ranks.items() if rank is not None}


def assert_same(out: Path, undisturbed: Path) -> None:
    name = "model/model.safetensors"
    assert (out / name).read_bytes() == (undisturbed / name).read_bytes()
    assert curve(out) == curve(undisturbed)


@pytest.mark.parametrize("number", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_torchrun_resumes_after_repeated_kills(launch, undisturbed, tmp_path, number):
    out, draw = tmp_path / "run", random.Random(5)
    run = launch(out, "--resume", max_restarts=10)  # --resume starts the run as well
    num_cut_saves, killed = 0, set()
    for attempt in range(number):
        first = last_step(out)
        run.wait_until(lambda: set(run.list_workers()) == {0, 1})
        worker = run.list_workers()[draw.randint(0, 1)]
        assert worker.pid not in killed
        if attempt % 2:  # anything may be going on: a start, an evaluation, a save
            target = first + draw.randint(0, 8)
            run.wait_until(lambda target=target: last_step(out) >= target)
        else:  # in a save after the first: there is something to go on from
            run.wait_until(lambda first=first: last_step(out) > max(first, 6) and is_saving(out))
        worker.send_signal(signal.SIGKILL)
        num_cut_saves += is_saving(out)  # what it was writing stays as it is
        killed.add(worker.pid)
        run.wait_until(lambda: killed.isdisjoint(w.pid for w in run.list_workers().values()))
    said = run.finish()
    if number == 5:  # of one, chance may have it that the save had just ended
        assert num_cut_saves >= 2
    assert len(killed) == number
    assert said.count("Resuming at step") >= (2 if number == 5 else 1), said
    assert "this is a mistake in albert" not in said
    assert_same(out, undisturbed)


@pytest.mark.slow
def test_a_restart_without_resume_is_rejected(launch, tmp_path):
    out = tmp_path / "run"
    launch(out, "num_steps=4").finish()
    said = launch(out, "num_steps=4", max_restarts=1).finish(code=1)
    errors = [line for line in said.splitlines() if line.startswith("error:")]
    assert len(errors) == 2, said  # one of each start
    assert all("already holds a run; add --resume" in line for line in errors)


def test_a_stopped_run_saves_and_resumes_exactly(launch, undisturbed, tmp_path):
    out = tmp_path / "run"
    run = launch(out)
    run.wait_until(lambda: last_step(out) >= 20)
    run.process.terminate()
    said = run.finish(code=None)
    assert run.process.returncode != 0
    assert said.count("and saved; resume it with --resume") == 1
    assert CheckpointFolder(out / "checkpoints").list_steps()[-1] == last_step(out) >= 20
    assert not is_saving(out)
    launch(out, "--resume").finish()
    assert_same(out, undisturbed)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("data", "error: process 1 of 2: cannot read the data at step 5 ([Errno 5] the disk does not"),
        pytest.param(
            "step",
            "mistake in albert, not yours (ZeroDivisionError: a mistake of this process alone)",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_error_in_one_process_ends_all_with_its_message(launch, tmp_path, fault, message):
    out = tmp_path / "run"
    said = launch(out, module="tests.faults.failing_process", FAULT=fault).finish(code=1)
    assert [line for line in said.splitlines() if message in line and line.startswith("error:")], said
    assert sum(line.startswith("error:") for line in said.splitlines()) == 1, said
    if fault == "data":  # all were between two steps, and what was learned is saved
        assert CheckpointFolder(out / "checkpoints").list_steps()[-1] == 5


@pytest.mark.slow
def test_a_full_disk_is_reported_and_training_continues(launch, tmp_path):
    out = tmp_path / "run"
    said = launch(out, limit=30_000).finish(code=1)
    assert "cannot save step" in said
    assert "Training continues" in said
    lines = [line for line in said.splitlines() if line.startswith("error:")]
    assert len(lines) == 1, said
    assert "Free some space and use --resume" in lines[0]
    assert not is_saving(out)  # half a checkpoint would take the room that is made
