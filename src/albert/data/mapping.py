"""Files as memory: a path comes in, its bytes go out without being read; what was looked at is given back."""

import errno
import mmap
from pathlib import Path

import pyarrow as pa

from albert.errors import InputError

try:
    import resource
except ImportError:  # no such limits on Windows
    resource = None  # type: ignore[assignment]

# Up to here a corpus may stay mapped. Beyond it, pages are let go of as soon as they were used: one look can
# bring in megabytes around it, which would count as this process's memory until the end.
LARGE_BYTES = 128 * 1024 * 1024
_MOST_FILES = 10_240


class MappedFiles:
    """Files mapped into memory, by number; the system's cache keeps what is let go of."""

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []
        self._num_bytes = 0

    def __len__(self) -> int:
        return len(self._maps)

    def map(self, path: Path) -> pa.Buffer:
        """The bytes of a file, to be read only."""
        try:
            mapped = _map(path)
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            mapped = _map_beyond_limit(path)
        self._maps.append(mapped)
        self._num_bytes += len(mapped)
        return pa.py_buffer(mapped)

    def let_go(self, number: int) -> None:
        """Give back the pages of a file, if the files are many; the next look fetches them again."""
        if self._num_bytes > LARGE_BYTES and hasattr(mmap, "MADV_DONTNEED"):
            self._maps[number].madvise(mmap.MADV_DONTNEED)


def _map(path: Path) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _map_beyond_limit(path: Path) -> mmap.mmap:
    """Raise the number of files that this process may open to what the system allows, and try once more.

    Each map keeps a file open. The usual limits, 256 and 1,024, are meant for programs that forget to close
    theirs; a corpus may have more shards.
    """
    limit: int | None = None
    try:
        if resource is not None:
            limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            # macOS promises endlessly many and grants so many.
            wanted = most if most != resource.RLIM_INFINITY else _MOST_FILES
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            limit = wanted
        return _map(path)
    except (OSError, ValueError) as error:
        told = "than the system allows" if limit is None else f"than {limit}"
        raise InputError(
            f"{path}: more files are open {told}, and every shard needs one; allow more (`ulimit -n`), or "
            "prepare the corpus with fewer and larger sources"
        ) from error
