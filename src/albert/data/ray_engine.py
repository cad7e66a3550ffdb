"""Tasks come in and are spread over a Ray cluster; the results go out as they are done, wherever that was.

A task whose node dies is done again on another: it is a pure function, so its files have the same bytes. Ray
is imported here, when the engine is built, and nowhere else.
"""

import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, redirect_stdout
from typing import Any, TypeVar

from albert import __version__
from albert.data.workers import WorkerError
from albert.errors import AlbertError, InputError, first_line, name_install

T = TypeVar("T")
R = TypeVar("R")
# How often a task may lose its node or its process, and be begun again, before something else is wrong.
MAX_RETRIES = 8
# Enough waiting tasks for any cluster to see that it could grow.
_MAX_SUBMITTED = 1000
# The least that Ray takes: what passes between our processes are names and counts.
_OBJECT_STORE_BYTES = 80 * 1024 * 1024
_CONNECT_SECONDS = 10.0


class RayEngine:
    """A cluster: the running one at `address` (or $RAY_ADDRESS), else one started here for the `with` block.

    At most `num_workers` tasks run at once; None: one for every core there is.
    """

    def __init__(self, num_workers: int | None = None, *, address: str | None = None) -> None:
        self._ray = _import_ray()
        self._num_workers = num_workers
        self._address = address or os.environ.get("RAY_ADDRESS")
        self._open = ExitStack()

    def __enter__(self) -> "RayEngine":
        # Ray tells of a lost node on stdout, where a result in JSON may be awaited.
        self._open.enter_context(redirect_stdout(sys.stderr))
        if not self._ray.is_initialized():
            self._open.callback(self._ray.shutdown)  # which ends what still runs
            _connect(self._ray, self._address, self._num_workers)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def num_at_once(self) -> int:
        """As many as were asked for, and no more than the cluster has cores now."""
        num_cores = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        return min(self._num_workers or num_cores, num_cores)

    def run(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Each task with its result, as they are done; a task's own error comes out as it was raised."""
        remote = self._ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(_run_task)
        limit = min(self._num_workers or _MAX_SUBMITTED, _MAX_SUBMITTED)
        waiting = deque(tasks)
        running: dict[Any, T] = {}
        while waiting or running:
            while waiting and len(running) < limit:
                task = waiting.popleft()
                running[remote.remote(function, task, __version__)] = task
            (done,), _ = self._ray.wait(list(running), num_returns=1)
            yield running.pop(done), self._fetch(done)

    def _fetch(self, reference: Any) -> Any:
        try:
            result, error = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as failure:  # our own mistake, with its traceback
            raise failure.cause from failure
        except self._ray.exceptions.RayError as failure:
            raise WorkerError(
                f"the cluster lost a task {MAX_RETRIES + 1} times ({first_line(failure)}), perhaps for want "
                "of memory; run the same command again (what is done is kept), or with fewer --workers"
            ) from failure
        if error is not None:
            raise error
        return result


def _run_task(function: Callable[[T], R], task: T, version: str) -> tuple[R | None, AlbertError | None]:
    """One task, on a node of the cluster; a user's error is a result like any other, and is not retried."""
    try:
        if version != __version__:
            raise InputError(
                f"{socket.gethostname()}: has albert {__version__}, and the command is of {version}; install "
                "the same version on every node"
            )
        return function(task), None
    except AlbertError as error:
        return None, error


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InputError(
            f"engine ray needs the extra `ray`; in the clone, run: {name_install('ray')}"
        ) from error
    return ray


def _connect(ray: Any, address: str | None, num_workers: int | None) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address is None or address == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        limits = {"num_cpus": num_workers, "object_store_memory": _OBJECT_STORE_BYTES}
        ray.init(address="local", include_dashboard=False, **limits, **quiet)
        return
    _refuse_deaf(address)
    try:
        ray.init(address=address, **quiet)
    except Exception as error:  # Ray's own, gRPC's and the system's
        raise InputError(
            f"address {address}: no Ray cluster is reached there ({first_line(error)}); start one with "
            "`ray start --head`, join this machine to it with `ray start --address …`, and give host:port"
        ) from error


def _refuse_deaf(address: str) -> None:
    """Try the address by ourselves first: Ray would try for a minute."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():  # `auto`, and what Ray may understand besides
        return
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"address {address}: nothing answers there ({getattr(error, 'strerror', None) or error}); give "
            "the host:port that `ray start --head` printed"
        ) from error
