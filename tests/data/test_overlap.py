import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.data.corpus import Corpus, open_corpus
from albert.data.overlap import find_overlap, iter_texts
from albert.data.prepare import prepare_corpus
from albert.data.shards import Manifest
from albert.errors import AlbertError, FileFormatError, InputError
from albert.text.folder import load_tokenizer
from tests.data.conftest import PARAGRAPHS, pack, sentence


@pytest.fixture
def corpus(books, vocab_path, tmp_path):
    prepare_corpus([books], vocab=vocab_path, out=tmp_path / "out")
    return open_corpus(tmp_path / "out")


def test_texts_are_found_whole_in_part_or_not_at_all(corpus, vocab_path, tmp_path):
    path = tmp_path / "dev.tsv"
    two = " ".join(PARAGRAPHS[0].split(".")[:2]).strip()
    rows = [
        ("index", "sentence"),
        ("1", sentence(2)),
        ("2", PARAGRAPHS[1]),  # several sentences of one document
        ("3", f"{sentence(11)} But then the rest of this text is one that nobody has ever written before."),
        ("4", "This one is in no way part of any corpus, however long it may become in the end."),
        ("5", "Too short."),
        ("6", f"{sentence(1007)} {sentence(1020)}"),  # the end of one document and the start of the next
        ("7", two),
    ]
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    (report,) = find_overlap(corpus, [path], load_tokenizer(vocab_path))
    assert report.num_texts == len(rows) * 2
    assert report.num_short == len(rows) + 2
    assert report.num_whole == 2
    found = {example.text: example for example in report.examples}
    assert found[PARAGRAPHS[1]].is_whole
    assert found[PARAGRAPHS[1]].share == 1.0
    assert report.num_overlapping == 5
    assert rows[4][1] not in found


def brute(documents, text, n):
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
def test_what_is_found_is_what_a_plain_search_finds(tmp_path_factory, documents, texts, n):
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
            expected[" ".join(map(str, text))] = brute(documents, text, n)
    assert report.num_whole == sum(whole for whole, _ in expected.values())
    assert report.num_overlapping == sum(share > 0 for _, share in expected.values())
    for example in report.examples:
        assert (example.is_whole, example.share) == expected[example.text]


def test_every_usual_kind_of_file_is_read(tmp_path):
    nested = {"data": [{"title": "T", "questions": ["Why?", "How?"]}], "n": 3}
    (tmp_path / "a.json").write_text(json.dumps(nested))
    (tmp_path / "b.jsonl").write_text('{"premise": "P", "label": 1}\n\n{"premise": "Q"}\n')
    (tmp_path / "c.csv").write_text('a,"b\nc"\n')
    (tmp_path / "d.txt").write_text(json.dumps(nested))
    (tmp_path / "e.txt").write_text("one\ntwo\n")
    found = {
        name: list(iter_texts(tmp_path / name)) for name in ("a.json", "b.jsonl", "c.csv", "d.txt", "e.txt")
    }
    assert found["a.json"] == found["d.txt"] == ["T", "Why?", "How?"]
    assert found["b.jsonl"] == ["P", "Q"]
    assert found["c.csv"] == ["a", "b\nc"]
    assert found["e.txt"] == ["one", "two"]
    assert list(iter_texts(tmp_path)) == [text for name in sorted(found) for text in found[name]]


def test_bad_files_and_other_vocabularies_are_refused(corpus, vocab_path, tmp_path):
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n{"a"')
    with pytest.raises(FileFormatError, match="x.jsonl: line 2: not valid JSON"):
        find_overlap(corpus, [tmp_path / "x.jsonl"], load_tokenizer(vocab_path))
    with pytest.raises(FileFormatError, match="gone.tsv: No such file"):
        find_overlap(corpus, [tmp_path / "gone.tsv"], load_tokenizer(vocab_path))
    with pytest.raises(InputError, match="another vocabulary"):
        find_overlap(corpus, [], Numbers())


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("task.parquet", b"PAR1\0\1\2", "not UTF-8 text"),
        ("task.tsv", "wide".encode("utf-16"), "not UTF-8 text"),
        ("task.csv", b"", "contains no text; give the files of a task"),
        ("folder/.hidden", b"\0\0", "contains no text; give the files of a task"),
    ],
)
def test_what_cannot_be_read_is_not_reported_as_clean(corpus, vocab_path, tmp_path, name, data, said):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    asked = tmp_path / name.split("/")[0]
    with pytest.raises(AlbertError, match=said):
        find_overlap(corpus, [asked], load_tokenizer(vocab_path))
