"""The real development files, straight from their archives, where these are at hand."""

import io
import os
import tarfile
from pathlib import Path

import pytest

DATA = Path(os.environ.get("ALBERT_DATA", Path(__file__).parents[4] / "shared" / "data"))


def read_development_files(name: str) -> dict[str, str]:
    """The text of every dev file of an archive, by its path inside."""
    if not (DATA / f"{name}.tar.xz").exists():
        pytest.skip(f"no {name} here; ALBERT_DATA names the folder that has {name}.tar.xz")
    texts = {}
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        for member in archive:
            if Path(member.name).name.startswith("dev") and (file := archive.extractfile(member)):
                with io.TextIOWrapper(file, encoding="utf-8-sig", newline="\n") as lines:
                    texts[member.name] = lines.read()
    return texts


@pytest.fixture(scope="session")
def glue_files() -> dict[str, str]:
    return read_development_files("glue")


@pytest.fixture(scope="session")
def squad_files() -> dict[str, str]:
    return read_development_files("squad")
