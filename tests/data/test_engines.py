import os
import signal
import sys
from pathlib import Path

import pytest

from albert.data.engines import LocalEngine, WorkerError, build_engine
from albert.errors import InputError


def run_tasks(function, tasks, *, num_workers):
    with LocalEngine(num_workers) as workers:
        return list(workers.run(function, tasks))


def double(number: int) -> int:
    return 2 * number


def refuse(number: int) -> int:
    raise InputError(f"not {number}; another")


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("num_workers", [1, 2])
def test_every_task_is_done_once(num_workers):
    done = run_tasks(double, range(5), num_workers=num_workers)
    assert sorted(done) == [(0, 0), (1, 2), (2, 4), (3, 6), (4, 8)]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_the_error_of_a_task_comes_through(num_workers):
    with pytest.raises(InputError, match="^not"):
        list(run_tasks(refuse, range(3), num_workers=num_workers))


def test_a_worker_that_is_killed_is_an_error_and_no_hang():
    with pytest.raises(WorkerError, match="run the same command again"):
        list(run_tasks(die, range(3), num_workers=2))


def leave_a_mark(path: Path) -> Path:
    path.touch()
    return path


def test_after_ctrl_c_no_task_is_begun_that_was_waiting(tmp_path):
    def stop_after_one():
        with LocalEngine(2) as workers:
            for _ in workers.run(leave_a_mark, [tmp_path / str(number) for number in range(8)]):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop_after_one()
    assert 1 <= len(list(tmp_path.iterdir())) <= 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "spark"}, "unknown engine 'spark'; choose local, or ray"),
        ({"name": "local", "num_workers": 0}, "the number of workers is 0; set it to at least 1"),
        ({"name": "local", "address": "head:6379"}, "address head:6379 is for a cluster; add --engine ray"),
    ],
)
def test_an_engine_that_cannot_be(options, message):
    with pytest.raises(InputError, match=message):
        build_engine(**options)


def test_without_ray_the_extra_is_named(run_albert, books, vocab_path, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    words = ("corpus", "prepare", books, "--vocab", vocab_path, "--out", tmp_path / "out", "--engine", "ray")
    hint = "in the clone, run: pip install -c constraints.txt '.[ray]'"
    assert run_albert(*words).error == f"engine ray needs the extra `ray`; {hint}"
    assert not (tmp_path / "out").exists()
