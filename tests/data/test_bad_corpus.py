"""Bad sources, bad shards, no room: an error that names the file, or a counted skip."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from albert.data.corpus import open_corpus
from albert.data.shards import read_manifest
from tests.conftest import WORDS, write_vocabulary
from tests.data.conftest import PARAGRAPHS

TEXT = "\n".join(PARAGRAPHS) + "\n"


@pytest.fixture
def vocab(tmp_path):
    return write_vocabulary(tmp_path / "vocab.txt", WORDS)


@pytest.fixture
def prepare(run_albert, vocab, tmp_path):
    def run(*sources, out="out", **options):
        flags = [word for key, value in options.items() for word in (f"--{key}", value)]
        return run_albert(
            "corpus", "prepare", *sources, "--vocab", vocab, "--out", tmp_path / out, "--workers", 1, *flags
        )

    return run


def last_line(outcome):
    """The error of a run that had something to say before it."""
    assert outcome.code == 2, outcome
    assert "Traceback" not in outcome.err
    line = outcome.err.splitlines()[-1]
    assert line.startswith("error: ")
    return line


def test_files_without_a_byte_and_without_a_word(prepare, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"")
    (tmp_path / "b.txt").write_text(" \n\n \n* * *\n")
    error = last_line(prepare(tmp_path / "a.txt", tmp_path / "b.txt"))
    assert "b.txt: no text found" in error
    assert "1 empty_files" in error


def test_binary_files_are_skipped_and_counted(prepare, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_bytes(os.urandom(5000))
    (tmp_path / "in" / "b.txt").write_text(TEXT)
    (tmp_path / "in" / "c.txt").write_bytes("a text in another encoding".encode("utf-16"))
    done = prepare(tmp_path / "in")
    assert done.code == 0
    assert "a.txt: binary, skipped" in done.err
    assert "c.txt: binary, skipped" in done.err
    assert read_manifest(tmp_path / "out").dropped["binary_files"] == 2


@pytest.mark.parametrize("content", [b"", b" \n\n", b"\x00\x01\x02" * 2000], ids=["empty", "blank", "binary"])
def test_sources_that_were_emptied_cost_no_corpus(prepare, tmp_path, content):
    (tmp_path / "a.txt").write_text(TEXT)
    prepare(tmp_path / "a.txt")
    before = read_manifest(tmp_path / "out")
    (tmp_path / "a.txt").write_bytes(content)
    assert "a.txt: no text found" in last_line(prepare(tmp_path / "a.txt"))
    assert read_manifest(tmp_path / "out") == before
    assert open_corpus(tmp_path / "out").num_tokens == before.num_tokens


def test_invalid_utf8_is_replaced_and_counted(prepare, tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(TEXT.replace("house", "maß und café").encode("latin-1"))
    done = prepare(path)
    assert done.code == 0
    number = 2 * TEXT.count("house")
    assert read_manifest(tmp_path / "out").dropped["broken_characters"] == number
    assert f"{number:,} broken characters" in done.out


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read there")
@pytest.mark.parametrize(
    "content", [pytest.param("the old man went to the river and ", marks=pytest.mark.slow), "thesea"]
)
def test_a_single_line_of_fifty_megabytes(tmp_path, vocab, content):
    path = tmp_path / "endless.txt"
    # Numbered, where there are words, so that no two stretches are duplicates of each other.
    numbers = range(50_000_000 // (len(content) + 8 * (" " in content)))
    path.write_text("".join(f"{content}{n:07d} " if " " in content else content for n in numbers))
    code = f"""
import json, sys
from albert.cli.main import _run
from albert.data import prepare  # what is imported is no part of the bill
def peak():  # not getrusage's: that is also the peak of the process which started this one
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1])
before = peak()
code = _run(["corpus", "prepare", {str(path)!r}, "--vocab", {str(vocab)!r},
             "--out", {str(tmp_path / "out")!r}, "--workers", "1", "--json"])
print(json.dumps([code, peak() - before]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    exit_code, kilobytes = json.loads(done.stdout.splitlines()[-1])
    # A document is held whole, some times over, and the tokenizer takes hundreds of bytes a word.
    assert kilobytes < 700_000
    if " " in content:
        assert exit_code == 0
        manifest = read_manifest(tmp_path / "out")
        assert manifest.dropped["cut_lines"] > 40
        assert manifest.num_characters > 49_000_000
    else:
        assert exit_code == 2
        assert "long_tokens" in done.stderr.splitlines()[-1]


@pytest.fixture
def out(prepare, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    assert prepare(tmp_path / "a.txt").code == 0
    return tmp_path / "out"


def test_a_shard_cut_short(run_albert, out):
    (shard,) = (out / "shards").iterdir()
    shard.write_bytes(shard.read_bytes()[:-100])
    assert f"{shard.name}: " in run_albert("corpus", "show", out).error
    shard.unlink()
    assert f"{shard.name}: missing" in run_albert("corpus", "show", out).error


def test_a_shard_of_the_right_size_and_nothing_in_it(run_albert, out):
    (shard,) = (out / "shards").iterdir()
    shard.write_bytes(bytes(shard.stat().st_size))
    assert f"{shard.name}: not a complete shard" in run_albert("corpus", "show", out).error


def test_a_manifest_of_another_vocabulary(out, tmp_path, prepare, vocab):
    from albert.errors import InputError

    with pytest.raises(InputError, match="prepared with another vocabulary"):
        open_corpus(out, fingerprint="0" * 64)
    write_vocabulary(vocab, [*WORDS, "another"])
    assert "holds a corpus of another vocabulary" in last_line(prepare(tmp_path / "a.txt"))


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format_version": 99}', '{"shards": 1}'])
def test_a_manifest_that_is_broken(run_albert, out, content):
    (out / "manifest.json").write_text(content)
    assert "manifest.json" in run_albert("corpus", "show", out).error


@pytest.mark.parametrize("num_workers", [1, 2])
def test_no_room_on_the_disk(tmp_path, vocab, num_workers):
    """A limit on the size of files stands for a full disk: the system answers in the same place."""
    (tmp_path / "in").mkdir()
    for number in range(2):
        path = tmp_path / "in" / f"{number}.txt"
        path.write_text("".join(f"The dog number {number}, {k * k} saw it.\n" for k in range(30_000)))
    words = ["corpus", "prepare", tmp_path / "in", "--vocab", vocab, "--out", tmp_path / "out"]
    command = [sys.executable, "-m", "albert", *map(str, words), "--workers", str(num_workers)]

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, timeout=120)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert "cannot be written (" in done.stderr.splitlines()[-1]
    assert ".arrow" in done.stderr.splitlines()[-1]
    assert not list((tmp_path / "out" / "shards").glob("*.arrow"))
    again = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert again.returncode == 0, again
    assert "units are already finished" in again.stderr
