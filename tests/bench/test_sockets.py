"""Bytes are counted where they leave."""

import socket
import sys

import pytest

from bench.sockets import count_loopback, count_traffic

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the counters are Linux's")


def test_what_is_sent_is_counted_once_on_each_side():
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
        with one, other:
            before, loopback = count_traffic(), count_loopback()
            one.sendall(b"x" * 1000)
            left = 1000
            while left:
                left -= len(other.recv(left))
            moved = count_traffic() - before
    assert (moved.sent, moved.received) == (1000, 1000)
    assert moved.messages >= 1
    assert count_loopback() - loopback >= 1000
