"""A file, plain or compressed, comes in; its bytes go out, block by block."""

import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from albert.errors import FileFormatError

BLOCK_BYTES = 1 << 20


def _open_plain(path: Path) -> Any:
    return open(path, "rb")


def _open_gzip(path: Path) -> Any:
    return gzip.open(path, "rb")


def _open_xz(path: Path) -> Any:
    return lzma.open(path, "rb")


def _open_zstd(path: Path) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")


OPENERS: dict[str, Callable[[Path], Any]] = {".gz": _open_gzip, ".zst": _open_zstd, ".xz": _open_xz}


def is_compressed(path: Path) -> bool:
    """Whether the name says that the content is compressed."""
    return Path(path).suffix in OPENERS


def iter_bytes(
    path: Path, *, start: int = 0, end: int | None = None, block_bytes: int = BLOCK_BYTES
) -> Iterator[bytes]:
    """The content from byte `start` up to `end`, decompressed; refused by name: an unreadable or cut file.

    Only a plain file can be entered in the middle.
    """
    path = Path(path)
    left = None if end is None else end - start
    try:
        with OPENERS.get(path.suffix, _open_plain)(path) as stream:
            if start:
                stream.seek(start)
            while left is None or left > 0:
                block = stream.read(block_bytes if left is None else min(block_bytes, left))
                if not block:
                    return
                left = None if left is None else left - len(block)
                yield block
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise _damaged(path, error) from error
    except OSError as error:
        if error.errno is None:  # pyarrow's word for data that is no zstd, or only half of it
            raise _damaged(path, error) from error
        raise FileFormatError(
            f"{path}: {error.strerror or error}; make it readable, or leave it out"
        ) from error


def read_head(path: Path, *, num_bytes: int) -> bytes:
    """The first bytes of the content, decompressed."""
    parts: list[bytes] = []
    missing = num_bytes
    for block in iter_bytes(path, block_bytes=min(num_bytes, BLOCK_BYTES)):
        parts.append(block[:missing])
        missing -= len(parts[-1])
        if missing <= 0:
            break
    return b"".join(parts)


def _damaged(path: Path, error: Exception) -> FileFormatError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return FileFormatError(
        f"{path}: its compressed data is damaged or cut short ({reason}); fetch it again, or leave it out"
    )
