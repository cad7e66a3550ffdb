"""Create two network namespaces with a rate-limited link between them (Linux, as root).

To processes they look like two machines: each has its own interfaces, and traffic between them is limited to
the rate.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from bench.processes import Host

NAMES = ("albert-bench-0", "albert-bench-1")
ADDRESSES = ("10.213.77.1", "10.213.77.2")
# The token bucket must hold the bytes of one tick of the kernel's clock, and one large segment.
BURST = "512kb"


def can_limit() -> bool:
    """Return whether namespaces and rate limits can be created here."""
    return os.geteuid() == 0 and all(shutil.which(tool) for tool in ("ip", "tc"))


@contextmanager
def limited_link(bits_per_second: float) -> Iterator[tuple[Host, ...]]:
    """Create two hosts with one link; they are removed after the block."""
    _remove()
    try:
        for name in NAMES:
            _run("ip", "netns", "add", name)
        ends = [f"end{number}" for number in range(2)]
        pair = ("type", "veth", "peer", ends[1], "netns", NAMES[1])
        _run("ip", "link", "add", ends[0], "netns", NAMES[0], *pair)
        for name, end, address in zip(NAMES, ends, ADDRESSES, strict=True):
            _run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", end)
            for interface in ("lo", end):
                _run("ip", "-n", name, "link", "set", interface, "up")
            rate = f"{bits_per_second:.0f}"
            limit = ("tbf", "rate", rate, "burst", BURST, "latency", "200ms")
            _run("tc", "-n", name, "qdisc", "add", "dev", end, "root", *limit)
        yield tuple(Host(("ip", "netns", "exec", name), end) for name, end in zip(NAMES, ends, strict=True))
    finally:
        _remove()


def _remove() -> None:
    for name in NAMES:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
