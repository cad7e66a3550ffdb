"""A place comes in; a folder of named files goes out, read and written the same way here and in a store.

A store (S3 and its like) cannot rename, lock or map a file. So a file is written on this machine first and
then put there in one go, and read from a copy; what makes a corpus whole is that its manifest is put last.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from albert.data.remote import Place, connect, is_url, tell_failures, to_path
from albert.files import ASIDE_PATTERN, atomic_path, default_cache_dir, format_json, hash_file, require_folder


class Storage(Protocol):
    """A folder of files; a name may lead further down, as in `shards/00000-000.arrow`."""

    @property
    def place(self) -> str:
        """What any process opens it by, and what messages call it."""

    @property
    def lock_path(self) -> Path:
        """The file whose lock keeps other processes of this machine out."""

    def below(self, name: str) -> "Storage":
        """A folder inside."""

    def reading(self, name: str) -> AbstractContextManager[Path]:
        """A file on this machine with the content of a name."""

    def writing(self, name: str) -> AbstractContextManager[Path]:
        """A file on this machine to write to; when the block ends well, it is under the name, whole."""

    def find_size(self, name: str) -> int | None:
        """The bytes of a file, or None where there is none."""

    def is_whole(self, name: str, *, num_bytes: int, sha256: str) -> bool:
        """Whether a file is there and is what it should be."""

    def list_names(self) -> list[str]:
        """The files and folders in it; none where it does not exist."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def clear(self) -> None:
        """Remove everything in it, and itself."""

    def sweep(self) -> None:
        """Remove what a killed process was writing."""


@dataclass(frozen=True)
class LocalFolder:
    """A folder of this machine's file systems; with a shared one, of every machine's."""

    path: Path

    @property
    def place(self) -> str:
        """Its path."""
        return str(self.path)

    @property
    def lock_path(self) -> Path:
        """A file in it."""
        return self.path / "lock"

    def below(self, name: str) -> "LocalFolder":
        """A folder inside."""
        return LocalFolder(self.path / name)

    def reading(self, name: str) -> AbstractContextManager[Path]:
        """The file itself."""
        return nullcontext(self.path / name)

    def writing(self, name: str) -> AbstractContextManager[Path]:
        """A file beside it, which takes its name at the end."""
        return atomic_path(self.path / name)

    def find_size(self, name: str) -> int | None:
        """Its bytes, if it is there."""
        path = self.path / name
        return path.stat().st_size if path.is_file() else None

    def is_whole(self, name: str, *, num_bytes: int, sha256: str) -> bool:
        """By its bytes."""
        return self.find_size(name) == num_bytes and hash_file(self.path / name) == sha256

    def list_names(self) -> list[str]:
        """Hidden ones, too; refused: a file where a folder should be."""
        return require_folder(self.path, cure="choose another")

    def remove(self, name: str) -> None:
        """Unlink it."""
        (self.path / name).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)

    def sweep(self) -> None:
        """Remove the files that never got their names."""
        for file in self.path.glob(".*.*"):
            if file.is_file() and ASIDE_PATTERN.fullmatch(file.name):
                file.unlink()


@dataclass(frozen=True)
class RemoteFolder:
    """A folder in a store that fsspec reaches; credentials and the like are its libraries' own settings."""

    url: str

    @property
    def place(self) -> str:
        """Its URL."""
        return self.url

    @property
    def lock_path(self) -> Path:
        """A file of this machine: a store has no locks."""
        return default_cache_dir() / "locks" / hashlib.sha256(self.url.encode()).hexdigest()[:32]

    def below(self, name: str) -> "RemoteFolder":
        """A folder inside."""
        return RemoteFolder(f"{self.url}/{name}")

    @contextmanager
    def reading(self, name: str) -> Iterator[Path]:
        """A copy, as long as the block lasts."""
        with tempfile.TemporaryDirectory(prefix="albert-") as folder:
            path = Path(folder) / Path(name).name
            self.fetch(name, path)
            yield path

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """A file that is uploaded at the end: a store shows it when it has all of it."""
        with tempfile.TemporaryDirectory(prefix="albert-") as folder:
            path = Path(folder) / Path(name).name
            yield path
            with tell_failures(f"{self.url}/{name}"):
                system, target = connect(f"{self.url}/{name}")
                system.put_file(str(path), target)

    def fetch(self, name: str, path: Path) -> None:
        """Copy a file to a path of this machine."""
        with tell_failures(f"{self.url}/{name}"):
            system, source = connect(f"{self.url}/{name}")
            system.get_file(source, str(path))

    def find_size(self, name: str) -> int | None:
        """Its bytes, if it is there."""
        with tell_failures(f"{self.url}/{name}"):
            system, path = connect(f"{self.url}/{name}")
            system.invalidate_cache()  # other processes write there, too
            try:
                info = system.info(path)
            except FileNotFoundError:
                return None
        return None if info["type"] == "directory" else int(info["size"] or 0)

    def is_whole(self, name: str, *, num_bytes: int, sha256: str) -> bool:
        """By its size: a store keeps checksums of its own, and reading all of it back would cost as much as
        preparing it. Who reads a corpus checks every byte.
        """
        return self.find_size(name) == num_bytes

    def list_names(self) -> list[str]:
        """What is one level down."""
        with tell_failures(self.url):
            system, path = connect(self.url)
            system.invalidate_cache()
            try:
                found = system.ls(path, detail=False)
            except FileNotFoundError:
                return []
        names = {name.rstrip("/").rpartition("/")[2] for name in found if name.rstrip("/") != path}
        return sorted(names)

    def remove(self, name: str) -> None:
        """Remove the object."""
        if self.find_size(name) is not None:
            with tell_failures(f"{self.url}/{name}"):
                system, path = connect(f"{self.url}/{name}")
                system.rm_file(path)

    def clear(self) -> None:
        """Remove all objects below."""
        if self.list_names():
            with tell_failures(self.url):
                system, path = connect(self.url)
                system.rm(path, recursive=True)

    def sweep(self) -> None:
        """Nothing: an upload that was cut off leaves nothing to see."""


def open_storage(place: Place) -> Storage:
    """The folder at a path or a URL; it need not exist yet."""
    return RemoteFolder(str(place).rstrip("/")) if is_url(place) else LocalFolder(to_path(place))


def put_json(store: Storage, name: str, value: Any) -> None:
    """Write a value as JSON under a name, whole or not at all."""
    with store.writing(name) as path:
        path.write_text(format_json(value), encoding="utf-8")
