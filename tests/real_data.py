"""Real texts and tasks that are not in the repository; tests that need them are skipped without them."""

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

DATA = Path(os.environ.get("ALBERT_DATA", Path(__file__).parents[2] / "shared" / "data"))


def find_vocabulary() -> Path:
    """The vocabulary of the published English models."""
    return _find("vocab/30k-clean.model")


def find_archive(name: str) -> Path:
    """An archive by its name: novels, glue, squad, race."""
    return _find(f"{name}.tar.xz")


def unpack(name: str, folder: Path, *, under: str = "") -> Path:
    """Unpack an archive, or only the part below a path in it, and return the folder."""
    with tarfile.open(find_archive(name)) as archive:
        archive.extractall(folder, members=_iter_members(archive, f"{name}/{under}"), filter="data")
    return folder


def _find(name: str) -> Path:
    if not (DATA / name).exists():
        pytest.skip(f"{name} not found; set ALBERT_DATA to its folder")
    return DATA / name


def _iter_members(archive: tarfile.TarFile, prefix: str) -> Iterator[tarfile.TarInfo]:
    is_found = False
    for member in archive:
        if member.name.startswith(prefix):
            is_found = True
            yield member
        elif is_found:  # files of one folder are packed together: the rest need not be read
            return
