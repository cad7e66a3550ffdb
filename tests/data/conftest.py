"""A small vocabulary, paragraphs of a book, a folder of sources in several layouts, and remote stores."""

import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pytest

from albert.data.shards import ShardPart, find_starts
from tests.conftest import WORDS, write_vocabulary
from tests.data.bucket import BucketFileSystem, write_plugin

LETTERS = [letter for first in "abcdefghijklmnopqrstuvwxyz" for letter in (first, f"##{first}")]
SUBJECTS = ("The old man", "A woman from the town", "My youngest brother", "Nobody on the quay", "The dog")
VERBS = ("went to the river", "saw the ship leave", "found the house empty", "came home by the north road")
ENDS = (
    "before it was day.",
    "and said nothing about it.",
    "in the cold of the night.",
    "though it was late!",
)


def sentence(number: int) -> str:
    """A sentence; the number makes it one of many."""
    subject, verb, end = (row[number // 7**k % len(row)] for k, row in enumerate((SUBJECTS, VERBS, ENDS)))
    return f"{subject} number {number} {verb} {end}"


def paragraph(number: int) -> str:
    """Three to six sentences, and now and then a short line of speech."""
    if number % 5 == 4:
        return f'"Is it {number}?"'
    return " ".join(sentence(10 * number + k) for k in range(3 + number % 4))


PARAGRAPHS = [paragraph(number) for number in range(60)]


def wrap(text: str, width: int = 68) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)


@pytest.fixture(scope="session")
def vocab_path(tmp_path_factory) -> Path:
    tokens = list(dict.fromkeys([*WORDS, *LETTERS, '"', "-", *(f"##{digit}" for digit in "0123456789")]))
    tokens += [*"0123456789"]
    return write_vocabulary(tmp_path_factory.mktemp("vocab") / "vocab.txt", tokens)


@pytest.fixture
def books(tmp_path: Path) -> Path:
    """Three files of three layouts, one of them twice, and a file that is not a source."""
    folder = tmp_path / "books"
    (folder / "deep").mkdir(parents=True)
    wrapped = "\r\n\r\n".join("\r\n".join(wrap(text)) for text in PARAGRAPHS[:30])
    (folder / "b_wrapped.txt").write_bytes(b"\xef\xbb\xbf" + wrapped.encode())
    (folder / "c_lines.txt").write_text("\n".join(PARAGRAPHS[30:]) + "\n")
    (folder / "deep" / "copy.txt").write_text("\n".join(PARAGRAPHS[30:]) + "\n")
    (folder / "a_sentences.txt").write_text(
        "\n\n".join("\n".join(sentence(1000 + 20 * d + k) for k in range(8)) for d in range(20))
    )
    (folder / "notes.md").write_text("not read")
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch) -> Path:
    """An empty folder for downloads."""
    monkeypatch.setenv("ALBERT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def memory(tmp_path, cache) -> Iterator[str]:
    """A folder in fsspec's memory, visible only to this process."""
    url = f"memory://{tmp_path.name}"
    yield url
    system, path = fsspec.core.url_to_fs(url)
    if system.exists(path):
        system.rm(path, recursive=True)


@pytest.fixture(scope="session")
def plugin_path(tmp_path_factory) -> str:
    """A PYTHONPATH with bucket:// and everything that this process can import."""
    folder = write_plugin(tmp_path_factory.mktemp("plugin"))
    return os.pathsep.join([str(folder), *filter(None, sys.path)])


@pytest.fixture
def bucket(cache, plugin_path, tmp_path: Path, monkeypatch) -> Path:
    """A folder that every process on this machine can use under bucket://."""
    # For subprocesses, and for those of multiprocessing.
    monkeypatch.setenv("PYTHONPATH", plugin_path)
    monkeypatch.setenv("BUCKET_LOG", str(tmp_path / "bucket.log"))
    monkeypatch.syspath_prepend(plugin_path.partition(os.pathsep)[0])
    fsspec.register_implementation("bucket", BucketFileSystem, clobber=True)
    return tmp_path / "bucket"


def upload(folder: Path, url: str) -> None:
    """Copy a folder to a store, file by file."""
    for name in read_files(folder):
        system, path = fsspec.core.url_to_fs(f"{url}/{name}")
        system.put_file(str(folder / name), path)


def read_store(url: str) -> dict[str, bytes]:
    """Every file of a store below a folder, by its name there."""
    system, path = fsspec.core.url_to_fs(url)
    return {name.removeprefix(f"{path}/"): system.cat_file(name) for name in system.find(path)}


def read_files(folder: Path) -> dict[str, bytes]:
    """Every file of a local folder, by its name there; the last one written is last."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    files.sort(key=lambda path: path.stat().st_mtime_ns)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def pack(documents: Sequence[Sequence[Sequence[int]]], *, id_type: pa.DataType | None = None) -> ShardPart:
    """All of them, the empty ones, too; two bytes per id by default."""
    sentences = list(chain.from_iterable(documents))
    dtype = (id_type or pa.uint16()).to_pandas_dtype()
    return ShardPart(
        tokens=np.array(list(chain.from_iterable(sentences)), dtype=dtype),
        sentence_starts=find_starts(list(map(len, sentences))),
        document_starts=find_starts(list(map(len, documents))),
    )
