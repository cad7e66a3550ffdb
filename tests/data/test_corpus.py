"""Shards, held-out documents, remote corpora, and summaries."""

import itertools
import json
import pickle
import subprocess
import sys

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.data.corpus import fetch_corpus, hold_out, narrow, open_corpus, summarize_corpus
from albert.data.prepare import prepare_corpus
from albert.data.shards import build_part, choose_id_type, join_parts, read_shard, write_parts
from albert.errors import FileFormatError, InputError, WriteError
from tests.data.conftest import PARAGRAPHS, pack, read_files, upload
from tests.data.test_prepare import UNIT
from tests.examples.conftest import NUM_ORDINARY, corpus, tokenizer, write_corpus

DOCUMENTS = st.lists(st.lists(st.lists(st.integers(0, 65535), max_size=5), max_size=4), max_size=6)


def write_shard(path, *batches, id_type):
    """Each a list of documents of sentences of ids."""
    write_parts(path, (pack(documents, id_type=id_type) for documents in batches), id_type=id_type)


def to_lists(parts):
    return [
        [
            part.tokens[part.sentence_starts[s] : part.sentence_starts[s + 1]].tolist()
            for s in range(part.document_starts[d], part.document_starts[d + 1])
        ]
        for part in parts
        for d in range(len(part.document_starts) - 1)
    ]


@given(st.lists(DOCUMENTS, max_size=3))
def test_what_is_written_is_read_back(tmp_path_factory, batches):
    path = tmp_path_factory.mktemp("shard") / "a.arrow"
    write_shard(path, *batches, id_type=choose_id_type(1 << 16))
    parts = read_shard(path)
    assert [to_lists([part]) for part in parts] == batches


@given(DOCUMENTS, DOCUMENTS)
def test_parts_are_joined_in_order(first, second):
    parts = [pack(documents) for documents in (first, second)]
    assert to_lists([join_parts(parts)]) == first + second


@given(DOCUMENTS, st.integers(1, 5))
def test_what_is_built_of_blocks_lacks_what_is_empty(documents, size):
    sentences = [sentence for document in documents for sentence in document]
    ids = np.array([number for sentence in sentences for number in sentence], dtype=np.uint16)
    blocks = [ids[start : start + size] for start in range(0, max(len(ids), 1), size)]
    part = build_part(blocks, list(map(len, sentences)), list(map(len, documents)))
    filled = [[sentence for sentence in document if sentence] for document in documents]
    assert to_lists([part]) == [document for document in filled if document]
    assert part.tokens.dtype == np.uint16


def test_any_arrow_tool_reads_a_shard_and_its_bytes_are_not_copied(tmp_path):
    path = tmp_path / "a.arrow"
    write_parts(path, [pack([[[1, 2], [3]]])], id_type=pa.uint16())
    with pa.ipc.open_file(path) as reader:
        assert reader.read_all().to_pydict() == {"document": [[[1, 2], [3]]]}
    (part,) = read_shard(path)
    assert part.tokens.dtype == np.uint16
    assert not part.tokens.flags.writeable


@pytest.mark.parametrize("size", [0, 8, 100, -1])
def test_a_shard_cut_short_is_refused_by_name(tmp_path, size):
    path = tmp_path / "a.arrow"
    write_shard(path, [[[1, 2, 3]] * 100], id_type=pa.uint16())
    data = path.read_bytes()
    path.write_bytes(data[:size])
    with pytest.raises(FileFormatError, match="a.arrow: not a complete shard"):
        read_shard(path)


__all__ = ["corpus", "tokenizer"]


def pieces(of):
    return np.concatenate([part.tokens for part in of.parts]).tolist()


def documents(of):
    """Documents of sentences of pieces."""
    found = []
    for part in of.parts:
        for first, last in zip(part.document_starts[:-1], part.document_starts[1:], strict=True):
            starts = part.sentence_starts[first : last + 1]
            found.append([part.tokens[a:b].tolist() for a, b in itertools.pairwise(starts)])
    return found


def test_the_last_documents_are_held_out_whole(corpus):
    split = hold_out(corpus, share=0.02, max_tokens=10**6)
    assert documents(split.train) + documents(split.held_out) == documents(corpus)
    assert split.train.num_documents + split.held_out.num_documents == corpus.num_documents
    assert 0.02 <= split.held_out.num_tokens / corpus.num_tokens < 0.06


