"""A corpus has the sentences of its sources, the same bytes with any number of workers, and resumes."""

import gzip
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
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
    read_documents,
    write_documents,
)
from albert.data.shards import read_manifest
from albert.errors import AlbertError, FileFormatError, InputError
from albert.files import hold
from albert.settings import build_settings
from albert.text.folder import load_tokenizer, save_tokenizer
from albert.text.sentences import iter_sentences
from albert.text.symbol_tokenizer import SymbolOptions, build_symbol_vocabulary
from tests.conftest import read_tree
from tests.data.conftest import PARAGRAPHS, sentence

UNIT = 4000


class Listener:
    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)

    def show(self, stage, message, *, fraction=None):
        assert 0 <= fraction <= 1


def prepare(books, vocab_path, out, **options):
    return prepare_corpus([books], vocab=vocab_path, out=out, **{"unit_bytes": UNIT, **options})


def read_texts(out):
    """Every document of a corpus as its sentences, spelled by its own vocabulary."""
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
    wrapped = [s for text in PARAGRAPHS[:30] for s in iter_sentences(text)]
    one_a_line = [s for text in PARAGRAPHS[30:] for s in iter_sentences(text)]
    expected = [spell(sentences, vocab_path) for sentences in (*lined, wrapped, one_a_line)]
    assert read_texts(tmp_path / "out") == expected
    assert manifest.num_documents == 22
    assert manifest.num_sentences == sum(map(len, expected))
    assert manifest.dropped == {"byte_order_marks": 1, "duplicate_documents": 1}
    assert {source.name: source.layout for source in manifest.sources} == {
        "books/a_sentences.txt": "sentences",
        "books/b_wrapped.txt": "wrapped",
        "books/c_lines.txt": "paragraphs",
        "books/deep/copy.txt": "paragraphs",
    }
    corpus = open_corpus(tmp_path / "out", fingerprint=load_tokenizer(vocab_path).fingerprint)
    assert corpus.num_tokens == manifest.num_tokens == sum(len(part.tokens) for part in corpus.parts)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["manifest.json", "shards", "vocab"]


def test_long_paragraphs_are_kept_once_and_short_ones_as_often_as_they_come(tmp_path, vocab_path):
    long, other = PARAGRAPHS[0], PARAGRAPHS[1]
    (tmp_path / "a.txt").write_text(f"{long}\nYes it was.\n{other}\nYes it was.\n")
    (tmp_path / "b.txt").write_text(f"Yes it was.\n{long}\nNo it was not.\n")
    manifest = prepare_corpus(
        [tmp_path / "a.txt", tmp_path / "b.txt"], vocab=vocab_path, out=tmp_path / "out",
        settings=PrepareSettings(layout="paragraphs"),
    )  # fmt: skip
    assert manifest.dropped == {"duplicate_paragraphs": 1}
    first, second = read_texts(tmp_path / "out")
    assert [text for text in first if len(text) < 20] == spell(["Yes it was."] * 2, vocab_path)
    assert second == spell(["Yes it was.", "No it was not."], vocab_path)


def test_the_number_of_workers_changes_no_byte(books, vocab_path, tmp_path):
    manifest = prepare(books, vocab_path, tmp_path / "one")
    assert len(manifest.shards) >= 4
    prepare(books, vocab_path, tmp_path / "two", num_workers=2)
    assert read_tree(tmp_path / "one") == read_tree(tmp_path / "two")


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
    """Start the script and kill it as soon as `reached`; give back the processes it leaves behind."""
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
def test_a_run_killed_three_times_and_continued_gives_the_same_bytes(vocab_path, tmp_path):
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
    assert any("units are already finished" in line and line.startswith("writing") for line in listener.lines)
    prepare(books, vocab_path, tmp_path / "whole", unit_bytes=20000)
    assert read_tree(out) == read_tree(tmp_path / "whole")


