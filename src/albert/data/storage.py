"""Read and write named files in a folder, local or remote, in the same way.

An object store (S3 and its like) cannot rename, lock or map a file. So a remote file is written locally first
and then uploaded in one go, and read from a copy; a corpus is complete when its manifest is uploaded, last.
"""

import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert.data.paths import PathOrUrl, connect, is_url, remote_errors, to_path
from albert.files import ASIDE_PATTERN, atomic_path, default_cache_dir, format_json, hash_file, require_folder
from albert.progress import Reporter, format_seconds


@dataclass(frozen=True)
class LocalFolder:
    """A local folder; a name may lead further down, as in `shards/00000-000.arrow`."""

    path: Path

    @property
    def place(self) -> str:
        """The path, by which any process opens the folder."""
        return str(self.path)

    @property
    def lock_path(self) -> Path:
        """The file whose lock keeps other processes of this machine out."""
        return self.path / "lock"

    def below(self, name: str) -> "LocalFolder":
        """Return a folder inside."""
        return LocalFolder(self.path / name)

    def reading(self, name: str) -> AbstractContextManager[Path]:
        """Return a local path with the content of a file, valid inside the `with` block."""
        return nullcontext(self.path / name)

    def writing(self, name: str) -> AbstractContextManager[Path]:
        """Return a local path to write to; the file gets its name when the block ends without error."""
        return atomic_path(self.path / name)

    def find_size(self, name: str) -> int | None:
        """Return the size of a file, or None if there is none."""
        path = self.path / name
        return path.stat().st_size if path.is_file() else None

    def is_whole(self, name: str, *, num_bytes: int, sha256: str) -> bool:
        """Whether a file exists and has this content."""
        return self.find_size(name) == num_bytes and hash_file(self.path / name) == sha256

    def list_names(self) -> list[str]:
        """List the files and folders inside; none if the folder does not exist."""
        return require_folder(self.path, hint="choose another")

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        (self.path / name).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def sweep(self) -> None:
        """Remove the temporary files of a process that was killed."""
        for file in self.path.glob(".*.*"):
            if file.is_file() and ASIDE_PATTERN.fullmatch(file.name):
                file.unlink()


@dataclass(frozen=True)
class RemoteFolder:
    """A folder that fsspec reaches, with the methods of `LocalFolder`; credentials are fsspec's settings."""

    place: str

    @property
    def lock_path(self) -> Path:
        """A local file: object stores have no locks."""
        return default_cache_dir() / "locks" / hashlib.sha256(self.place.encode()).hexdigest()[:32]

    def below(self, name: str) -> "RemoteFolder":
        """Return a folder inside."""
        return RemoteFolder(f"{self.place}/{name}")

    @contextmanager
    def _connect(self, name: str = "", *, is_fresh: bool = False) -> Iterator[tuple[Any, str]]:
        """Yield the file system and the path of a name; `is_fresh` sees what other processes wrote."""
        url = f"{self.place}/{name}" if name else self.place
        with remote_errors(url):
            system, path = connect(url)
            if is_fresh:
                system.invalidate_cache()
            yield system, path

    @contextmanager
    def reading(self, name: str) -> Iterator[Path]:
        """Yield a temporary copy of a file."""
        with tempfile.TemporaryDirectory(prefix="albert-") as folder:
            path = Path(folder) / Path(name).name
            self.fetch(name, path)
            yield path

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Yield a temporary file that is uploaded at the end."""
        with tempfile.TemporaryDirectory(prefix="albert-") as folder:
            path = Path(folder) / Path(name).name
            yield path
            with self._connect(name) as (system, target):
                system.put_file(str(path), target)

    def fetch(self, name: str, path: Path) -> None:
        """Copy a file to a local path."""
        with self._connect(name) as (system, source):
            system.get_file(source, str(path))

    def find_size(self, name: str) -> int | None:
        """Return the size of a file, or None if there is none."""
        with self._connect(name, is_fresh=True) as (system, path):
            try:
                info = system.info(path)
            except FileNotFoundError:
                return None
        return None if info["type"] == "directory" else int(info["size"] or 0)

    def is_whole(self, name: str, *, num_bytes: int, sha256: str) -> bool:
        """Check the size only: reading all bytes back would cost as much as preparing the corpus again.

        Whoever opens the corpus checks every byte.
        """
        return self.find_size(name) == num_bytes

    def list_names(self) -> list[str]:
        """List the files and folders inside; none if the folder does not exist."""
        with self._connect(is_fresh=True) as (system, path):
            try:
                found = system.ls(path, detail=False)
            except FileNotFoundError:
                return []
        return sorted({name.rstrip("/").rpartition("/")[2] for name in found if name.rstrip("/") != path})

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        if self.find_size(name) is not None:
            with self._connect(name) as (system, path):
                system.rm_file(path)

    def clear(self) -> None:
        """Remove the folder with all that is in it."""
        if self.list_names():
            with self._connect() as (system, path):
                system.rm(path, recursive=True)

    def sweep(self) -> None:
        """Do nothing: an interrupted upload leaves no file."""


Storage = LocalFolder | RemoteFolder


def open_storage(place: PathOrUrl) -> Storage:
    """Return the folder at a path or URL; it need not exist yet."""
    return RemoteFolder(str(place).rstrip("/")) if is_url(place) else LocalFolder(to_path(place))


def put_json(store: Storage, name: str, value: Any) -> None:
    """Write a value as JSON."""
    with store.writing(name) as path:
        path.write_text(format_json(value), encoding="utf-8")


class Meter:
    """Reports progress, speed and time left of a stage of `total` bytes, of which `done` were done before."""

    def __init__(self, reporter: Reporter, stage: str, *, total: int, done: int = 0) -> None:
        self._reporter, self._stage, self._total = reporter, stage, total
        self._done = self._before = done
        self._began = time.monotonic()
        self.advance(0)

    def advance(self, num_bytes: int) -> None:
        """Report that so many more bytes are done."""
        self._done += num_bytes
        speed = (self._done - self._before) / max(time.monotonic() - self._began, 1e-9)
        message = f"{self._done / 1e6:.1f} of {self._total / 1e6:.1f} MB"
        if speed:
            left = format_seconds((self._total - self._done) / speed)
            message += f", {speed / 1e6:.1f} MB/s, {left} left"
        self._reporter.show(self._stage, message, fraction=self._done / self._total if self._total else 1.0)