def test_one_long_document_is_cut_between_two_sentences(tokenizer, tmp_path):
    sentences = [[5 + (i * 7 + j) % NUM_ORDINARY for j in range(10)] for i in range(1000)]
    book = write_corpus(tmp_path, [sentences], tokenizer)
    split = hold_out(book, share=0.01, max_tokens=10**6)
    assert documents(split.train) == [sentences[:990]]
    assert documents(split.held_out) == [sentences[990:]]


def test_a_part_of_a_corpus_survives_the_way_to_another_process(corpus):
    part = narrow(corpus, 1000, 5000)
    again = pickle.loads(pickle.dumps(part))
    assert pieces(again) == pieces(part)
    assert again.num_tokens == part.num_tokens == int(part.starts[-1])
    assert len(pickle.dumps(part)) < 1000  # the folder and the range, not the pieces


def test_too_little_to_hold_some_out(tokenizer, tmp_path):
    tiny = write_corpus(tmp_path, [[[6, 7, 8]]], tokenizer)
    with pytest.raises(InputError, match="1 sentences in 1 documents are too few to hold some out"):
        hold_out(tiny, share=0.01, max_tokens=100)


def test_next_sentences_need_two_documents_to_be_asked_about(tokenizer, tmp_path):
    (tmp_path / "two").mkdir()
    books = [[[5 + (b * 31 + i + j) % NUM_ORDINARY for j in range(10)] for i in range(300)] for b in range(5)]
    corpus = write_corpus(tmp_path / "two", books, tokenizer, per_shard=1)
    split = hold_out(corpus, share=0.01, max_tokens=10**6, min_documents=2)
    assert documents(split.held_out) == books[3:]
    assert documents(split.train) == books[:3]


@pytest.fixture
def here(books, vocab_path, tmp_path):
    prepare_corpus([books], vocab=vocab_path, out=tmp_path / "here", unit_bytes=UNIT)
    return tmp_path / "here"


@pytest.fixture
def there(here, memory):
    upload(here, f"{memory}/corpus")
    return f"{memory}/corpus"


def shards_of(folder):
    return {name: data for name, data in read_files(folder).items() if name.startswith("shards/")}


def test_a_corpus_in_a_store_is_the_corpus(here, there, cache):
    corpus = open_corpus(there)
    assert pieces(corpus) == pieces(open_corpus(here))
    assert corpus.manifest == open_corpus(here).manifest
    assert corpus.location == corpus.name == there
    assert corpus.folder.is_relative_to(cache / "corpora")
    again = pickle.loads(pickle.dumps(narrow(corpus, 10, 100)))
    assert pieces(again) == pieces(narrow(corpus, 10, 100))
    assert again.location == there


def test_a_copy_is_used_again_and_another_corpus_is_another_copy(books, vocab_path, there):
    first = fetch_corpus(there)
    system, path = fsspec.core.url_to_fs(there)
    for shard in system.find(f"{path}/shards"):
        system.rm_file(shard)
    assert fetch_corpus(f"{there}/") == first  # nothing was left to be fetched
    (books / "more.txt").write_text("Something else was found in the town, and it was not small.\n" * 3)
    prepare_corpus([books], vocab=vocab_path, out=there, unit_bytes=UNIT, overwrite=True)
    second = fetch_corpus(there)
    assert second != first
    assert len(open_corpus(there).manifest.sources) == 5


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_copy_is_fetched_again(here, there, damage):
    folder = fetch_corpus(there)
    victim = sorted((folder / "shards").iterdir())[1]
    data = victim.read_bytes()
    if damage == "cut":
        victim.write_bytes(data[:-9])
    else:
        victim.unlink()
    times = {path: path.stat().st_mtime_ns for path in (folder / "shards").iterdir() if path != victim}
    assert fetch_corpus(there) == folder
    assert shards_of(folder) == shards_of(here)
    assert times == {path: path.stat().st_mtime_ns for path in times}
    assert pieces(open_corpus(there)) == pieces(open_corpus(here))


