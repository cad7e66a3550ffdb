"""A full disk."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_room_for(num_bytes: int) -> Iterator[None]:
    """No file larger than that can be written, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
