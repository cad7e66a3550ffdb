"""Vocabularies to cut texts with, and the real data of the tasks where it is at hand."""

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from albert.text.folder import load_tokenizer
from albert.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert.text.tokenizer import Tokenizer
from albert.text.wordpiece_tokenizer import WordPieceTokenizer
from tests.text.conftest import LINES, VOCAB, train_model

DATA = Path(os.environ.get("ALBERT_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """A few hundred pieces, so that most words are cut into several."""
    return SentencePieceTokenizer(train_model(LINES * 10))


@pytest.fixture(scope="session")
def wordpiece() -> Tokenizer:
    """A handful of pieces that are known by heart."""
    return WordPieceTokenizer("".join(f"{piece}\n" for piece in VOCAB).encode())


@pytest.fixture(scope="session")
def published() -> Tokenizer:
    """The vocabulary of the published English models."""
    path = DATA / "vocab" / "30k-clean.model"
    if not path.exists():
        pytest.skip("the published vocabulary is not here; ALBERT_DATA names the folder that has vocab/")
    return load_tokenizer(path)


def find_archive(name: str) -> Path:
    path = DATA / f"{name}.tar.xz"
    if not path.exists():
        pytest.skip(f"no {name} here; ALBERT_DATA names the folder that has {name}.tar.xz")
    return path


def unpack(name: str, folder: Path, *, under: str = "") -> Path:
    """The folder of an archive's content, or of what lies under a path in it."""
    with tarfile.open(find_archive(name)) as archive:
        archive.extractall(folder, members=iter_members(archive, f"{name}/{under}"), filter="data")
    return folder


def iter_members(archive: tarfile.TarFile, prefix: str) -> Iterator[tarfile.TarInfo]:
    is_found = False
    for member in archive:
        if member.name.startswith(prefix):
            is_found = True
            yield member
        elif is_found:  # what lies together is packed together: the rest need not be unpacked
            return


@pytest.fixture(scope="session")
def real_glue(tmp_path_factory) -> Path:
    return unpack("glue", tmp_path_factory.mktemp("glue"))


@pytest.fixture(scope="session")
def real_squad(tmp_path_factory) -> Path:
    return unpack("squad", tmp_path_factory.mktemp("squad"))
