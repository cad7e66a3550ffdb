"""Count the bytes that the TCP connections of this process have carried (Linux)."""

import os
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass

# Where the kernel's `struct tcp_info` keeps its counters.
_RECEIVED, _MESSAGES, _SENT, _SENT_AGAIN = 128, 156, 200, 208
_INFO_BYTES = 232


@dataclass(frozen=True)
class Traffic:
    """Payload, without headers and without what had to be sent again; `messages` are segments with data."""

    sent: int = 0
    received: int = 0
    messages: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.sent + other.sent, self.received + other.received, self.messages + other.messages)

    def __sub__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.sent - other.sent, self.received - other.received, self.messages - other.messages)


def count_traffic() -> Traffic:
    """What all connections that are open now have carried since they were opened."""
    total = Traffic()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed since it was listed
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                total += _read_counters(os.dup(int(name)))
    return total


def _read_counters(file: int) -> Traffic:
    with socket.socket(fileno=file) as connection:
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            return Traffic()
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    received, sent, again = (
        struct.unpack_from("Q", info, place)[0] for place in (_RECEIVED, _SENT, _SENT_AGAIN)
    )
    return Traffic(sent - again, received, struct.unpack_from("I", info, _MESSAGES)[0])


def count_loopback() -> int:
    """Bytes that have gone over the loopback interface, of whatever process, headers included."""
    with open("/proc/net/dev") as file:
        line = next(line for line in file if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[0])
