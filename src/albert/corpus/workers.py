"""A function and its tasks come in, the results go out as they are done, by this process or by several."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import TypeVar

from albert.errors import AlbertError

T = TypeVar("T")
R = TypeVar("R")


class WorkerError(AlbertError):
    """A worker that ended without a word."""


class Workers:
    """Processes that are started when they are first needed and end with the `with` block."""

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._pool is None:
            return
        if kind is not None:
            # Ctrl-C, or the error of one file: what is being written appears whole or not at all, so nobody
            # need wait for it.
            for process in list((self._pool._processes or {}).values()):
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def run(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """The results of all tasks as they are done; with one worker, one by one and right here."""
        if self._num_workers <= 1 or len(tasks) <= 1:
            yield from map(function, tasks)
            return
        try:
            waiting = {self._open_pool().submit(function, task) for task in tasks}
            for done in as_completed(waiting):
                yield done.result()
        except BrokenProcessPool as error:
            raise WorkerError(
                "a worker was ended from outside, perhaps for want of memory; run the same command again "
                "(what is done is kept), or with fewer --workers"
            ) from error

    def _open_pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # Fresh processes: a fork would copy locks that threads of numpy or Arrow hold.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self._num_workers, mp_context=context, initializer=_prepare_worker
            )
        return self._pool


def _prepare_worker() -> None:
    # Ctrl-C is the parent's to answer. A worker whose parent was killed would wait for a task for ever.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
