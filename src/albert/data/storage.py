"""Open files and folders by path or URL, plain or compressed, with errors of one line that name the file.

URLs such as s3://bucket/books are opened with fsspec. Object stores cannot rename, lock or map files, so a
remote file is written locally and then uploaded, and is read from a local copy.
"""

import gzip
import hashlib
import lzma
import os
import re
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from albert.errors import AlbertError, FileFormatError, InputError, first_line
from albert.files import TEMP_NAME, atomic_path, default_cache_dir, format_json, hash_file, require_folder
from albert.progress import Reporter, format_seconds

PathOrUrl = str | Path
BLOCK_BYTES = 1 << 20
HEAD_BYTES = 200_000  # enough to detect binary files and the layout of text
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(://|::)")
_LOCAL = ("file://", "local://")
# Keys of fsspec's file information that change with the file, the best first. Only one is used, because S3
# reports other times in a listing than for a single file.
_VERSION_KEYS = (
    "ETag", "etag", "generation", "md5Hash", "Content-MD5", "LastModified", "last_modified", "Last-Modified",
    "updated", "modified", "mtime", "created",
)  # fmt: skip


def is_url(path: PathOrUrl) -> bool:
    """Return whether this is the URL of a remote file; file:// URLs are local paths."""
    return isinstance(path, str) and bool(_URL.match(path)) and not path.startswith(_LOCAL)


def to_path(path: PathOrUrl) -> Path:
    """Convert a local path or a file:// URL to a Path."""
    text = str(path)
    return Path(text.partition("://")[2] if text.startswith(_LOCAL) else text)


def to_name(path: PathOrUrl) -> PurePosixPath:
    """Return the path with names and suffixes, without the query of a web address."""
    text = str(path)
    return PurePosixPath(urlsplit(text).path if text.startswith(("http://", "https://")) else text)


@contextmanager
def open_remote(url: str, *, is_fresh: bool = False) -> Iterator[tuple[Any, str]]:
    """Yield the fsspec file system of a URL and the path in it; errors in the block become one-line errors.

    `is_fresh` skips fsspec's cache, to see changes by other processes.
    """
    import fsspec  # imported here, because local paths do not need it

    try:
        system, path = fsspec.core.url_to_fs(url)
        if is_fresh:
            system.invalidate_cache()
        yield system, str(path)
    except AlbertError:
        raise
    except ImportError as error:
        raise InputError(f"{url}: needs a package that is not installed ({first_line(error)})") from error
    except FileNotFoundError as error:
        raise FileFormatError(f"{url}: no such file, folder or bucket; check the address") from error
    except Exception as error:  # libraries of file systems raise errors of any type
        raise FileFormatError(
            f"{url}: cannot be opened ({type(error).__name__}: {first_line(error)}); check the address, the "
            "credentials and the network, and run the same command again"
        ) from error


@contextmanager
def open_binary(path: PathOrUrl) -> Iterator[BinaryIO]:
    """Open a local or remote file for reading, without decompressing it."""
    if is_url(path):
        with open_remote(str(path)) as (system, remote), system.open(remote, "rb") as file:
            yield file
        return
    try:
        file = to_path(path).open("rb")
    except OSError as error:
        raise FileFormatError(f"{path}: {error.strerror}; make it readable, or omit it") from error
    with file:
        yield file


def _open_zstd(file: BinaryIO) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")


OPENERS: dict[str, Callable[[BinaryIO], Any]] = {".gz": gzip.open, ".zst": _open_zstd, ".xz": lzma.open}


def is_compressed(path: PathOrUrl) -> bool:
    """Return whether the suffix of a file is that of a compressed file."""
    return to_name(path).suffix in OPENERS


def iter_bytes(
    path: PathOrUrl, *, start: int = 0, end: int | None = None, block_bytes: int = BLOCK_BYTES
) -> Iterator[bytes]:
    """Yield the decompressed content in blocks, or bytes `start` to `end` of an uncompressed file."""
    left = sys.maxsize if end is None else end - start
    opener = OPENERS.get(to_name(path).suffix)
    with open_binary(path) as file:
        try:
            with opener(file) if opener else nullcontext(file) as stream:
                if start:
                    stream.seek(start)
                while left > 0 and (block := stream.read(min(block_bytes, left))):
                    left -= len(block)
                    yield block
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            # gzip and pyarrow raise an OSError without a number for damaged data.
            if opener is None or (isinstance(error, OSError) and error.errno is not None):
                raise
            raise FileFormatError(
                f"{path}: its compressed data is damaged or truncated ({first_line(error)}); download it "
                "again, or omit it"
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
    """Return the size of a file and a number that changes with it; `is_fresh` skips fsspec's cache."""
    if not is_url(path):
        with open_binary(path) as file:
            status = os.fstat(file.fileno())
        return status.st_size, status.st_mtime_ns
    with open_remote(str(path), is_fresh=is_fresh) as (system, remote):
        info = system.info(remote)
        if info.get("size") is None:
            raise FileFormatError(f"{path}: the server reports no size; download it, and give the path")
    version = next((str(info[key]) for key in _VERSION_KEYS if info.get(key)), "")
    return int(info["size"]), int.from_bytes(hashlib.sha256(version.encode()).digest()[:7], "big")


def list_files(url: str) -> list[str]:
    """List all files in a remote folder except hidden ones, recursively, in the order of a local walk."""
    with open_remote(url, is_fresh=True) as (system, path):
        root = path.rstrip("/") + "/"
        names = [name.removeprefix(root) for name in system.find(path) if name.startswith(root)]
    parts = [name.split("/") for name in names]
    visible = [part for part in parts if not any(name.startswith(".") or not name for name in part)]
    # A folder's own files come before its folders.
    visible.sort(key=lambda part: [*((True, name) for name in part[:-1]), (False, part[-1])])
    return ["/".join(part) for part in visible]


@dataclass(frozen=True)
class LocalFolder:
    """A local folder; names may include subfolders, as in `shards/00000-000.arrow`."""

    path: Path

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def lock_path(self) -> Path:
        return self.path / "lock"

    def subfolder(self, name: str) -> "LocalFolder":
        return LocalFolder(self.path / name)

    def reading(self, name: str) -> AbstractContextManager[Path]:
        """Return a local path with the content of a file for the `with` block."""
        return nullcontext(self.path / name)

    def writing(self, name: str) -> AbstractContextManager[Path]:
        """Return a local path to write to; it becomes the file if the block ends without an error."""
        return atomic_path(self.path / name)

    def find_size(self, name: str) -> int | None:
        """Return the size of a file, or None if it does not exist."""
        path = self.path / name
        return path.stat().st_size if path.is_file() else None

    def has_content(self, name: str, *, num_bytes: int, sha256: str) -> bool:
        return self.find_size(name) == num_bytes and hash_file(self.path / name) == sha256

    def list_names(self) -> list[str]:
        """List the names in the folder, none if it does not exist."""
        return require_folder(self.path, hint="choose another path")

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def clear(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def remove_unfinished(self) -> None:
        """Remove temporary files of killed processes."""
        for file in self.path.glob(".*.*"):
            if file.is_file() and TEMP_NAME.fullmatch(file.name):
                file.unlink()


@dataclass(frozen=True)
class RemoteFolder:
    """A folder in a file system of fsspec, which reads the credentials, with the methods of `LocalFolder`."""

    location: str

    @property
    def lock_path(self) -> Path:
        """A local file, because object stores have no locks."""
        return default_cache_dir() / "locks" / hashlib.sha256(self.location.encode()).hexdigest()[:32]

    def subfolder(self, name: str) -> "RemoteFolder":
        return RemoteFolder(f"{self.location}/{name}")

    @contextmanager
    def reading(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="albert-") as folder:
            path = Path(folder) / Path(name).name
            self.fetch(name, path)
            yield path

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="albert-") as folder:
            path = Path(folder) / Path(name).name
            yield path
            with open_remote(f"{self.location}/{name}") as (system, target):
                system.put_file(str(path), target)

    def fetch(self, name: str, path: Path) -> None:
        """Copy a file to a local path."""
        with open_remote(f"{self.location}/{name}") as (system, source):
            system.get_file(source, str(path))

    def find_size(self, name: str) -> int | None:
        with open_remote(f"{self.location}/{name}", is_fresh=True) as (system, path):
            try:
                info = system.info(path)
            except FileNotFoundError:
                return None
        return None if info["type"] == "directory" else int(info["size"] or 0)

    def has_content(self, name: str, *, num_bytes: int, sha256: str) -> bool:
        """Check the size only; the hash is checked when the corpus is opened."""
        return self.find_size(name) == num_bytes

    def list_names(self) -> list[str]:
        with open_remote(self.location, is_fresh=True) as (system, path):
            try:
                found = system.ls(path, detail=False)
            except FileNotFoundError:
                return []
        return sorted({name.rstrip("/").rpartition("/")[2] for name in found if name.rstrip("/") != path})

    def remove(self, name: str) -> None:
        if self.find_size(name) is not None:
            with open_remote(f"{self.location}/{name}") as (system, path):
                system.rm_file(path)

    def clear(self) -> None:
        if self.list_names():
            with open_remote(self.location) as (system, path):
                system.rm(path, recursive=True)

    def remove_unfinished(self) -> None:
        """Do nothing, because an interrupted upload leaves no file."""


Storage = LocalFolder | RemoteFolder


def open_storage(location: PathOrUrl) -> Storage:
    """Return the folder at a path or URL, which need not exist."""
    if is_url(location):
        return RemoteFolder(str(location).rstrip("/"))
    return LocalFolder(to_path(location))


def put_json(store: Storage, name: str, value: Any) -> None:
    """Write a JSON file."""
    with store.writing(name) as path:
        path.write_text(format_json(value), encoding="utf-8")


class ByteProgress:
    """Report progress, speed and remaining time of a stage of `total` bytes, of which `done` are finished."""

    def __init__(self, reporter: Reporter, stage: str, *, total: int, done: int = 0) -> None:
        self._reporter, self._stage, self._total = reporter, stage, total
        self._done = self._before = done
        self._began = time.monotonic()
        self.advance(0)

    def advance(self, num_bytes: int) -> None:
        self._done += num_bytes
        speed = (self._done - self._before) / max(time.monotonic() - self._began, 1e-9)
        message = f"{self._done / 1e6:.1f} of {self._total / 1e6:.1f} MB"
        if speed:
            left = format_seconds((self._total - self._done) / speed)
            message += f", {speed / 1e6:.1f} MB/s, {left} left"
        self._reporter.show(self._stage, message, fraction=self._done / self._total if self._total else 1.0)
