"""Read and write files. What is written appears complete or not at all: it is renamed after a sync."""

import ctypes
import errno
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from albert.errors import NO_SPACE, FileFormatError, InputError, WriteError, first_line

try:
    import fcntl
except ImportError:  # no such locks on Windows
    fcntl = None  # type: ignore[assignment]


# The longest field that `csv` can read where a C long has 32 bits.
MAX_CSV_FIELD = 2**31 - 1
# The names that mkstemp makes from `.NAME.`: files that are being written, or that a killed process left.
TEMP_NAME = re.compile(r"\..+\.[a-z0-9_]{8}")
_open_locks: set[TextIO] = set()  # of this process


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and rename it to `path` if the block ends without an error."""
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
    temporary = Path(name)
    try:
        with _renaming_errors(temporary, path):
            yield temporary
        with writing_to(path):
            temporary.chmod(0o666 & ~_umask())  # mkstemp makes files that only the owner can read
            sync(temporary)
            os.replace(temporary, path)
            sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """Open a result file, which is written atomically; devices and pipes are written directly."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give --out the path of a file")
    if path.exists() and not path.is_file():
        with _renaming_errors(path, path), path.open("wb") as file:
            yield file
        return
    # The target of a link is replaced, not the link.
    target = path.resolve() if path.is_symlink() else path
    with atomic_path(target) as temporary, temporary.open("wb") as file:
        yield file


