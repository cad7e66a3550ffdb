"""Open files by path or URL, plain or compressed; a failure is an error of one line that names the file.

URLs such as s3://bucket/books go through fsspec, which is imported when the first URL is opened.
"""

import errno
import gzip
import hashlib
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from albert.errors import AlbertError, FileFormatError, InputError, first_line

PathOrUrl = str | Path
BLOCK_BYTES = 1 << 20
HEAD_BYTES = 200_000  # enough to tell text from binary and to detect the layout
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(://|::)")
_LOCAL = ("file://", "local://")
# Keys by which file systems report that a file changed, the best first. Only one is used: S3 gives the time
# of change to the millisecond in a listing, and to the second for a single file.
_VERSION_KEYS = (
    "ETag", "etag", "generation", "md5Hash", "Content-MD5", "LastModified", "last_modified", "Last-Modified",
    "updated", "modified", "mtime", "created",
)  # fmt: skip


def is_url(path: PathOrUrl) -> bool:
    """Whether this is a URL of a remote file; file:// URLs are local paths."""
    return isinstance(path, str) and bool(_URL.match(path)) and not path.startswith(_LOCAL)


def to_path(path: PathOrUrl) -> Path:
    """Convert a local path or a file:// URL to a `Path`."""
    assert not is_url(path), path
    text = str(path)
    return Path(text.partition("://")[2] if text.startswith(_LOCAL) else text)


def to_name(path: PathOrUrl) -> PurePosixPath:
    """Return the part with names and suffixes: of a web address, without the query."""
    text = str(path)
    return PurePosixPath(urlsplit(text).path if text.startswith(("http://", "https://")) else text)


def connect(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL and the path in it."""
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise InputError(
            f"{url}: needs a package that is not installed ({first_line(error)}); install it on every "
            "machine that reads or writes there"
        ) from error
    except ValueError as error:
        raise InputError(
            f"{url}: cannot be opened ({first_line(error)}); begin with s3://, gs:// or another that fsspec "
            "knows, or give a path"
        ) from error
    return system, str(path)


@contextmanager
def remote_errors(url: str) -> Iterator[None]:
    """Raise whatever a file system's library raises as a `FileFormatError`."""
    try:
        yield
    except AlbertError:
        raise
    except FileNotFoundError as error:
        raise FileFormatError(f"{url}: no such file, folder or bucket; check the address") from error
    except Exception as error:
        is_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        hint = "check the address, the credentials and the network, and run the same command again"
        raise FileFormatError(
            f"{url}: cannot be reached ({type(error).__name__}: {first_line(error)}); "
            + ("make room on this machine's disk" if is_full else hint)
        ) from error


@contextmanager
def open_binary(path: PathOrUrl) -> Iterator[BinaryIO]:
    """Open a local or remote file for reading, without decompressing it."""
    if not is_url(path):
        with to_path(path).open("rb") as file:
            yield file
        return
    with remote_errors(str(path)):
        system, remote = connect(str(path))
        with system.open(remote, "rb") as file:
            yield file


def _open_zstd(file: BinaryIO) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")


OPENERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": gzip.open, ".zst": _open_zstd, ".xz": lzma.open,
}  # fmt: skip


def is_compressed(path: PathOrUrl) -> bool:
    """Whether the file name has the suffix of a compressed file."""
    return to_name(path).suffix in OPENERS


def iter_bytes(
    path: PathOrUrl, *, start: int = 0, end: int | None = None, block_bytes: int = BLOCK_BYTES
) -> Iterator[bytes]:
    """Yield the decompressed content in blocks, from byte `start` to `end`.

    Only an uncompressed file can be read from the middle.
    """
    left = sys.maxsize if end is None else end - start
    opener = OPENERS.get(to_name(path).suffix)
    try:
        with (
            open_binary(path) as file,
            _damages(path),
            opener(file) if opener else nullcontext(file) as stream,
        ):
            if start:
                stream.seek(start)
            while left > 0 and (block := stream.read(min(block_bytes, left))):
                left -= len(block)
                yield block
    except OSError as error:
        raise FileFormatError(
            f"{path}: {error.strerror or error}; make it readable, or leave it out"
        ) from error


@contextmanager
def _damages(path: PathOrUrl) -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if not is_compressed(path) or (isinstance(error, OSError) and error.errno is not None):
            raise
        # gzip and pyarrow raise an OSError without a number for damaged data.
        raise FileFormatError(
            f"{path}: its compressed data is damaged or cut short ({first_line(error)}); fetch it again, or "
            "leave it out"
        ) from error


def read_head(path: PathOrUrl, *, num_bytes: int = HEAD_BYTES) -> bytes:
    """Return the first bytes of the decompressed content."""
    head = b""
    for block in iter_bytes(path, block_bytes=min(num_bytes, BLOCK_BYTES)):
        head += block
        if len(head) >= num_bytes:
            break
    return head[:num_bytes]


def measure(path: PathOrUrl, *, is_fresh: bool = False) -> tuple[int, int]:
    """Return a file's size, and a number that changes when the file does; `is_fresh` skips fsspec's cache."""
    if not is_url(path):
        status = to_path(path).stat()
        return status.st_size, status.st_mtime_ns
    url = str(path)
    with remote_errors(url):
        system, remote = connect(url)
        if is_fresh:
            system.invalidate_cache()
        info = system.info(remote)
        if info.get("size") is None:
            raise FileFormatError(
                f"{url}: its server does not say how long it is; fetch it, and give the path"
            )
    version = next((str(info[key]) for key in _VERSION_KEYS if info.get(key)), "")
    return int(info["size"]), int.from_bytes(hashlib.sha256(version.encode()).digest()[:7], "big")


def list_files(url: str) -> list[str]:
    """List all files below a remote folder, without hidden ones, in the order of a local walk."""
    with remote_errors(url):
        system, path = connect(url)
        system.invalidate_cache()
        root = path.rstrip("/") + "/"
        names = [name.removeprefix(root) for name in system.find(path) if name.startswith(root)]
    parts = [name.split("/") for name in names]
    visible = [part for part in parts if not any(name.startswith(".") or not name for name in part)]
    # A folder's own files come before its folders.
    visible.sort(key=lambda part: [*((True, name) for name in part[:-1]), (False, part[-1])])
    return ["/".join(part) for part in visible]
