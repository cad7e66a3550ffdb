"""The real dev files, read from their archives where these are installed."""

import io
import tarfile
from pathlib import Path

import pytest

from tests.real_data import find_archive


def read_dev_files(name: str) -> dict[str, str]:
    """Read every dev file of an archive, by its path inside."""
    texts = {}
    with tarfile.open(find_archive(name)) as archive:
        for member in archive:
            if Path(member.name).name.startswith("dev") and (file := archive.extractfile(member)):
                with io.TextIOWrapper(file, encoding="utf-8-sig", newline="\n") as lines:
                    texts[member.name] = lines.read()
    return texts


@pytest.fixture(scope="session")
def glue_files() -> dict[str, str]:
    return read_dev_files("glue")


@pytest.fixture(scope="session")
def squad_files() -> dict[str, str]:
    return read_dev_files("squad")
