"""A corpus has the sentences of its sources and the same bytes with any number of workers; runs resume."""

import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.data import prepare as module
from albert.data.corpus import open_corpus
from albert.data.layouts import RawDocument
from albert.data.prepare import (
    PrepareSettings,
    SeenHashes,
    iter_parts,
    prepare_corpus,
)
from albert.data.shards import read_manifest
from albert.errors import AlbertError, InputError
from albert.files import hold
from albert.text.folder import load_tokenizer
from albert.text.sentences import iter_sentences
from tests.conftest import read_tree, rejects
from tests.data.conftest import PARAGRAPHS, sentence
from tests.training.conftest import Listener

UNIT = 4000


def prepare(books, vocab_path, out, **options):
    return prepare_corpus([books], vocab=vocab_path, out=out, **{"unit_bytes": UNIT, **options})


def read_texts(out):
    """The decoded sentences of every document of a corpus."""
    corpus = open_corpus(out)
    tokenizer = load_tokenizer(out / "vocab")
    return [
        [
            tokenizer.decode(part.tokens[part.sentence_starts[s] : part.sentence_starts[s + 1]].tolist())
            for s in range(part.document_starts[d], part.document_starts[d + 1])
        ]
        for part in corpus.parts
        for d in range(len(part.document_starts) - 1)
    ]


def spell(sentences, vocab_path):
    tokenizer = load_tokenizer(vocab_path)
    return [tokenizer.decode(ids) for ids in tokenizer.encode_ids(sentences)]


def test_the_sentences_of_the_sources_are_in_the_shards(books, vocab_path, tmp_path):
    manifest = prepare(books, vocab_path, tmp_path / "out", unit_bytes=None)
    lined = [[sentence(1000 + 20 * d + k) for k in range(8)] for d in range(20)]
    wrapped, one_a_line = (
        [s for text in half for s in iter_sentences(text)] for half in (PARAGRAPHS[:30], PARAGRAPHS[30:])
    )
    expected = [spell(sentences, vocab_path) for sentences in (*lined, wrapped, one_a_line)]
    assert read_texts(tmp_path / "out") == expected
    assert manifest.num_documents == 22
    assert manifest.num_sentences == sum(map(len, expected))
    assert manifest.dropped == {"byte_order_marks": 1, "duplicate_documents": 1}
    layouts = {source.name.removeprefix("books/"): source.layout for source in manifest.sources}
    assert layouts == {
        "a_sentences.txt": "sentences", "b_wrapped.txt": "wrapped", "c_lines.txt": "paragraphs",
        "deep/copy.txt": "paragraphs",
    }  # fmt: skip
    corpus = open_corpus(tmp_path / "out", fingerprint=load_tokenizer(vocab_path).fingerprint)
    assert corpus.num_tokens == manifest.num_tokens == sum(len(part.tokens) for part in corpus.parts)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["manifest.json", "shards", "vocab"]


def test_repeated_paragraphs_are_dropped_if_they_are_long(tmp_path, vocab_path):
    long, other = PARAGRAPHS[0], PARAGRAPHS[1]
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    paths[0].write_text(f"{long}\nYes it was.\n{other}\nYes it was.\n")
    paths[1].write_text(f"Yes it was.\n{long}\nNo it was not.\n")
    settings = PrepareSettings(layout="paragraphs")
    manifest = prepare_corpus(paths, vocab=vocab_path, out=tmp_path / "out", settings=settings)
    assert manifest.dropped == {"duplicate_paragraphs": 1}
    first, second = read_texts(tmp_path / "out")
    assert [text for text in first if len(text) < 20] == spell(["Yes it was."] * 2, vocab_path)
    assert second == spell(["Yes it was.", "No it was not."], vocab_path)


SCRIPT = """
import sys
from albert.data.prepare import prepare_corpus
if __name__ == "__main__":
    prepare_corpus([sys.argv[1]], vocab=sys.argv[2], out=sys.argv[3], unit_bytes=20000, num_workers=2)
"""


