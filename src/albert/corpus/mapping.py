"""Files as memory: a path comes in, its bytes go out without being read; what was looked at is given back."""

import mmap
from pathlib import Path

import pyarrow as pa

# Up to here a corpus may stay mapped. Beyond it, pages are let go of as soon as they were used: one look can
# bring in megabytes around it, which would count as this process's memory until the end.
LARGE_BYTES = 128 * 1024 * 1024


class MappedFiles:
    """Files mapped into memory, by number; the system's cache keeps what is let go of."""

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []
        self._num_bytes = 0

    def __len__(self) -> int:
        return len(self._maps)

    def map(self, path: Path) -> pa.Buffer:
        """The bytes of a file, to be read only."""
        with open(path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._maps.append(mapped)
        self._num_bytes += len(mapped)
        return pa.py_buffer(mapped)

    def let_go(self, number: int) -> None:
        """Give back the pages of a file, if the files are many; the next look fetches them again."""
        if self._num_bytes > LARGE_BYTES and hasattr(mmap, "MADV_DONTNEED"):
            self._maps[number].madvise(mmap.MADV_DONTNEED)
