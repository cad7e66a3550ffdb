"""A file, plain or compressed, here or in a store, comes in; its bytes go out, block by block."""

import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from albert.data.remote import Place, is_url, open_binary, to_name, to_path
from albert.errors import FileFormatError

BLOCK_BYTES = 1 << 20
HEAD_BYTES = 200_000  # are looked at to tell what a file is: text or not, and in which layout


def _open_zstd(content: Path | BinaryIO) -> Any:
    import pyarrow as pa

    stored = pa.OSFile(str(content)) if isinstance(content, Path) else pa.PythonFile(content)
    return pa.CompressedInputStream(stored, "zstd")


OPENERS: dict[str, Callable[[Path | BinaryIO], Any]] = {
    ".gz": gzip.open, ".zst": _open_zstd, ".xz": lzma.open,
}  # fmt: skip


def is_compressed(place: Place) -> bool:
    """Whether the name says that the content is compressed."""
    return to_name(place).suffix in OPENERS


def find_content(place: Place) -> Path | BinaryIO:
    """What libraries that read files take: the path, or of a store the open file."""
    return open_binary(place) if is_url(place) else to_path(place)


def iter_bytes(
    place: Place, *, start: int = 0, end: int | None = None, block_bytes: int = BLOCK_BYTES
) -> Iterator[bytes]:
    """The content from byte `start` up to `end`, decompressed; refused by name: an unreadable or cut file.

    Only a plain file can be entered in the middle.
    """
    left = None if end is None else end - start
    opener = OPENERS.get(to_name(place).suffix)
    try:
        with open_binary(place) if opener is None else opener(find_content(place)) as stream:
            if start:
                stream.seek(start)
            while left is None or left > 0:
                block = stream.read(block_bytes if left is None else min(block_bytes, left))
                if not block:
                    return
                left = None if left is None else left - len(block)
                yield block
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise _damaged(place, error) from error
    except OSError as error:
        if error.errno is None:  # pyarrow's word for data that is no zstd, or only half of it
            raise _damaged(place, error) from error
        raise FileFormatError(
            f"{place}: {error.strerror or error}; make it readable, or leave it out"
        ) from error


def read_head(place: Place, *, num_bytes: int = HEAD_BYTES) -> bytes:
    """The first bytes of the content, decompressed."""
    parts: list[bytes] = []
    missing = num_bytes
    for block in iter_bytes(place, block_bytes=min(num_bytes, BLOCK_BYTES)):
        parts.append(block[:missing])
        missing -= len(parts[-1])
        if missing <= 0:
            break
    return b"".join(parts)


def _damaged(place: Place, error: Exception) -> FileFormatError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return FileFormatError(
        f"{place}: its compressed data is damaged or cut short ({reason}); fetch it again, or leave it out"
    )
