"""A limit on the size of files, which has the effect of a full disk."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limit_files(num_bytes: int) -> Iterator[None]:
    """Make writing a larger file fail."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