def test_a_store_without_a_manifest_is_no_corpus(run_albert, there):
    system, path = fsspec.core.url_to_fs(there)
    system.rm_file(f"{path}/manifest.json")
    assert f"{there}: no manifest.json" in run_albert("corpus", "show", there).error


def test_a_shard_that_is_not_its_manifests_is_refused_and_not_kept(there, cache):
    system, path = fsspec.core.url_to_fs(there)
    name = sorted(system.find(f"{path}/shards"))[0]
    whole = system.cat_file(name)
    system.pipe_file(name, whole[:-10])
    short = r"^memory://.*/shards/00000-000\.arrow: does not match the manifest"
    with pytest.raises(FileFormatError, match=short):
        fetch_corpus(there)
    assert not any(cache.rglob("00000-000.arrow"))
    system.pipe_file(name, whole)
    assert open_corpus(there).num_tokens > 0


def test_a_cache_that_cannot_be_written_is_one_line(there, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ALBERT_CACHE", str(tmp_path / "file"))
    with pytest.raises(WriteError, match=r"file: cannot be written \(.* set ALBERT_CACHE to another folder"):
        fetch_corpus(there)


ASK = """
import sys
from albert.data.corpus import open_corpus
print(open_corpus(sys.argv[1]).num_tokens)
"""


def test_of_several_processes_one_fetches(here, bucket):
    upload(here, f"{bucket.url}/b/corpus")
    command = [sys.executable, "-c", ASK, f"{bucket.url}/b/corpus"]
    asking = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    found = [process.communicate(timeout=60)[0].strip() for process in asking]
    assert found == [str(open_corpus(here).num_tokens)] * 3
    gets = {name: bucket.num_gets[f"b/corpus/{name}"] for name in shards_of(here)}
    assert gets == dict.fromkeys(gets, 1)
    assert bucket.num_gets["b/corpus/manifest.json"] >= 3


def test_a_corpus_is_read_from_a_web_server(here, bucket):
    pytest.importorskip("aiohttp", reason="http:// needs aiohttp, which the extra `dev` brings")
    upload(here, f"{bucket.url}/b/corpus")
    assert pieces(open_corpus(f"{bucket.http_url}/b/corpus")) == pieces(open_corpus(here))


def test_the_whole_journey_from_files_to_figures(run_albert, books, vocab_path, tmp_path):
    out = tmp_path / "out"
    done = run_albert(
        "corpus", "prepare", books, "--vocab", vocab_path, "--out", out, "--workers", 1, "--json"
    )
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["documents"] == 22
    assert result["dropped"] == {"byte_order_marks": 1, "duplicate_documents": 1}
    assert "books/b_wrapped.txt: hard-wrapped, blank lines between paragraphs" in done.err
    assert "ignored: 1 × .md" in done.err
    assert "MB/s" in done.err

    shown = json.loads(run_albert("corpus", "show", out, "--json").out)
    assert shown["num_tokens"] == result["tokens"]
    assert shown["layouts"] == {"sentences": 1, "wrapped": 1, "paragraphs": 2}
    text = run_albert("corpus", "show", out).out
    assert "22 documents" in text
    assert "1 duplicate documents" in text

    (tmp_path / "dev.txt").write_text(f"{PARAGRAPHS[1]}\nshort\n")
    found = json.loads(run_albert("corpus", "overlap", out, tmp_path / "dev.txt", "--json").out)
    assert found["files"][0]["num_whole"] == 1
    assert "whole: The old man" in run_albert("corpus", "overlap", out, tmp_path / "dev.txt").out


def test_lengths_are_those_of_the_shards(run_albert, books, vocab_path, tmp_path):
    run_albert("corpus", "prepare", books, "--vocab", vocab_path, "--out", tmp_path / "out", "--workers", 1)
    corpus = open_corpus(tmp_path / "out")
    summary = summarize_corpus(corpus)
    assert summary["document_sentences"]["at"]["shortest"] == 8
    assert summary["document_sentences"]["at"]["median"] == 8
    longest = max(
        int(part.document_starts[d + 1] - part.document_starts[d])
        for part in corpus.parts
        for d in range(len(part.document_starts) - 1)
    )
    assert summary["document_sentences"]["at"]["longest"] == longest
    assert summary["sentence_tokens"]["mean"] == corpus.num_tokens / corpus.manifest.num_sentences
