"""Shards, held-out documents, remote corpora, and summaries."""

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
from albert.errors import FileFormatError, InputError
from tests.conftest import rejects
from tests.data.conftest import PARAGRAPHS, pack, read_files, upload
from tests.data.test_prepare import UNIT
from tests.examples.conftest import NUM_ORDINARY, corpus, tokenizer, write_corpus

DOCUMENTS = st.lists(st.lists(st.lists(st.integers(0, 65535), max_size=5), max_size=4), max_size=6)


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
def test_shards_are_read_as_they_were_written(tmp_path_factory, batches):
    path = tmp_path_factory.mktemp("shard") / "a.arrow"
    id_type = choose_id_type(1 << 16)
    write_parts(path, [pack(documents, id_type=id_type) for documents in batches], id_type=id_type)
    parts = read_shard(path)
    assert [to_lists([part]) for part in parts] == batches
    if parts:
        assert to_lists([join_parts(parts)]) == to_lists(parts)


@given(DOCUMENTS, st.integers(1, 5))
def test_empty_sentences_and_documents_are_dropped(documents, size):
    sentences = [sentence for document in documents for sentence in document]
    ids = np.array([number for sentence in sentences for number in sentence], dtype=np.uint16)
    blocks = [ids[start : start + size] for start in range(0, max(len(ids), 1), size)]
    part = build_part(blocks, list(map(len, sentences)), list(map(len, documents)))
    filled = [[sentence for sentence in document if sentence] for document in documents]
    assert to_lists([part]) == [document for document in filled if document]
    assert part.tokens.dtype == np.uint16


def test_a_shard_is_an_arrow_file_that_is_not_copied_and_rejected_when_truncated(tmp_path):
    path = tmp_path / "a.arrow"
    write_parts(path, [pack([[[1, 2], [3]]])], id_type=pa.uint16())
    with pa.ipc.open_file(path) as reader:
        assert reader.read_all().to_pydict() == {"document": [[[1, 2], [3]]]}
    (part,) = read_shard(path)
    assert part.tokens.dtype == np.uint16
    assert not part.tokens.flags.writeable
    data = path.read_bytes()
    for size in (0, 8, 100, -1):
        path.write_bytes(data[:size])
        with rejects(FileFormatError, path):
            read_shard(path)


__all__ = ["corpus", "tokenizer"]


def documents(corpus):
    return to_lists(corpus.parts)


def test_the_last_documents_are_held_out(corpus):
    split = hold_out(corpus, share=0.02, max_tokens=10**6)
    assert documents(split.train) + documents(split.held_out) == documents(corpus)
    assert split.train.num_documents + split.held_out.num_documents == corpus.num_documents
    assert 0.02 <= split.held_out.num_tokens / corpus.num_tokens < 0.06


def test_one_long_document_is_split_between_two_sentences(tokenizer, tmp_path):
    sentences = [[5 + (i * 7 + j) % NUM_ORDINARY for j in range(10)] for i in range(1000)]
    book = write_corpus(tmp_path, [sentences], tokenizer)
    split = hold_out(book, share=0.01, max_tokens=10**6)
    assert documents(split.train) == [sentences[:990]]
    assert documents(split.held_out) == [sentences[990:]]
    (tmp_path / "tiny").mkdir()
    with rejects(InputError, 1):
        hold_out(write_corpus(tmp_path / "tiny", [[[6, 7, 8]]], tokenizer), share=0.01, max_tokens=100)


def test_a_part_of_a_corpus_is_pickled_as_its_folder_and_range(corpus):
    part = narrow(corpus, 1000, 5000)
    again = pickle.loads(pickle.dumps(part))
    assert documents(again) == documents(part)
    assert again.num_tokens == part.num_tokens == int(part.starts[-1])
    assert len(pickle.dumps(part)) < 1000


def test_two_documents_are_held_out_for_next_sentence_prediction(tokenizer, tmp_path):
    books = [[[5 + (b * 31 + i + j) % NUM_ORDINARY for j in range(10)] for i in range(300)] for b in range(5)]
    corpus = write_corpus(tmp_path, books, tokenizer, per_shard=1)
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


def test_a_remote_corpus_equals_the_local_one(here, there, cache):
    corpus = open_corpus(there)
    assert documents(corpus) == documents(open_corpus(here))
    assert corpus.manifest == open_corpus(here).manifest
    assert corpus.location == corpus.name == there
    assert corpus.folder.is_relative_to(cache / "corpora")
    again = pickle.loads(pickle.dumps(narrow(corpus, 10, 100)))
    assert documents(again) == documents(narrow(corpus, 10, 100))
    assert again.location == there


