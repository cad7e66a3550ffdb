"""Bad sources, damaged corpora, a full disk: an error that names the file, or a counted skip."""

import os
import resource
import subprocess
import sys

import pytest

from albert.data.corpus import open_corpus
from albert.data.shards import read_manifest
from albert.errors import InputError
from tests.conftest import WORDS, rejects, write_vocabulary
from tests.data.conftest import PARAGRAPHS

TEXT = "\n".join(PARAGRAPHS) + "\n"


@pytest.fixture
def vocab(tmp_path):
    return write_vocabulary(tmp_path / "vocab.txt", WORDS)


@pytest.fixture
def prepare(run_albert, vocab, tmp_path):
    def run(*sources):
        out = ("--out", tmp_path / "out", "--workers", 1)
        return run_albert("corpus", "prepare", *sources, "--vocab", vocab, *out)

    return run


def last_line(outcome):
    """The error line, which may follow other messages."""
    assert outcome.code == 2, outcome
    assert "Traceback" not in outcome.err
    line = outcome.err.splitlines()[-1]
    assert line.startswith("error: ")
    return line


def test_binary_files_are_skipped_and_counted(prepare, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_bytes(os.urandom(5000))
    (tmp_path / "in" / "b.txt").write_text(TEXT)
    (tmp_path / "in" / "c.txt").write_bytes("a text in another encoding".encode("utf-16"))
    done = prepare(tmp_path / "in")
    assert done.code == 0
    assert "a.txt: binary" in done.err
    assert "c.txt: binary" in done.err
    assert read_manifest(tmp_path / "out").dropped["binary_files"] == 2


@pytest.mark.parametrize(
    "content", [b"", b" \n\n \n* * *\n", b"\x00\x01\x02" * 2000], ids=["empty", "blank", "binary"]
)
def test_sources_without_text_are_rejected_and_an_earlier_corpus_is_kept(prepare, tmp_path, content):
    (tmp_path / "a.txt").write_text(TEXT)
    prepare(tmp_path / "a.txt")
    before = read_manifest(tmp_path / "out")
    (tmp_path / "a.txt").write_bytes(content)
    assert "a.txt: " in last_line(prepare(tmp_path / "a.txt"))
    assert read_manifest(tmp_path / "out") == before
    assert open_corpus(tmp_path / "out").num_tokens == before.num_tokens


@pytest.fixture
def out(prepare, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    assert prepare(tmp_path / "a.txt").code == 0
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("shards/00000-000.arrow", lambda data: data[:-100]),
        ("shards/00000-000.arrow", lambda data: bytes(len(data))),
        ("shards/00000-000.arrow", lambda data: None),
        *(("manifest.json", lambda data, new=new: new) for new in (b"", b"[]", b'{"format_version": 99}')),
    ],
)
def test_a_damaged_corpus_is_rejected_by_file(run_albert, out, name, damage):
    path = out / name
    content = damage(path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert f"{path.name}: " in run_albert("corpus", "show", out).error


def test_a_corpus_of_another_vocabulary_is_rejected(out, tmp_path, prepare, vocab):
    with rejects(InputError, out):
        open_corpus(out, fingerprint="0" * 64)
    write_vocabulary(vocab, [*WORDS, "another"])
    assert "vocabulary" in last_line(prepare(tmp_path / "a.txt"))


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_full_disk_is_reported_and_the_finished_units_are_kept(tmp_path, vocab, num_workers):
    """A limit on the size of files has the effect of a full disk."""
    (tmp_path / "in").mkdir()
    for number in range(2):
        path = tmp_path / "in" / f"{number}.txt"
        path.write_text("".join(f"The dog number {number}, {k * k} saw it.\n" for k in range(10_000)))
    words = ["corpus", "prepare", tmp_path / "in", "--vocab", vocab, "--out", tmp_path / "out"]
    command = [sys.executable, "-m", "albert", *map(str, words), "--workers", str(num_workers)]

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, timeout=120)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert ".arrow: " in done.stderr.splitlines()[-1]
    assert not list((tmp_path / "out" / "shards").glob("*.arrow"))
    again = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert again.returncode == 0, again
    assert " units" in again.stderr
