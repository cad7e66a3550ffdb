"""Files in, files out: whatever is written appears whole or not at all."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from albert.errors import FileFormatError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to; it takes the name `path` when the block ends well.

    The content is on the disk before the name is: a crash leaves the old file or the new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    aside = Path(name)
    try:
        yield aside
        # mkstemp makes files for the owner's eyes only; a result is as readable as the user's others.
        aside.chmod(0o666 & ~_umask())
        sync(aside)
        os.replace(aside, path)
        sync(path.parent)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def atomic_dir(path: Path) -> Iterator[Path]:
    """Yield a new folder beside `path`, which is no file; it replaces `path` when the block ends well."""
    path = Path(path).resolve()  # of a link, what it leads to is replaced
    if path.exists() and not path.is_dir():
        raise FileFormatError(f"{path}: is a file, and a folder is to be written there; choose another path")
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield aside
        aside.chmod(0o777 & ~_umask())
        for file in aside.rglob("*"):
            sync(file)
        _replace_dir(aside, path)
        sync(path.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _replace_dir(new: Path, path: Path) -> None:
    # A folder with content cannot be replaced in one call: the old one steps aside first.
    if not path.exists():
        os.replace(new, path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    os.replace(path, old)
    try:
        os.replace(new, path)
    except OSError:
        os.replace(old, path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def sync(path: Path) -> None:
    """Have the system put a file's or a folder's content on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with atomic_path(Path(path)) as aside:
        aside.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, whole or not at all."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_text(path: Path) -> str:
    """Read a UTF-8 text file; refuse a missing or undecodable one by name."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise FileFormatError(f"{path}: {error.strerror or error}; check the path") from error


def read_json(path: Path) -> Any:
    """Read a JSON file; refuse a missing or broken one by name and line."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise FileFormatError(
            f"{path}: line {error.lineno} is not valid JSON ({error.msg}); mend it or fetch it again"
        ) from error