def test_a_copy_is_reused_and_a_changed_corpus_is_copied_again(books, vocab_path, there):
    first = fetch_corpus(there)
    system, path = fsspec.core.url_to_fs(there)
    for shard in system.find(f"{path}/shards"):
        system.rm_file(shard)
    assert fetch_corpus(f"{there}/") == first
    (books / "more.txt").write_text("Something else was found in the town, and it was not small.\n" * 3)
    prepare_corpus([books], vocab=vocab_path, out=there, unit_bytes=UNIT, overwrite=True)
    second = fetch_corpus(there)
    assert second != first
    assert len(open_corpus(there).manifest.sources) == 5


@pytest.mark.parametrize("is_missing", [False, True])
def test_a_damaged_shard_of_a_copy_is_fetched_again(here, there, is_missing):
    folder = fetch_corpus(there)
    damaged, *others = sorted((folder / "shards").iterdir())
    if is_missing:
        damaged.unlink()
    else:
        damaged.write_bytes(damaged.read_bytes()[:-9])
    times = {path: path.stat().st_mtime_ns for path in others}
    assert fetch_corpus(there) == folder
    assert shards_of(folder) == shards_of(here)
    assert times == {path: path.stat().st_mtime_ns for path in others}


def test_a_store_without_a_manifest_is_rejected(run_albert, there):
    system, path = fsspec.core.url_to_fs(there)
    system.rm_file(f"{path}/manifest.json")
    error = run_albert("corpus", "show", there).error
    assert there in error
    assert "manifest.json" in error


def test_a_shard_that_differs_from_its_manifest_is_rejected_and_not_kept(there, cache):
    system, path = fsspec.core.url_to_fs(there)
    name = sorted(system.find(f"{path}/shards"))[0]
    content = system.cat_file(name)
    system.pipe_file(name, content[:-10])
    with rejects(FileFormatError, "memory://", "shards/00000-000.arrow"):
        fetch_corpus(there)
    assert not any(cache.rglob("00000-000.arrow"))
    system.pipe_file(name, content)
    assert open_corpus(there).num_tokens > 0


COUNT_TOKENS = """
import sys
from albert.data.corpus import open_corpus
print(open_corpus(sys.argv[1]).num_tokens)
"""


def test_of_several_processes_one_fetches(here, bucket, tmp_path):
    upload(here, f"bucket://{bucket}")
    command = [sys.executable, "-c", COUNT_TOKENS, f"bucket://{bucket}"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    found = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert found == [str(open_corpus(here).num_tokens)] * 3
    fetched = (tmp_path / "bucket.log").read_text().splitlines()
    assert sorted(name for name in fetched if "shards" in name) == sorted(
        f"{bucket}/{name}" for name in shards_of(here)
    )


def test_files_are_prepared_shown_and_searched_for_overlap(run_albert, books, vocab_path, tmp_path):
    out = tmp_path / "out"
    words = ("corpus", "prepare", books, "--vocab", vocab_path, "--out", out, "--workers", 1, "--json")
    done = run_albert(*words)
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["documents"] == 22
    assert result["dropped"] == {"byte_order_marks": 1, "duplicate_documents": 1}
    assert "books/b_wrapped.txt: hard-wrapped" in done.err
    assert "1 × .md" in done.err

    shown = json.loads(run_albert("corpus", "show", out, "--json").out)
    assert shown["num_tokens"] == result["tokens"]
    assert shown["layouts"] == {"sentences": 1, "wrapped": 1, "paragraphs": 2}
    assert "22 documents" in run_albert("corpus", "show", out).out

    corpus = open_corpus(out)
    lengths = list(map(len, documents(corpus)))
    at = summarize_corpus(corpus)["document_sentences"]["at"]
    assert (at["shortest"], at["median"], at["longest"]) == (8, 8, max(lengths))
    assert summarize_corpus(corpus)["sentence_tokens"]["mean"] == corpus.num_tokens / sum(lengths)

    (tmp_path / "dev.txt").write_text(f"{PARAGRAPHS[1]}\nshort\n")
    found = json.loads(run_albert("corpus", "overlap", out, tmp_path / "dev.txt", "--json").out)
    assert found["files"][0]["num_whole"] == 1
    assert "The old man" in run_albert("corpus", "overlap", out, tmp_path / "dev.txt").out
