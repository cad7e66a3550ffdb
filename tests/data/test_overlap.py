"""Texts of evaluation data are found in a corpus."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.data.corpus import Corpus, open_corpus
from albert.data.overlap import find_overlap, iter_texts
from albert.data.prepare import prepare_corpus
from albert.data.shards import Manifest
from albert.errors import AlbertError, InputError
from albert.text.folder import load_tokenizer
from tests.conftest import rejects
from tests.data.conftest import pack


@pytest.fixture
def corpus(books, vocab_path, tmp_path):
    prepare_corpus([books], vocab=vocab_path, out=tmp_path / "out")
    return open_corpus(tmp_path / "out")


def search_naively(documents, text, n):
    flat = [[i for sentence in document for i in sentence] for document in documents]
    whole = any(d[k : k + len(text)] == text for d in flat for k in range(len(d)))
    runs = {tuple(d[k : k + n]) for d in flat for k in range(len(d) - n + 1)}
    covered = set()
    for k in range(len(text) - n + 1):
        if tuple(text[k : k + n]) in runs:
            covered |= set(range(k, k + n))
    return whole, round(len(covered) / len(text), 3)


class Numbers:
    """A tokenizer of numbers."""

    fingerprint = "numbers"

    def encode_ids(self, texts):
        return [[int(number) for number in text.split()] for text in texts]


IDS = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@settings(deadline=None)
@given(
    st.lists(st.lists(IDS, min_size=1, max_size=3), min_size=1, max_size=4),
    st.lists(IDS, min_size=1, max_size=5),
    st.integers(1, 4),
)
def test_the_result_is_that_of_a_naive_search(tmp_path_factory, documents, texts, n):
    folder = tmp_path_factory.mktemp("overlap")
    path = folder / "dev.txt"
    path.write_text("\n".join(" ".join(map(str, text)) for text in texts))
    manifest = Manifest(
        vocabulary="numbers", vocab_size=9, num_documents=0, num_sentences=0, num_tokens=0, shards=()
    )
    half = len(documents) // 2
    parts = tuple(pack(some) for some in (documents[:half], documents[half:]))
    corpus = Corpus(folder, manifest, parts, np.zeros(1, dtype=np.int64))
    (report,) = find_overlap(corpus, [path], Numbers(), num_tokens=n)
    expected = {}
    for text in texts:
        if len(text) >= n:
            expected[" ".join(map(str, text))] = search_naively(documents, text, n)
    assert report.num_whole == sum(whole for whole, _ in expected.values())
    assert report.num_overlapping == sum(share > 0 for _, share in expected.values())
    for example in report.examples:
        assert (example.is_whole, example.share) == expected[example.text]


def test_texts_of_every_file_format_are_read(tmp_path):
    nested = json.dumps({"data": [{"title": "T", "questions": ["Why?", "How?"]}], "n": 3})
    files = {
        "a.json": (nested, ["T", "Why?", "How?"]),
        "b.jsonl": ('{"premise": "P", "label": 1}\n\n{"premise": "Q"}\n', ["P", "Q"]),
        "c.csv": ('a,"b\nc"\n', ["a", "b\nc"]),
        "d.txt": (nested, ["T", "Why?", "How?"]),
        "e.txt": ("one\ntwo\n", ["one", "two"]),
    }
    for name, (content, expected) in files.items():
        (tmp_path / name).write_text(content)
        assert list(iter_texts(tmp_path / name)) == expected
    assert list(iter_texts(tmp_path)) == [text for _, expected in files.values() for text in expected]


@pytest.mark.parametrize(
    ("name", "data", "value"),
    [
        ("x.jsonl", b'{"a": 1}\n{"a"', "line 2"),
        ("gone.tsv", None, "gone.tsv"),
        ("task.parquet", b"PAR1\0\1\2", "task.parquet"),
        ("task.tsv", "wide".encode("utf-16"), "UTF-8"),
        ("task.csv", b"", "task.csv"),
        ("folder/.hidden", b"\0\0", "folder"),
    ],
)
def test_files_without_readable_texts_are_rejected(corpus, vocab_path, tmp_path, name, data, value):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if data is not None:
        path.write_bytes(data)
    given = tmp_path / name.split("/")[0]
    with rejects(AlbertError, given, value):
        find_overlap(corpus, [given], load_tokenizer(vocab_path))


def test_another_vocabulary_is_rejected(corpus):
    with rejects(InputError, "vocabulary"):
        find_overlap(corpus, [], Numbers())
