"""Count the bytes that the TCP connections of this process have transferred (Linux)."""

import os
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass

# Offsets of the counters in the kernel's `struct tcp_info`.
_RECEIVED, _MESSAGES, _SENT, _RETRANSMITTED = 128, 156, 200, 208
_INFO_BYTES = 232


@dataclass(frozen=True)
class Traffic:
    """Payload bytes without headers and retransmissions; `messages` are segments with data."""

    sent: int = 0
    received: int = 0
    messages: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.sent + other.sent, self.received + other.received, self.messages + other.messages)

    def __sub__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.sent - other.sent, self.received - other.received, self.messages - other.messages)


def count_traffic() -> Traffic:
    """Count the traffic of all open connections since they were opened."""
    total = Traffic()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed in the meantime
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                total += _read_counters(os.dup(int(name)))
    return total


def _read_counters(file: int) -> Traffic:
    with socket.socket(fileno=file) as connection:
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            return Traffic()
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    received, sent, retransmitted = (
        struct.unpack_from("Q", info, offset)[0] for offset in (_RECEIVED, _SENT, _RETRANSMITTED)
    )
    return Traffic(sent - retransmitted, received, struct.unpack_from("I", info, _MESSAGES)[0])


def count_loopback() -> int:
    """Count the bytes over the loopback interface, of all processes, headers included."""
    with open("/proc/net/dev") as file:
        line = next(line for line in file if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[0])
