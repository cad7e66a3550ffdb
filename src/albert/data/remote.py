"""A place comes in, a path or a URL as s3://bucket/books; what lies there goes out, failures as one line.

The only door to fsspec, which is imported when the first URL is opened and never for a path.
"""

import errno
import hashlib
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from albert.errors import AlbertError, FileFormatError, InputError, first_line

Place = str | Path
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(://|::)")
_LOCAL = ("file://", "local://")
_BUFFER_BYTES = 1 << 20
# By what a file system tells that a file is not the one it was, the best first. Each has some; only one is
# looked at: in a list S3 gives the time of change to the millisecond, and of a single file to the second.
_MARKS = (
    "ETag", "etag", "generation", "md5Hash", "Content-MD5", "LastModified", "last_modified", "Last-Modified",
    "updated", "modified", "mtime", "created",
)  # fmt: skip


def is_url(place: Place) -> bool:
    """Whether a place is in a store: a URL, but for file://, which is a path with other words."""
    return isinstance(place, str) and bool(_URL.match(place)) and not place.startswith(_LOCAL)


def to_path(place: Place) -> Path:
    """The path of a place on this machine."""
    assert not is_url(place), place
    text = str(place)
    return Path(text.partition("://")[2] if text.startswith(_LOCAL) else text)


def to_name(place: Place) -> PurePosixPath:
    """The place as a path to take names and suffixes from: without the part after ? of a web address."""
    text = str(place)
    return PurePosixPath(urlsplit(text).path if text.startswith(("http://", "https://")) else text)


def connect(url: str) -> tuple[Any, str]:
    """The file system of a URL, and what it calls the file there; refused: an unknown protocol, and one
    whose package is not installed.
    """
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
def tell_failures(url: str) -> Iterator[None]:
    """Turn what a store's library raises, which may be anything, into one line with a cure."""
    try:
        yield
    except AlbertError:
        raise
    except FileNotFoundError as error:
        raise FileFormatError(f"{url}: no such file, folder or bucket; check the address") from error
    except Exception as error:
        is_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        cure = "check the address, the credentials and the network, and run the same command again"
        raise FileFormatError(
            f"{url}: cannot be reached ({type(error).__name__}: {first_line(error)}); "
            + ("make room on this machine's disk" if is_full else cure)
        ) from error


def open_binary(place: Place) -> BinaryIO:
    """The bytes of a file here or in a store, to be read from anywhere in it."""
    if not is_url(place):
        return to_path(place).open("rb")
    return io.BufferedReader(_RemoteFile(str(place)), _BUFFER_BYTES)


def measure(place: Place, *, is_fresh: bool = False) -> tuple[int, int]:
    """Bytes of a file, and a number that changes when it does; `is_fresh` asks again what is known."""
    if not is_url(place):
        status = to_path(place).stat()
        return status.st_size, status.st_mtime_ns
    url = str(place)
    with tell_failures(url):
        system, path = connect(url)
        if is_fresh:
            system.invalidate_cache()
        info = system.info(path)
        if info.get("size") is None:
            raise FileFormatError(
                f"{url}: its server does not say how long it is; fetch it, and give the path"
            )
    mark = next((str(info[key]) for key in _MARKS if info.get(key)), "")
    return int(info["size"]), int.from_bytes(hashlib.sha256(mark.encode()).digest()[:7], "big")


def list_files(url: str) -> list[str]:
    """The names of all files below a folder in a store, hidden ones left out, in a local folder's order."""
    with tell_failures(url):
        system, path = connect(url)
        system.invalidate_cache()
        root = path.rstrip("/") + "/"
        names = [name.removeprefix(root) for name in system.find(path) if name.startswith(root)]
    parts = [name.split("/") for name in names]
    visible = [part for part in parts if not any(name.startswith(".") or not name for name in part)]
    return ["/".join(part) for part in sorted(visible, key=_walking_order)]


def _walking_order(parts: list[str]) -> list[tuple[bool, str]]:
    """A folder's own files go before its folders."""
    return [*((True, name) for name in parts[:-1]), (False, parts[-1])]


class _RemoteFile(io.RawIOBase):
    """A file in a store; also what goes wrong while it is read is told in one line."""

    def __init__(self, url: str) -> None:
        self._url = url
        with tell_failures(url):
            system, path = connect(url)
            self._inner: Any = system.open(path, "rb")

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """Whether it can be entered in the middle: some web servers send from the beginning only."""
        return bool(self._inner.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place in the file."""
        with tell_failures(self._url):
            return int(self._inner.seek(offset, whence))

    def tell(self) -> int:
        """The place in the file."""
        return int(self._inner.tell())

    def readinto(self, buffer: Any) -> int:
        """The next bytes, as many as there is room for."""
        with tell_failures(self._url):
            data = self._inner.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Let go of the connection."""
        if not self.closed:
            self._inner.close()
        super().close()
