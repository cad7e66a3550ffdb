"""Run a function on many tasks in local processes or on a Ray cluster.

The function is pure: a lost task can be repeated anywhere with the same result.
"""

import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, redirect_stdout
from itertools import chain, islice
from multiprocessing.connection import wait
from typing import Any, NoReturn, Protocol, TypeVar

from albert import __version__
from albert.errors import AlbertError, InputError, TerminatedError, first_line, format_install_command

T = TypeVar("T")
R = TypeVar("R")
# How often a task is started again if its node or its process is lost.
MAX_RETRIES = 8
# Enough waiting tasks for a cluster to scale up.
_MAX_SUBMITTED = 1000
# Ray's minimum: only names and counts are passed between processes.
_OBJECT_STORE_BYTES = 80 * 1024 * 1024
_CONNECT_SECONDS = 10.0


class WorkerError(AlbertError):
    """A worker process was killed."""


class Engine(Protocol):
    """The interface that runs tasks inside a `with` block."""

    def __enter__(self) -> "Engine": ...

    def __exit__(self, exc_type: type[BaseException] | None, *_: object) -> None: ...

    @property
    def num_at_once(self) -> int: ...

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[tuple[T, R]]:
        """Yield each task with its result as it completes; the first error of a task ends the run.

        If tasks are an iterator, each is taken from it shortly before it runs: they may carry data.
        """


def build_engine(name: str, *, num_workers: int | None = None, address: str | None = None) -> Engine:
    """Build the engine `local`, by default with one process, or `ray`, by default with all cores."""
    if num_workers is not None and num_workers < 1:
        raise InputError(f"the number of workers is {num_workers}; set it to at least 1")
    if name == "ray":
        return RayEngine(num_workers, address=address)
    if name != "local":
        raise InputError(f"unknown engine {name!r}; choose local, or ray for a cluster")
    if address is not None:
        raise InputError(f"address {address} is for a cluster; add --engine ray, or omit it")
    return LocalEngine(num_workers or 1)


class LocalEngine:
    """Local processes, which are started when they are first needed."""

    def __init__(self, num_workers: int) -> None:
        self.num_at_once = num_workers
        self._pool: ProcessPoolExecutor | None = None
        self._handler: Any = None  # the previous one of SIGTERM

    def __enter__(self) -> "LocalEngine":
        return self

    def __exit__(self, exc_type: type[BaseException] | None, *_: object) -> None:
        if self._pool is None:
            return
        if exc_type is not None:
            # After Ctrl-C or an error, tasks may be killed: files appear complete or not at all.
            for process in list((self._pool._processes or {}).values()):
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[tuple[T, R]]:
        """Yield each task with its result; a single worker is this process."""
        rest = iter(tasks)
        first = list(islice(rest, 2))
        waiting = chain(first, rest)
        if self.num_at_once <= 1 or len(first) <= 1:
            for task in waiting:
                yield task, function(task)
            return
        running: dict[Future[R], T] = {}
        try:
            while True:
                # Submit no more than can run: a task that a worker has fetched cannot be canceled on Ctrl-C.
                for task in islice(waiting, self.num_at_once - len(running)):
                    running[self._open_pool().submit(function, task)] = task
                if not running:
                    return
                for done in wait_for(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(done), done.result()
        except BrokenProcessPool as error:
            raise WorkerError(
                "a worker was killed, perhaps because memory ran out; run the same command again (finished "
                "work is kept), or with fewer --workers"
            ) from error

    def _open_pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # Spawned, because a fork would copy locks that threads of numpy or Arrow hold.
            context = multiprocessing.get_context("spawn")
            if threading.current_thread() is threading.main_thread():
                self._handler = signal.signal(signal.SIGTERM, _terminate)
            self._pool = ProcessPoolExecutor(self.num_at_once, mp_context=context, initializer=_start_worker)
        return self._pool


def _terminate(*_: object) -> NoReturn:
    raise TerminatedError


def _start_worker() -> None:
    # The parent handles Ctrl-C. Without the thread, workers of a killed parent would wait for tasks forever.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=exit_with_parent, daemon=True).start()


def exit_with_parent() -> None:
    """Wait until the parent process ends, then exit."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


class RayEngine:
    """A Ray cluster: the one at `address` or $RAY_ADDRESS, or a local one for the `with` block."""

    def __init__(self, num_workers: int | None = None, *, address: str | None = None) -> None:
        try:
            import ray
        except ImportError as error:
            install = format_install_command("ray")
            raise InputError(f"engine ray needs the extra `ray`; in the clone, run: {install}") from error
        self._ray: Any = ray
        self._num_workers = num_workers
        self._address = address or os.environ.get("RAY_ADDRESS")
        self._open = ExitStack()

    def __enter__(self) -> "RayEngine":
        # Ray reports a lost node on stdout, where --json prints its result.
        self._open.enter_context(redirect_stdout(sys.stderr))
        if not self._ray.is_initialized():
            self._open.callback(self._ray.shutdown)  # also ends running tasks
            self._connect()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def num_at_once(self) -> int:
        num_cores = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        return min(self._num_workers or num_cores, num_cores)

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[tuple[T, R]]:
        """Yield each task with its result; errors of a task are raised unchanged."""
        remote = self._ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(_run_task)
        waiting = iter(tasks)
        running: dict[Any, T] = {}
        while True:
            # The cluster may grow. Of tasks that carry data, few wait in its memory.
            most = _MAX_SUBMITTED if isinstance(tasks, Sequence) else 2 * self.num_at_once
            limit = min(self._num_workers or most, most)
            for task in islice(waiting, max(0, limit - len(running))):
                running[remote.remote(function, task, __version__)] = task
            if not running:
                return
            (done,), _ = self._ray.wait(list(running), num_returns=1)
            yield running.pop(done), self._fetch(done)

    def _fetch(self, done: Any) -> Any:
        try:
            result, error = self._ray.get(done)
        except self._ray.exceptions.RayTaskError as failure:  # a bug, with its traceback
            raise failure.cause from failure
        except self._ray.exceptions.RayError as failure:
            raise WorkerError(
                f"the cluster lost a task {MAX_RETRIES + 1} times ({first_line(failure)}), perhaps because "
                "memory ran out; run the same command again (finished work is kept), or with fewer --workers"
            ) from failure
        if error is not None:
            raise error
        return result

    def _connect(self) -> None:
        address = self._address
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        if address is None or address == "local":
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            limits = {"num_cpus": self._num_workers, "object_store_memory": _OBJECT_STORE_BYTES}
            self._ray.init(address="local", include_dashboard=False, **limits, **quiet)
            return
        host, colon, port = address.removeprefix("ray://").rpartition(":")
        try:
            if colon and port.isdecimal():  # not `auto`; Ray would retry for a minute
                socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
            self._ray.init(address=address, **quiet)
        except Exception as error:  # Ray's own, gRPC's and the system's
            raise InputError(
                f"address {address}: cannot connect to a Ray cluster ({first_line(error)}); give the "
                "host:port that `ray start --head` prints, and add this machine to the cluster"
            ) from error


def _run_task(function: Callable[[T], R], task: T, version: str) -> tuple[R | None, AlbertError | None]:
    """Run a task on a cluster node; an AlbertError is returned, so that Ray does not retry the task."""
    try:
        if version != __version__:
            raise InputError(f"{socket.gethostname()}: has albert {__version__}; install albert {version}")
        return function(task), None
    except AlbertError as error:
        return None, error