def children_of(process):
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def run_until(script, arguments, reached):
    """Start the script, kill it as soon as `reached` holds, and return its child processes."""
    process = subprocess.Popen([sys.executable, str(script), *map(str, arguments)])
    while not reached():
        assert process.poll() is None, "it finished before it could be killed"
        time.sleep(0.002)
    children = children_of(process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return children


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs Linux's /proc")
def test_a_run_that_is_killed_and_resumed_three_times_gives_the_same_bytes(vocab_path, tmp_path):
    books, out = tmp_path / "books", tmp_path / "killed"
    books.mkdir()
    for number in range(30):
        lines = (f"{sentence(number * 500 + k)} {sentence(number * 500 + k + 70)}" for k in range(200))
        (books / f"{number:02d}.txt").write_text("\n".join(lines))
    (tmp_path / "script.py").write_text(SCRIPT)
    scratch = out / ".prepare"
    moments = [
        lambda: any(scratch.glob("reading-*.json")),
        lambda: any(scratch.glob("writing-*.json")),
        lambda: len(list(scratch.glob("writing-*.json"))) >= 6,
    ]
    for reached in moments:
        children = run_until(tmp_path / "script.py", (books, vocab_path, out), reached)
        assert not (out / "manifest.json").exists()
        for _ in range(200):
            if not any(map(is_running, children)):
                break
            time.sleep(0.05)
        assert not any(map(is_running, children)), "workers outlived their parent"
    listener = Listener()
    prepare(books, vocab_path, out, unit_bytes=20000, reporter=listener)
    assert any(line.startswith("writing") and " units" in line for line in listener.lines)
    prepare(books, vocab_path, tmp_path / "fresh", unit_bytes=20000)
    assert read_tree(out) == read_tree(tmp_path / "fresh")


def interrupt(prepare, monkeypatch, at="shards.write_manifest"):
    """Stop a run at a function of `albert.data`; by default when only the manifest is missing."""

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"albert.data.{at}", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare()


def change_source(books, out):
    with (books / "c_lines.txt").open("a") as file:
        file.write("The woman saw a new house by the sea, and she had not seen it before that day.\n")


def damage_shards(books, out):
    for shard in sorted((out / "shards").iterdir())[:2]:
        shard.write_bytes(shard.read_bytes()[:-1] + b"x")


@pytest.mark.parametrize("change", [change_source, damage_shards])
def test_changed_sources_and_damaged_shards_are_prepared_again(
    books, vocab_path, tmp_path, monkeypatch, change
):
    out, listener = tmp_path / "out", Listener()
    interrupt(lambda: prepare(books, vocab_path, out), monkeypatch)
    change(books, out)
    prepare(books, vocab_path, out, reporter=listener)
    assert any(" units" in line for line in listener.lines)
    prepare(books, vocab_path, tmp_path / "fresh")
    assert read_tree(out) == read_tree(tmp_path / "fresh")


def test_a_finished_corpus_is_not_changed_without_overwrite(books, vocab_path, tmp_path):
    out, listener = tmp_path / "out", Listener()
    first = prepare(books, vocab_path, out)
    tree = read_tree(out)
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*.arrow")}
    assert prepare(books, vocab_path, out, reporter=listener) == first
    assert times == {path: path.stat().st_mtime_ns for path in out.rglob("*.arrow")}
    assert any(line.startswith(f"{out}: ") for line in listener.lines)
    with rejects(InputError, out, "--out"):
        prepare(books, vocab_path, out, settings=PrepareSettings(language="de"))
    (books / "b_wrapped.txt").unlink()
    with rejects(InputError, "books/b_wrapped.txt"):
        prepare(books, vocab_path, out)
    assert read_tree(out) == tree
    again = prepare(books, vocab_path, out, settings=PrepareSettings(language="de"), overwrite=True)
    assert (first.num_documents, again.num_documents) == (23, 21)
    assert read_manifest(out).settings["language"] == "de"


def test_preparing_again_repairs_a_damaged_corpus(books, vocab_path, tmp_path):
    out = tmp_path / "out"
    prepare(books, vocab_path, out)
    tree = read_tree(out)
    shard = next((out / "shards").iterdir())
    shard.write_bytes(shard.read_bytes()[:-9])
    for file in (out / "vocab").iterdir():
        file.unlink()
    (out / "shards" / ".00000-000.arrow.ab1_x9zq").touch()  # a file that a killed run was writing
    prepare(books, vocab_path, out)
    assert read_tree(out) == tree


def test_a_second_run_in_the_same_folder_is_rejected(books, vocab_path, tmp_path):
    (tmp_path / "out" / ".prepare").mkdir(parents=True)
    lock = hold(tmp_path / "out" / ".prepare" / "lock", busy="the other run")
    with lock, rejects(InputError, tmp_path / "out"):
        prepare(books, vocab_path, tmp_path / "out")


@pytest.mark.parametrize(("name", "overwrite"), [("thesis.txt", False), ("manifest.json", True)])
def test_a_folder_with_other_files_is_not_changed(books, vocab_path, tmp_path, name, overwrite):
    for file in (name, ".env.local"):
        (tmp_path / "mine" / file).parent.mkdir(exist_ok=True)
        (tmp_path / "mine" / file).write_text("{}")
    before = read_tree(tmp_path / "mine")
    with pytest.raises(AlbertError):
        prepare(books, vocab_path, tmp_path / "mine", overwrite=overwrite)
    assert read_tree(tmp_path / "mine") == before


def test_an_unknown_language_is_rejected_before_anything_is_written(books, vocab_path, tmp_path):
    with rejects(AlbertError, "'tlh'"):
        prepare(books, vocab_path, tmp_path / "out", settings=PrepareSettings(language="tlh"))
    assert not (tmp_path / "out").exists()


@given(st.lists(st.lists(st.integers(0, 40), max_size=30), max_size=12))
def test_every_hash_is_marked_except_the_first_of_its_value(all_units):
    seen, before = SeenHashes(), set()
    for unit in all_units:
        for number, flag in zip(unit, seen.mark(np.array(unit, dtype=np.uint64)), strict=True):
            assert flag == (number in before)
            before.add(number)


def test_batches_are_bounded_and_split_no_document(tiny_folder, monkeypatch):
    tokenizer = load_tokenizer(tiny_folder)
    monkeypatch.setattr(module, "_BATCH_SENTENCES", 1)
    monkeypatch.setattr(module.shards, "MAX_BATCH_TOKENS", 10)
    texts = [f"The ship left the harbour in {year}." for year in range(1980, 2000)]
    tally = Counter()
    parts = list(iter_parts([RawDocument([text]) for text in texts], tokenizer, language="en", tally=tally))
    assert len(parts) > 5
    ids = tokenizer.encode_ids(texts)
    assert [token for part in parts for token in part.tokens.tolist()] == [*chain.from_iterable(ids)]
    longest = max(map(len, ids))
    assert all(10 <= len(part.tokens) < 10 + longest for part in parts[:-1])
    assert sum(len(part.document_starts) - 1 for part in parts) == len(texts)
    assert tally["num_characters"] == sum(map(len, texts))


def test_a_corpus_inside_the_folder_of_its_sources_is_not_a_source(books, vocab_path):
    out = books / "corpus"  # with vocab.txt in it
    assert prepare(books, vocab_path, out) == prepare(books, vocab_path, out)
