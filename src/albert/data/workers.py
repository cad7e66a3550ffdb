"""A function and its tasks come in, the results go out as they are done, here or wherever an engine runs.

An engine is a way to run tasks. There are two: processes of this machine, in this file, and a Ray cluster, in
`ray_engine.py`, which is imported only when it is asked for.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Any, NoReturn, Protocol, TypeVar

from albert.errors import AlbertError, InputError, TerminatedError

T = TypeVar("T")
R = TypeVar("R")


class WorkerError(AlbertError):
    """A worker that ended without a word."""


class Engine(Protocol):
    """Runs tasks for as long as its `with` block lasts; a task is a pure function's argument, and small."""

    def __enter__(self) -> "Engine":
        """Be ready."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Leave nothing running; after an error, wait for nothing."""

    @property
    def num_at_once(self) -> int:
        """How many tasks it runs at a time."""

    def run(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Each task with its result, as they are done; the first error of a task ends it all."""


def build_engine(name: str, *, num_workers: int | None = None, address: str | None = None) -> Engine:
    """The engine of that name: `local`, with one process unless told otherwise, or `ray`, with all there is.

    `address` is that of a running cluster. Refused: another name, and too few workers.
    """
    if num_workers is not None and num_workers < 1:
        raise InputError(f"{num_workers} workers are too few; at least 1")
    if name == "ray":
        from albert.data.ray_engine import RayEngine

        return RayEngine(num_workers, address=address)
    if name != "local":
        raise InputError(f"engine {name!r} is unknown; local, or ray for a cluster")
    if address is not None:
        raise InputError(f"address {address} is for a cluster; add --engine ray, or leave it out")
    return Workers(1 if num_workers is None else num_workers)


class Workers:
    """Processes that are started when they are first needed and end with the `with` block."""

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers
        self._pool: ProcessPoolExecutor | None = None
        self._handler: Any = None  # of SIGTERM, before the pool

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
        if self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)

    @property
    def num_at_once(self) -> int:
        """As many as were asked for."""
        return self._num_workers

    def run(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Each task with its result, as they are done; with one worker, one by one and right here."""
        if self._num_workers <= 1 or len(tasks) <= 1:
            for task in tasks:
                yield task, function(task)
            return
        waiting = deque(tasks)
        running: dict[Future[R], T] = {}
        try:
            while waiting or running:
                # No more than can run: a task that a worker has fetched cannot be called back on Ctrl-C.
                while waiting and len(running) < self._num_workers:
                    task = waiting.popleft()
                    running[self._open_pool().submit(function, task)] = task
                for done in wait_for(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(done), done.result()
        except BrokenProcessPool as error:
            raise WorkerError(
                "a worker was ended from outside, perhaps for want of memory; run the same command again "
                "(what is done is kept), or with fewer --workers"
            ) from error

    def _open_pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # Fresh processes: a fork would copy locks that threads of numpy or Arrow hold.
            context = multiprocessing.get_context("spawn")
            if threading.current_thread() is threading.main_thread():
                self._handler = signal.signal(signal.SIGTERM, _terminate)
            self._pool = ProcessPoolExecutor(
                self._num_workers, mp_context=context, initializer=_prepare_worker
            )
        return self._pool


def _terminate(*_: object) -> NoReturn:
    """A scheduler's signal would end this process and leave the workers to notice; they are told, too."""
    raise TerminatedError


def _prepare_worker() -> None:
    # Ctrl-C is the parent's to answer. A worker whose parent was killed would wait for a task for ever.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
