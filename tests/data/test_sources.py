"""Sources are found, surveyed, split into slices, and read as documents."""

import gzip
import json
import sys
from collections import Counter
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.data import rows, sources
from albert.data.sources import (
    ReadOptions,
    SurveyTask,
    count_ignored,
    find_sources,
    iter_documents,
    iter_line_chunks,
    iter_slice,
    survey_source,
)
from albert.errors import FileFormatError, InputError
from tests.conftest import rejects
from tests.data.conftest import PARAGRAPHS
from tests.data.test_layouts import SAMPLES

RECORDS = ["\n".join(PARAGRAPHS[k : k + 6]) for k in range(0, 60, 6)]
DOCUMENTS = [PARAGRAPHS[k : k + 6] for k in range(0, 60, 6)]


def read(source, text_key="text"):
    return [list(document.paragraphs) for document in iter_documents(source, ReadOptions(text_key))]


def test_sources_are_sorted_and_other_files_are_counted(books):
    (books / ".hidden.txt").write_text("no")
    names = [source.name.removeprefix("books/") for source in find_sources([books])]
    assert names == ["a_sentences.txt", "b_wrapped.txt", "c_lines.txt", "deep/copy.txt"]
    assert count_ignored([books]) == {".md": 1}


def test_paths_without_sources_are_rejected(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.pdf").write_bytes(b"x")
    for name in ("gone", "folder/a.pdf", "folder"):
        with rejects(InputError, tmp_path / name):
            find_sources([tmp_path / name])


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_jsonl_gives_a_document_for_each_record(tmp_path, suffix):
    lines = "".join(json.dumps({"id": k, "body": text}) + "\n" for k, text in enumerate(RECORDS))
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(gzip.compress(lines.encode()) if suffix else lines.encode())
    (source,) = find_sources([path])
    assert read(source, text_key="body") == DOCUMENTS
    with rejects(FileFormatError, path, "'text'", "'id', 'body'", "--text-key"):
        read(source)


def test_blank_lines_inside_a_record_do_not_separate_documents(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        json.dumps({"text": SAMPLES["wrapped"]}) + "\n" + json.dumps({"text": "One more.\n\nEnd."})
    )
    assert read(find_sources([path])[0]) == [PARAGRAPHS, ["One more.", "End."]]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_parquet_gives_a_document_for_each_row(tmp_path, suffix):
    table = pa.table({"text": [*RECORDS, None], "n": range(len(RECORDS) + 1)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    path = tmp_path / f"a.parquet{suffix}"
    if suffix:
        path.write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    (source,) = find_sources([path])
    assert read(source) == DOCUMENTS
    with rejects(FileFormatError, path, "'body'", "'text', 'n'"):
        read(source, text_key="body")
    with rejects(FileFormatError, path.name, "'n'", "int"):
        read(source, text_key="n")


class FakeDataset:
    column_names = ("text",)
    _fingerprint = "abc"
    data = SimpleNamespace(nbytes=1000)

    def __len__(self):
        return len(RECORDS)

    def __getitem__(self, rows):
        return {"text": RECORDS[rows]}


def test_a_dataset_is_loaded_by_name_configuration_and_split(monkeypatch):
    calls = set()

    def load_dataset(name, configuration, *, split):
        calls.add((name, configuration, split))
        return FakeDataset()

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    (source,) = find_sources(["hf:org/name@raw:train[:1%]"])
    assert read(source) == DOCUMENTS
    assert calls == {("org/name", "raw", "train[:1%]")}
    survey = survey_source(SurveyTask(source, ReadOptions(), None, 300))
    assert survey.cuts == (0, 3, 6, 10)
    sliced = [document for part in survey.slices for document in iter_slice(part, ReadOptions())]
    assert [list(document.paragraphs) for document in sliced] == DOCUMENTS
    monkeypatch.setitem(sys.modules, "datasets", None)
    with rejects(InputError, "hf:x", "`datasets`"):
        read(find_sources(["hf:x"])[0])


@given(
    st.lists(st.sampled_from([b"ab", b" ", b"\n", b"\r\n", b"\r", "é".encode()]), max_size=60),
    st.integers(1, 7),
)
def test_blocks_become_complete_lines(parts, size):
    data = b"".join(parts)
    blocks = [data[k : k + size] for k in range(0, len(data), size)]
    chunks = list(iter_line_chunks(blocks, Counter()))
    tail = b"" if data.endswith(b"\n") or not data else b"\n"
    assert b"".join(chunks) in (data + tail, data)
    assert all(chunk.endswith((b"\n", b"\r")) for chunk in chunks)


def test_a_very_long_line_is_split_at_a_space_or_between_characters(monkeypatch):
    monkeypatch.setattr(sources, "MAX_LINE_BYTES", 100)
    for text in ("word and " * 100, "é" * 500, "日本語" * 100):
        counts = Counter()
        data = text.encode()
        chunks = list(iter_line_chunks((data[k : k + 37] for k in range(0, len(data), 37)), counts))
        assert max(map(len, chunks)) < 200
        assert "".join(chunk[:-1].decode() for chunk in chunks) == text
        assert counts["cut_lines"] == len(chunks) - 1


@pytest.mark.parametrize("name", ["paragraphs", "sentences", "spaced", "wrapped", "dense"])
def test_slices_of_a_file_have_all_its_text(tmp_path, name):
    path = tmp_path / "a.txt"
    path.write_text((SAMPLES[name] + "\n\n") * 4)
    (source,) = find_sources([path])
    survey = survey_source(SurveyTask(source, ReadOptions(), None, 5000))
    assert survey.layout.name == name
    assert len(survey.cuts) > 4
    parts = survey.slices
    assert sum(part.num_bytes for part in parts) == path.stat().st_size
    sliced = [text for part in parts for d in iter_slice(part, ReadOptions()) for text in d.paragraphs]
    whole = [text for d in iter_documents(source, ReadOptions()) for text in d.paragraphs]
    assert " ".join(sliced) == " ".join(whole)
    assert name == "dense" or sliced == whole


@pytest.mark.parametrize(
    ("lines", "texts", "counts"),
    [
        ([b'{"text": null}', b'{"text": "one"}'], ["one"], {"records_without_text": 1}),
        ([b'{"text": "one"}', b'{"other": 1}', b"[1]"], ["one"], {"records_without_text": 2}),
        ([b'{"text": "one"}', b'{"text": "' + b"x" * 300_000 + b'"}'], ["one"], {"long_records": 1}),
        ([b'{"text": "one"}', b'{"text": "cut', b'{"text": "two"}'], ["one", "two"], {"broken_records": 1}),
        ([b'{"text": "caf\xe9"}', b'{"text": "one"}'], ["caf\ufffd", "one"], {"broken_characters": 1}),
    ],
    ids=["null first", "no text", "too long", "truncated", "not UTF-8"],
)
def test_bad_records_are_skipped_and_counted(tmp_path, monkeypatch, lines, texts, counts):
    monkeypatch.setattr(rows, "MAX_LINE_BYTES", 250_000)
    (tmp_path / "odd.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    (source,) = find_sources([tmp_path / "odd.jsonl"])
    options = ReadOptions()
    documents = iter_documents(source, options, layout="paragraphs")
    assert [document.paragraphs for document in documents] == [[text] for text in texts]
    assert options.counts == counts


def test_an_unreadable_file_is_named(tmp_path):
    (tmp_path / "a.txt").symlink_to(tmp_path / "gone")
    (source,) = find_sources([tmp_path])
    with rejects(FileFormatError, tmp_path / "a.txt"):
        survey_source(SurveyTask(source, ReadOptions(), None, 5000))
