"""Build two network namespaces with a link of a given rate between them (Linux, as root).

Two machines as far as the network can tell: each process has its own interfaces, and what they send each
other is sent at that rate.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from bench.processes import Place

NAMES = ("albert-bench-0", "albert-bench-1")
ADDRESSES = ("10.213.77.1", "10.213.77.2")
# A token bucket must hold what one tick of the kernel's clock lets through, and one large segment.
BURST = "512kb"


def can_limit() -> bool:
    """Whether namespaces and rates can be made here."""
    return os.geteuid() == 0 and all(shutil.which(tool) for tool in ("ip", "tc"))


@contextmanager
def limited_link(bits_per_second: float) -> Iterator[tuple[Place, ...]]:
    """Two places with one link; they are gone with the block."""
    _remove()
    try:
        for name in NAMES:
            _run("ip", "netns", "add", name)
        ends = [f"end{number}" for number in range(2)]
        _run(
            "ip",
            "link",
            "add",
            ends[0],
            "netns",
            NAMES[0],
            "type",
            "veth",
            "peer",
            ends[1],
            "netns",
            NAMES[1],
        )
        for name, end, address in zip(NAMES, ends, ADDRESSES, strict=True):
            _run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", end)
            for interface in ("lo", end):
                _run("ip", "-n", name, "link", "set", interface, "up")
            rate = f"{bits_per_second:.0f}"
            limit = ("tbf", "rate", rate, "burst", BURST, "latency", "200ms")
            _run("tc", "-n", name, "qdisc", "add", "dev", end, "root", *limit)
        yield tuple(Place(("ip", "netns", "exec", name), end) for name, end in zip(NAMES, ends, strict=True))
    finally:
        _remove()


def _remove() -> None:
    for name in NAMES:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
