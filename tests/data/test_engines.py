import os
import signal
import sys
from pathlib import Path

import pytest

from albert.data.engines import LocalEngine, WorkerError, build_engine
from albert.errors import InputError
from tests.conftest import rejects


def run_tasks(function, tasks, *, num_workers):
    with LocalEngine(num_workers) as workers:
        return list(workers.run(function, tasks))


def double(number: int) -> int:
    return 2 * number


def reject(number: int) -> int:
    raise InputError(f"not {number}; another")


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("num_workers", [1, 2])
def test_every_task_is_done_once(num_workers):
    done = run_tasks(double, range(5), num_workers=num_workers)
    assert sorted(done) == [(0, 0), (1, 2), (2, 4), (3, 6), (4, 8)]


def test_a_task_of_an_iterator_is_taken_when_a_worker_is_free():
    taken = []
    tasks = (taken.append(number) or number for number in range(9))
    with LocalEngine(2) as workers:
        for num_done, _ in enumerate(workers.run(double, tasks), start=1):
            assert len(taken) <= num_done + 1
    assert num_done == 9


@pytest.mark.parametrize("num_workers", [1, 2])
def test_the_error_of_a_task_is_raised(num_workers):
    with rejects(InputError, "not "):
        run_tasks(reject, range(3), num_workers=num_workers)


def test_a_killed_worker_is_an_error():
    with pytest.raises(WorkerError):
        run_tasks(die, range(3), num_workers=2)


def leave_a_mark(path: Path) -> Path:
    path.touch()
    return path


def test_after_ctrl_c_no_waiting_task_is_started(tmp_path):
    def stop_after_one():
        with LocalEngine(2) as workers:
            for _ in workers.run(leave_a_mark, [tmp_path / str(number) for number in range(8)]):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop_after_one()
    assert 1 <= len(list(tmp_path.iterdir())) <= 2


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"name": "spark"}, "'spark'"),
        ({"name": "local", "num_workers": 0}, "workers"),
        ({"name": "local", "address": "head:6379"}, "head:6379"),
    ],
)
def test_wrong_options_are_rejected(options, value):
    with rejects(InputError, value):
        build_engine(**options)


def test_without_ray_the_extra_is_named(run_albert, books, vocab_path, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    words = ("corpus", "prepare", books, "--vocab", vocab_path, "--out", tmp_path / "out", "--engine", "ray")
    assert "'.[ray]'" in run_albert(*words).error
    assert not (tmp_path / "out").exists()
