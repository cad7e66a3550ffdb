"""Held-out documents, and remote corpora: fetched once, checked, fetched again if damaged."""

import itertools
import os
import pickle
import subprocess
import sys

import fsspec
import numpy as np
import pytest

from albert.data.corpus import fetch_corpus, hold_out, narrow, open_corpus
from albert.data.prepare import prepare_corpus
from albert.errors import FileFormatError, InputError, WriteError
from tests.corpus.conftest import read_files, upload
from tests.corpus.test_prepare import UNIT
from tests.examples.conftest import NUM_ORDINARY, corpus, tokenizer, write_corpus

__all__ = ["corpus", "tokenizer"]


def pieces(of):
    return np.concatenate([part.pieces for part in of.parts]).tolist()


def documents(of):
    """Documents of sentences of pieces."""
    found = []
    for part in of.parts:
        for first, last in zip(part.document_starts[:-1], part.document_starts[1:], strict=True):
            starts = part.sentence_starts[first : last + 1]
            found.append([part.pieces[a:b].tolist() for a, b in itertools.pairwise(starts)])
    return found


def test_the_last_documents_are_held_out_whole(corpus):
    split = hold_out(corpus, share=0.02, max_pieces=10**6)
    assert documents(split.train) + documents(split.held_out) == documents(corpus)
    assert split.train.num_documents + split.held_out.num_documents == corpus.num_documents
    assert 0.02 <= split.held_out.num_pieces / corpus.num_pieces < 0.06


def test_a_large_corpus_gives_no_more_than_it_must(corpus):
    assert hold_out(corpus, share=0.4, max_pieces=2000).held_out.num_pieces < 6000


def test_one_long_document_is_cut_between_two_sentences(tokenizer, tmp_path):
    sentences = [[5 + (i * 7 + j) % NUM_ORDINARY for j in range(10)] for i in range(1000)]
    book = write_corpus(tmp_path, [sentences], tokenizer)
    split = hold_out(book, share=0.01, max_pieces=10**6)
    assert documents(split.train) == [sentences[:990]]
    assert documents(split.held_out) == [sentences[990:]]


def test_a_part_of_a_corpus_survives_the_way_to_another_process(corpus):
    part = narrow(corpus, 1000, 5000)
    again = pickle.loads(pickle.dumps(part))
    assert pieces(again) == pieces(part)
    assert again.num_pieces == part.num_pieces == int(part.starts[-1])
    assert len(pickle.dumps(part)) < 1000  # the folder and the range, not the pieces


def test_too_little_to_hold_some_out(tokenizer, tmp_path):
    tiny = write_corpus(tmp_path, [[[6, 7, 8]]], tokenizer)
    with pytest.raises(InputError, match="1 sentences in 1 documents are too few to hold some out"):
        hold_out(tiny, share=0.01, max_pieces=100)


def test_next_sentences_need_two_documents_to_be_asked_about(tokenizer, tmp_path):
    (tmp_path / "two").mkdir()
    books = [[[5 + (b * 31 + i + j) % NUM_ORDINARY for j in range(10)] for i in range(300)] for b in range(5)]
    corpus = write_corpus(tmp_path / "two", books, tokenizer, per_shard=1)
    split = hold_out(corpus, share=0.01, max_pieces=10**6, min_documents=2)
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
    assert corpus.place == corpus.name == there
    assert corpus.folder.is_relative_to(cache / "corpora")
    again = pickle.loads(pickle.dumps(narrow(corpus, 10, 100)))
    assert pieces(again) == pieces(narrow(corpus, 10, 100))
    assert again.place == there


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


@pytest.mark.parametrize("damage", ["cut", "changed", "gone", "vocabulary"])
def test_a_damaged_copy_is_fetched_again(here, there, damage):
    folder = fetch_corpus(there)
    victim = sorted((folder / "shards").iterdir())[1]
    data = victim.read_bytes()
    if damage == "cut":
        victim.write_bytes(data[:-9])
    elif damage == "changed":
        victim.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
        os.utime(victim, ns=(1, 1))  # a copy's time is that of its last change, whatever the clock's step
    elif damage == "gone":
        victim.unlink()
    else:
        (folder / "vocab" / "vocab.txt").write_text("[PAD]\n")
    times = {path: path.stat().st_mtime_ns for path in (folder / "shards").iterdir() if path != victim}
    assert fetch_corpus(there) == folder
    assert shards_of(folder) == shards_of(here)
    assert times == {path: path.stat().st_mtime_ns for path in times}
    assert pieces(open_corpus(there)) == pieces(open_corpus(here))


def test_a_store_without_a_manifest_is_no_corpus(run_albert, there):
    system, path = fsspec.core.url_to_fs(there)
    system.rm_file(f"{path}/manifest.json")
    assert run_albert("corpus", "show", there).error == (
        f"{there}: no manifest.json; it is no prepared corpus, or preparing did not finish: run `albert "
        "corpus prepare` again to continue"
    )


def test_a_shard_that_is_not_its_manifests_is_refused_and_not_kept(there, cache):
    system, path = fsspec.core.url_to_fs(there)
    name = sorted(system.find(f"{path}/shards"))[0]
    whole = system.cat_file(name)
    system.pipe_file(name, whole[:-10])
    short = (
        rf"^memory://.*/shards/00000-000\.arrow: {len(whole) - 10} bytes that are not those of its manifest"
    )
    with pytest.raises(FileFormatError, match=short):
        fetch_corpus(there)
    assert not any(cache.rglob("00000-000.arrow"))
    system.pipe_file(name, whole)
    assert open_corpus(there).num_pieces > 0


def test_a_cache_that_cannot_be_written_is_one_line(there, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ALBERT_CACHE", str(tmp_path / "file"))
    with pytest.raises(WriteError, match=r"file: cannot be written \(.* set ALBERT_CACHE to another folder"):
        fetch_corpus(there)


ASK = """
import sys
from albert.data.corpus import open_corpus
print(open_corpus(sys.argv[1]).num_pieces)
"""


def test_of_several_processes_one_fetches(here, bucket):
    upload(here, f"{bucket.url}/b/corpus")
    command = [sys.executable, "-c", ASK, f"{bucket.url}/b/corpus"]
    asking = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    found = [process.communicate(timeout=60)[0].strip() for process in asking]
    assert found == [str(open_corpus(here).num_pieces)] * 3
    gets = {name: bucket.num_gets[f"b/corpus/{name}"] for name in shards_of(here)}
    assert gets == dict.fromkeys(gets, 1)
    assert bucket.num_gets["b/corpus/manifest.json"] >= 3


def test_a_corpus_is_read_from_a_web_server(here, bucket):
    pytest.importorskip("aiohttp", reason="http:// needs aiohttp, which the extra `dev` brings")
    upload(here, f"{bucket.url}/b/corpus")
    assert pieces(open_corpus(f"{bucket.http_url}/b/corpus")) == pieces(open_corpus(here))
