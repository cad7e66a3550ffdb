"""Start worker processes that train together and take commands line by line."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from bench.worker import Task


@dataclass(frozen=True)
class Host:
    """Where a process runs: the prefix of its command, and its network interface."""

    prefix: tuple[str, ...] = ()
    interface: str = "lo"


@dataclass(frozen=True)
class Processes:
    """Worker processes, in the order of their ranks."""

    found: tuple["subprocess.Popen[str]", ...]

    def send(self, line: str, *, ranks: Sequence[int] | None = None) -> list[dict[str, Any]]:
        """Send a command to all processes, or to some, and wait for every answer."""
        receivers = [self.found[rank] for rank in (range(len(self.found)) if ranks is None else ranks)]
        for process in receivers:
            assert process.stdin is not None
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
        return [_read_answer(process) for process in receivers]


def _read_answer(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a worker process exited with code {process.wait()} without an answer")
    answer: dict[str, Any] = json.loads(line)
    return answer


@contextmanager
def start_processes(
    task: Task, *, num_processes: int = 2, hosts: Sequence[Host] = (), address: str = "127.0.0.1"
) -> Iterator[Processes]:
    """Start processes with one thread each on this machine; they end with the block."""
    port = _find_port()
    hosts = hosts or [Host()] * num_processes
    found = tuple(
        _start(task, host, rank=rank, num_processes=num_processes, address=address, port=port)
        for rank, host in enumerate(hosts)
    )
    try:
        yield Processes(found)
        for process in found:
            assert process.stdin is not None
            process.stdin.close()  # the process exits at the end of its input
        for process in found:
            process.wait()
    finally:
        for process in found:
            process.kill()
            process.wait()


def _start(
    task: Task, host: Host, *, rank: int, num_processes: int, address: str, port: int
) -> "subprocess.Popen[str]":
    env = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": num_processes,
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "GLOO_SOCKET_IFNAME": host.interface,
        "OMP_NUM_THREADS": 1,
    }
    return subprocess.Popen(
        [*host.prefix, sys.executable, "-m", "bench.worker", json.dumps(asdict(task))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **{name: str(value) for name, value in env.items()}},
    )


def _find_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
