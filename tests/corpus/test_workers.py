import os
import signal

import pytest

from albert.corpus.workers import WorkerError, Workers
from albert.errors import InputError


def run_tasks(function, tasks, *, num_workers):
    with Workers(num_workers) as workers:
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
    assert sorted(run_tasks(double, range(5), num_workers=num_workers)) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_the_error_of_a_task_comes_through(num_workers):
    with pytest.raises(InputError, match="^not"):
        list(run_tasks(refuse, range(3), num_workers=num_workers))


def test_a_worker_that_is_killed_is_an_error_and_no_hang():
    with pytest.raises(WorkerError, match="run the same command again"):
        list(run_tasks(die, range(3), num_workers=2))