def interrupt(books, vocab_path, out, monkeypatch):
    """Leave a run as a kill right before the manifest would."""

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("albert.data.shards.write_manifest", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare(books, vocab_path, out)


def test_a_source_that_changed_since_is_said_and_done_again(books, vocab_path, tmp_path, monkeypatch):
    out = tmp_path / "out"
    interrupt(books, vocab_path, out, monkeypatch)
    with (books / "c_lines.txt").open("a") as file:
        file.write("The woman saw a new house by the sea, and she had not seen it before that day.\n")
    listener = Listener()
    prepare(books, vocab_path, out, reporter=listener)
    assert any("of" in line and "units are already finished" in line for line in listener.lines)
    prepare(books, vocab_path, tmp_path / "fresh")
    assert read_tree(out) == read_tree(tmp_path / "fresh")


def test_a_shard_damaged_since_is_done_again(books, vocab_path, tmp_path, monkeypatch):
    out = tmp_path / "out"
    interrupt(books, vocab_path, out, monkeypatch)
    for shard in sorted((out / "shards").iterdir())[:2]:
        shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    prepare(books, vocab_path, out)
    prepare(books, vocab_path, tmp_path / "fresh")
    assert read_tree(out) == read_tree(tmp_path / "fresh")


def test_a_finished_corpus_is_left_as_it_is_until_something_changes(books, vocab_path, tmp_path):
    out = tmp_path / "out"
    first = prepare(books, vocab_path, out)
    tree = read_tree(out)
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*.arrow")}
    listener = Listener()
    assert prepare(books, vocab_path, out, reporter=listener) == first
    assert read_tree(out) == tree
    assert times == {path: path.stat().st_mtime_ns for path in out.rglob("*.arrow")}
    assert any("already prepared" in line for line in listener.lines)
    (books / "b_wrapped.txt").unlink()
    with pytest.raises(InputError, match=r"other sources \(books/b_wrapped\.txt is not among these"):
        prepare(books, vocab_path, out)
    assert read_tree(out) == tree
    again = prepare(books, vocab_path, out, overwrite=True)
    assert (first.num_documents, again.num_documents) == (23, 21)


def test_a_damaged_corpus_is_mended_by_preparing_it_again(books, vocab_path, tmp_path):
    out = tmp_path / "out"
    prepare(books, vocab_path, out)
    tree = read_tree(out)
    shard = next((out / "shards").iterdir())
    shard.write_bytes(shard.read_bytes()[:-9])
    prepare(books, vocab_path, out)
    assert read_tree(out) == tree
    for file in (out / "vocab").iterdir():
        file.unlink()
    prepare(books, vocab_path, out)
    assert read_tree(out) == tree


def test_a_second_run_in_the_same_folder_is_refused(books, vocab_path, tmp_path):
    (tmp_path / "out" / ".prepare").mkdir(parents=True)
    lock = hold(tmp_path / "out" / ".prepare" / "lock", busy="this one")
    written = tmp_path / "out" / ".prepare" / ".unit.json.being-written"
    written.touch()
    with lock, pytest.raises(InputError, match="another run is preparing"):
        prepare(books, vocab_path, tmp_path / "out")
    assert written.exists()  # it is the other run's


def test_other_settings_in_the_same_folder_need_a_word(books, vocab_path, tmp_path):
    out = tmp_path / "out"
    prepare(books, vocab_path, out)
    other = PrepareSettings(language="de")
    with pytest.raises(InputError, match="holds a corpus of other settings; choose another --out"):
        prepare(books, vocab_path, out, settings=other)
    assert prepare(books, vocab_path, out, settings=other, overwrite=True).settings["language"] == "de"
    assert read_manifest(out).settings["language"] == "de"


def test_a_folder_of_something_else_is_left_alone(books, vocab_path, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="holds files but no prepared corpus"):
        prepare(books, vocab_path, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_a_source_that_changes_while_it_is_read_is_an_error(books, vocab_path, tmp_path, monkeypatch):
    from albert.data import prepare as module

    build_tasks = module._build_tasks

    def touch(*arguments):
        os.utime(books / "b_wrapped.txt", ns=(1, 1))
        return build_tasks(*arguments)

    monkeypatch.setattr(module, "_build_tasks", touch)
    with pytest.raises(FileFormatError, match="b_wrapped.txt: changed while it was read"):
        prepare(books, vocab_path, tmp_path / "out")


def test_a_language_without_rules_is_refused_before_anything_is_written(books, vocab_path, tmp_path):
    with pytest.raises(AlbertError, match="tlh"):
        prepare(books, vocab_path, tmp_path / "out", settings=PrepareSettings(language="tlh"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"layout": "poem"}, "layout is 'poem': unknown; choose from sentences, "),
        ({"min_duplicate_characters": 0}, "min_duplicate_characters is 0: input should be greater than 0"),
        ({"passage_characters": -1}, "passage_characters is -1: input should be greater than 0"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_a_line(values, message):
    with pytest.raises(AlbertError) as caught:
        build_settings(PrepareSettings, values=values)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.lists(st.lists(st.integers(0, 40), max_size=30), max_size=12))
def test_the_first_in_order_stays_and_every_other_is_marked(all_units):
    seen, before = SeenHashes(), set()
    for unit in all_units:
        for number, flag in zip(unit, seen.mark(np.array(unit, dtype=np.uint64)), strict=True):
            assert flag == (number in before)
            before.add(number)


def test_memory_is_sixteen_bytes_for_each_distinct_hash():
    rng = np.random.default_rng(0)
    num_distinct = 2_000_000
    tracemalloc.start()
    seen = SeenHashes()
    for _ in range(40):
        seen.mark(rng.integers(1 << 63, size=num_distinct // 40, dtype=np.uint64))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * num_distinct + 4_000_000


def test_batches_are_bounded_and_hold_whole_documents(tiny_folder, monkeypatch):
    tokenizer = load_tokenizer(tiny_folder)
    monkeypatch.setattr(module, "_BATCH_SENTENCES", 1)
    monkeypatch.setattr(module.shards, "MAX_BATCH_TOKENS", 10)
    texts = [f"The ship left the harbour in {year}." for year in range(1980, 2000)]
    tally = Counter()
    parts = list(iter_parts([RawDocument([text]) for text in texts], tokenizer, language="en", tally=tally))
    assert len(parts) > 5
    assert [piece for part in parts for piece in part.tokens.tolist()] == [
        piece for ids in tokenizer.encode_ids(texts) for piece in ids
    ]
    longest = max(map(len, tokenizer.encode_ids(texts)))
    assert all(10 <= len(part.tokens) < 10 + longest for part in parts[:-1])
    assert sum(len(part.document_starts) - 1 for part in parts) == len(texts)
    assert tally["num_characters"] == sum(map(len, texts))


PARAGRAPH = st.text(alphabet=st.characters(min_codepoint=32, exclude_categories=["Cc", "Cs"]), min_size=1)


DOCUMENT = st.builds(RawDocument, st.lists(PARAGRAPH, min_size=1, max_size=4), is_split=st.booleans())


@given(st.lists(DOCUMENT, max_size=8))
def test_documents_pass_through_and_come_back(tmp_path_factory, documents):
    path = tmp_path_factory.mktemp("scratch") / "text.zst"
    assert list(write_documents(path, documents)) == documents
    assert list(read_documents(path)) == documents


def test_a_folder_with_a_manifest_of_something_else_keeps_its_hidden_files(books, vocab_path, tmp_path):
    mine = tmp_path / "extension"
    (mine / "vocab").mkdir(parents=True)
    names = ("manifest.json", ".eslintrc.json", ".env.local", "vocab/.keep.me12345")
    for name in names:
        (mine / name).write_text("{}")
    before = read_tree(mine)
    with pytest.raises(AlbertError, match=r"manifest\.json"):
        prepare(books, vocab_path, mine)
    with pytest.raises(AlbertError, match=r"manifest\.json"):
        prepare(books, vocab_path, mine, overwrite=True)
    assert read_tree(mine) == before


def test_what_a_killed_run_was_writing_is_swept_and_nothing_else(books, vocab_path, tmp_path):
    out = tmp_path / "out"
    prepare(books, vocab_path, out)
    left = out / "shards" / ".00000-000.arrow.ab1_x9zq"  # as mkstemp names it
    mine = out / ".gitignore.mine"
    left.touch()
    mine.touch()
    prepare(books, vocab_path, out)
    assert mine.exists()
    assert not left.exists()


def test_a_finished_corpus_outlives_a_damaged_source_that_is_added(books, vocab_path, tmp_path):
    out = tmp_path / "out"
    prepare(books, vocab_path, out)
    tree = read_tree(out)
    (books / "z_more.txt.gz").write_bytes(gzip.compress("\n\n".join(PARAGRAPHS).encode())[:-20])
    with pytest.raises(AlbertError, match=r"z_more\.txt\.gz"):
        prepare(books, vocab_path, out)
    kept = {name: data for name, data in read_tree(out).items() if not name.startswith(".prepare")}
    assert kept == tree
    (books / "z_more.txt.gz").unlink()
    prepare(books, vocab_path, out)
    assert read_tree(out) == tree


def test_a_corpus_inside_the_folder_of_its_sources_is_no_source(books, vocab_path, tmp_path):
    """With vocab.txt in it, which looks like one."""
    out = books / "corpus"
    first = prepare(books, vocab_path, out)
    listener = Listener()
    assert prepare(books, vocab_path, out, reporter=listener) == first
    assert any("already prepared" in line for line in listener.lines)


def test_of_sources_that_share_a_name_none_is_dropped_unasked(vocab_path, tmp_path):
    paths = []
    for folder, text in (("en", PARAGRAPHS[0]), ("de", PARAGRAPHS[1])):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "part.txt").write_text(text)
        paths.append(tmp_path / folder / "part.txt")
    both = prepare_corpus(paths, vocab=vocab_path, out=tmp_path / "out")
    assert both.num_documents == 2
    with pytest.raises(InputError, match=r"other sources \(part\.txt is not among these\)"):
        prepare_corpus(paths[:1], vocab=vocab_path, out=tmp_path / "out")


def test_of_symbols_brackets_and_numbers_are_no_ornaments(tmp_path):
    """The shape of an RNA is written below it in brackets and dots."""
    lines = [line for k in range(20) for line in ("GCAUUGC", "((...))", "1234")]
    (tmp_path / "rna.txt").write_text("\n".join(lines) + "\n")
    options = SymbolOptions(is_per_character=True)
    save_tokenizer(build_symbol_vocabulary(iter(lines), options=options), tmp_path / "symbols")
    settings = PrepareSettings(layout="sentences")
    manifest = prepare_corpus(
        [tmp_path / "rna.txt"], vocab=tmp_path / "symbols", out=tmp_path / "out", settings=settings
    )
    assert manifest.num_tokens == sum(map(len, lines))