@contextmanager
def atomic_dir(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`, which replaces `path` if the block ends without an error.

    If `path` is an empty folder that cannot be replaced (a mount point, the current directory), the files are
    moved into it instead.
    """
    given, path = path, Path(path).resolve()  # the target of a link is replaced
    is_current = path.exists() and Path.cwd().is_relative_to(path)
    is_fixed = is_current or os.path.ismount(path) or not os.access(path.parent, os.W_OK | os.X_OK)
    is_filled = is_fixed and path.is_dir() and not require_folder(path)
    require_folder(path, hint="choose another path")
    if is_current and not is_filled:
        raise InputError(
            f"{given}: cannot be replaced while the current directory is in it; run this from another "
            "directory, or choose another path"
        )
    with writing_to(given):
        path.parent.mkdir(parents=True, exist_ok=True)
        parent = path if is_filled else path.parent
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=parent))
    try:
        with _renaming_errors(temporary, given):
            yield temporary
        with writing_to(given):
            temporary.chmod(0o777 & ~_umask())
            for file in temporary.rglob("*"):
                if file.is_file():  # some libraries write files that only the owner can read
                    file.chmod(0o666 & ~_umask())
                sync(file)
            if is_filled:
                for entry in sorted(temporary.iterdir(), key=lambda entry: entry.name == "config.json"):
                    os.replace(entry, path / entry.name)
            else:
                _replace_dir(temporary, path)
            sync(parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _renaming_errors(temporary: Path, path: Path) -> Iterator[None]:
    """Turn OSErrors about `temporary`, or about a full disk, into WriteErrors about `path`."""
    try:
        yield
    except OSError as error:
        failed = None if error.filename is None else Path(os.fsdecode(error.filename))
        if error.errno in NO_SPACE if failed is None else failed.is_relative_to(temporary):
            with writing_to(path):
                raise
        raise


@contextmanager
def writing_to(path: Path | str, *, hint: str | None = None) -> Iterator[None]:
    """Turn any OSError in the block into a WriteError about `path`, with `hint` as the fix."""
    try:
        yield
    except OSError as error:
        # "File exists" means here that a file has the name of a folder to be made.
        number = errno.ENOTDIR if isinstance(error, FileExistsError) else error.errno
        reason = os.strerror(number) if number is not None else first_line(error)
        raise WriteError(number, reason, str(path), hint=hint) from error


def _replace_dir(new: Path, path: Path) -> None:
    """Rename `new` to `path`, atomically on Linux, and remove the old folder."""
    if not path.exists():
        os.replace(new, path)
        return
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    cwd, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if rename is not None and rename(cwd, os.fsencode(new), cwd, os.fsencode(path), exchange) == 0:
        return  # the caller removes the old folder, which is now at `new`
    # A crash between the two renames leaves the old folder under a hidden name.
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    try:
        os.replace(path, old)
    except OSError:
        old.rmdir()
        raise
    os.replace(new, path)
    shutil.rmtree(old, ignore_errors=True)


def require_folder(path: Path, *, hint: str = "choose another --out") -> list[str]:
    """List the names in an output folder, none if it does not exist; raise an InputError if it is a file."""
    if not path.exists():
        return []
    if not path.is_dir():
        raise InputError(f"{path}: is a file, not a folder; {hint}")
    return sorted(entry.name for entry in path.iterdir())


def reject_foreign(folder: Path, others: Sequence[str], *, what: str) -> None:
    """Raise an InputError if the folder of a `what` holds `others`, files that do not belong to it."""
    if others:
        raise InputError(
            f"{folder}: holds {', '.join(others[:3])}, which is not part of a {what}; choose an empty --out"
        )


def reject_other_content(folder: Path, names: Collection[str], *, doing: str) -> None:
    """Raise an InputError if a folder to be replaced holds files other than `names`."""
    others = [name for name in require_folder(folder) if name not in names] if folder.is_dir() else []
    if others:
        raise InputError(
            f"{folder}: holds {', '.join(others[:3])}{' and more' if len(others) > 3 else ''}, which {doing} "
            "would remove; choose another folder"
        )


def default_cache_dir() -> Path:
    """Return the cache folder: $ALBERT_CACHE, or ~/.cache/albert."""
    return Path(os.environ.get("ALBERT_CACHE") or "~/.cache/albert").expanduser()


def hash_file(path: Path) -> str:
    """Compute the SHA-256 of a file as hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def sync(path: Path) -> None:
    """Flush a file or a folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def hold(path: Path, *, busy: str | None) -> Iterator[None]:
    """Lock `path` for the block. If another process has the lock, raise `busy`, or wait if that is None."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX if busy is None else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                is_busy = busy is not None and error.errno in (errno.EWOULDBLOCK, errno.EACCES)
                reason = f"{path}: cannot be locked ({error.strerror}); use a file system that supports locks"
                raise InputError(busy if is_busy else reason) from error
            _close_locks_in_children()
        _open_locks.add(file)
        try:
            yield
        finally:
            _open_locks.discard(file)


@cache
def _close_locks_in_children() -> None:
    """Register a fork handler, once: forked workers must not keep a lock when this process is killed."""
    os.register_at_fork(after_in_child=lambda: [file.close() for file in _open_locks])


def is_held(path: Path) -> bool:
    """Return whether a process has locked this file."""
    if fcntl is None or not path.exists():
        return False
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)  # False if it may not be opened
    return False


def _umask() -> int:
    current = os.umask(0o077)  # it can only be read by setting it
    os.umask(current)
    return current


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_path(Path(path)) as aside:
        aside.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, atomically."""
    write_text(path, format_json(value))


def format_json(value: Any) -> str:
    """Format a value as indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def dump_json(value: Any, **options: Any) -> str:
    """Call `json.dumps`, writing NaN and infinities as null."""
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:
        plain = json.loads(json.dumps(value, **options), parse_constant=lambda _: None)
        return json.dumps(plain, allow_nan=False, **options)


def read_text(path: Path) -> str:
    """Read a UTF-8 text file; raise a FileFormatError if it is missing or not UTF-8."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise FileFormatError(f"{path}: {error.strerror or error}; check the path") from error


def read_json(path: Path) -> Any:
    """Read a JSON file; raise a FileFormatError with the line if it is not valid."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise FileFormatError(
            f"{path}: line {error.lineno} is not valid JSON ({error.msg}); fix it or download it again"
        ) from error
