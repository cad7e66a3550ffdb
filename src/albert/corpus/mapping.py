"""Files as memory: a path comes in, its bytes go out without being read; what was looked at is given back."""

import mmap
from pathlib import Path

import pyarrow as pa

# A look at a random place brings in the pages around it: for one example, about this much.
BYTES_PER_LOOK = 192 * 1024
# Pages that may stay in this process. They are the system's cache in any case; this bounds our share.
BUDGET_BYTES = 128 * 1024 * 1024


class MappedFiles:
    """Files mapped into memory, whose pages are let go of again before they add up."""

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []
        self._num_bytes = 0
        self._num_touched = 0

    def map(self, path: Path) -> pa.Buffer:
        """The bytes of a file, to be read only."""
        with open(path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._maps.append(mapped)
        self._num_bytes += len(mapped)
        return pa.py_buffer(mapped)

    def touch(self, num_looks: int) -> None:
        """Count looks at random places; let the pages go when there were enough of them."""
        self._num_touched += num_looks * BYTES_PER_LOOK
        if self._num_touched > BUDGET_BYTES and self._num_bytes > BUDGET_BYTES:
            self.release()

    def release(self) -> None:
        """Let go of the pages; the next look fetches them again, mostly from the system's cache."""
        self._num_touched = 0
        if hasattr(mmap, "MADV_DONTNEED"):
            for mapped in self._maps:
                mapped.madvise(mmap.MADV_DONTNEED)
