"""Files and folders are read and written in the same way: local or remote, compressed or not."""

import gzip
import json
import lzma

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from albert.data.prepare import prepare_corpus
from albert.data.sources import count_ignored, find_sources
from albert.data.storage import (
    is_url,
    iter_bytes,
    list_files,
    measure,
    open_storage,
    put_json,
    read_head,
    to_name,
)
from albert.errors import FileFormatError
from tests.conftest import read_tree, rejects
from tests.data.conftest import PARAGRAPHS, read_files, read_store, upload
from tests.data.test_prepare import UNIT, interrupt
from tests.training.conftest import Listener


@pytest.fixture
def library(books):
    """A file of every supported format, and other files."""
    text = "\n".join(PARAGRAPHS[:20]).encode()
    for suffix, word in ((".gz", b"tall"), (".xz", b"young"), (".zst", b"gentle")):
        WRITERS[suffix](books / f"d.txt{suffix}", text.replace(b"old", word))
    rows = [{"text": f"{first} {second}"} for first, second in zip(PARAGRAPHS, PARAGRAPHS[7:], strict=False)]
    (books / "deep" / "g.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = pa.table({"text": [f"{row['text']} Once more, and not the same." for row in rows]})
    pq.write_table(table, books / "deep" / "h.parquet", row_group_size=10)
    (books / ".hidden.txt").write_text("not read")
    return books


def test_remote_sources_give_the_same_corpus_as_local_ones(library, vocab_path, memory, tmp_path):
    upload(library, f"{memory}/books")
    here = prepare_corpus([library], vocab=vocab_path, out=tmp_path / "here", unit_bytes=4000)
    prepare_corpus([f"{memory}/books"], vocab=vocab_path, out=tmp_path / "there", unit_bytes=4000)
    assert len(here.shards) > 5
    assert len(here.sources) == 9
    assert read_tree(tmp_path / "there") == read_tree(tmp_path / "here")


def test_remote_folders_are_listed_in_the_order_of_local_ones(books, memory):
    (books / "a").mkdir()
    (books / "a" / "z.txt").write_text("z")
    upload(books, f"{memory}/books")
    assert list_files(f"{memory}/books") == [
        "a_sentences.txt", "b_wrapped.txt", "c_lines.txt", "notes.md", "a/z.txt", "deep/copy.txt",
    ]  # fmt: skip
    names = [source.name for source in find_sources([books])]
    assert [source.name for source in find_sources([f"{memory}/books/"])] == names
    assert count_ignored([f"{memory}/books", f"{memory}/books/a_sentences.txt"]) == {".md": 1}
    path = books / "c_lines.txt"
    assert [source.path for source in find_sources([f"file://{path}"])] == [str(path)]
    assert not is_url(r"C:\books")
    assert to_name("https://host/a/b.txt.gz?signature=x.y").name == "b.txt.gz"


def test_a_change_of_a_remote_file_is_noticed(memory):
    path, measured = f"{memory}/a.txt", []
    for content in (b"one", None, b"two"):
        if content is not None:
            with fsspec.open(path, "wb") as file:
                file.write(content)
        measured.append(measure(path, is_fresh=True))
    assert measured[0] == measured[1] != measured[2]
    assert measured[0][0] == measured[2][0] == 3


@pytest.mark.parametrize("url", ["nowhere://x/y.txt", "memory://none/y.txt", "memory://none"])
def test_a_wrong_url_is_rejected(run_albert, vocab_path, cache, tmp_path, url):
    words = ("corpus", "prepare", url, "--vocab", vocab_path, "--out", tmp_path / "out", "--workers", 1)
    assert run_albert(*words).error.startswith(f"{url}: ")


CONTENT = b"".join(b"line %d of a text that is compressed\n" % number for number in range(40_000))


WRITERS = {
    "": lambda path, content: path.write_bytes(content),
    ".gz": lambda path, content: path.write_bytes(gzip.compress(content)),
    ".xz": lambda path, content: path.write_bytes(lzma.compress(content)),
    ".zst": lambda path, content: path.write_bytes(pa.Codec("zstd").compress(content, asbytes=True)),
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_files_are_decompressed_in_bounded_blocks(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    WRITERS[suffix](path, CONTENT)
    blocks = list(iter_bytes(path, block_bytes=10_000))
    assert b"".join(blocks) == CONTENT
    assert max(map(len, blocks)) <= 10_000
    assert read_head(path, num_bytes=1234) == CONTENT[:1234]
    if not suffix:
        assert b"".join(iter_bytes(path, start=100, end=5000, block_bytes=999)) == CONTENT[100:5000]
        return
    path.write_bytes(2 * path.read_bytes())
    assert b"".join(iter_bytes(path)) == 2 * CONTENT
    data = path.read_bytes()
    for share in (0.25, 0.9995):
        path.write_bytes(data[: int(len(data) * share)])
        with rejects(FileFormatError, path):
            list(iter_bytes(path))


@pytest.fixture(params=["local", "memory", "bucket"])
def store(request, tmp_path):
    if request.param == "local":
        return open_storage(tmp_path / "store")
    if request.param == "memory":
        return open_storage(request.getfixturevalue("memory"))
    return open_storage(f"bucket://{request.getfixturevalue('bucket')}/corpus")


def read(store, name):
    with store.reading(name) as path:
        return path.read_bytes()


def test_a_file_appears_when_it_is_complete(store):
    assert store.list_names() == []
    with store.writing("deep/a.bin") as path:
        path.write_bytes(b"first")
        assert store.find_size("deep/a.bin") is None
    assert read(store, "deep/a.bin") == b"first"

    def fail():
        with store.writing("deep/a.bin") as path:
            path.write_bytes(b"half of")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert read(store, "deep/a.bin") == b"first"
    assert store.subfolder("deep").list_names() == ["a.bin"]
    assert open_storage(store.location).find_size("deep/a.bin") == 5


def test_files_are_listed_removed_and_cleared(store):
    put_json(store, "b.json", {"ü": 1})
    put_json(store, "deep/c.json", [])
    assert read(store, "b.json").decode() == '{\n  "ü": 1\n}\n'
    assert store.list_names() == ["b.json", "deep"]
    assert store.find_size("deep") is None
    store.remove("b.json")
    store.remove("b.json")
    assert store.list_names() == ["deep"]
    store.clear()
    store.clear()
    assert store.list_names() == []


def test_several_processes_write_a_remote_corpus_with_the_manifest_last(books, vocab_path, bucket, tmp_path):
    options, listener = {"vocab": vocab_path, "unit_bytes": UNIT}, Listener()
    here = prepare_corpus([books], out=tmp_path / "here", **options)
    assert prepare_corpus([books], out=f"bucket://{bucket}/", num_workers=2, **options) == here
    assert read_files(bucket) == read_files(tmp_path / "here")
    assert list(read_files(bucket))[-1] == "manifest.json"
    assert prepare_corpus([books], out=f"bucket://{bucket}", reporter=listener, **options) == here
    assert any(line.startswith(f"bucket://{bucket}: ") for line in listener.lines)


@pytest.mark.parametrize(
    ("at", "stage"), [("prepare._mark_duplicates", "reading"), ("shards.write_manifest", "writing")]
)
def test_an_interrupted_upload_is_resumed(books, vocab_path, memory, tmp_path, monkeypatch, at, stage):
    out, listener = f"{memory}/corpus", Listener()
    options = {"vocab": vocab_path, "unit_bytes": UNIT}
    interrupt(lambda: prepare_corpus([books], out=out, **options), monkeypatch, at)
    assert "manifest.json" not in read_store(out)
    if stage == "writing":  # half a shard, as a store without atomic writes may keep it
        name = next(name for name in read_store(out) if name.startswith("shards/"))
        with fsspec.open(f"{out}/{name}", "wb") as file:
            file.write(b"half")
    prepare_corpus([books], out=out, reporter=listener, **options)
    assert any(line.startswith(stage) and " units" in line for line in listener.lines)
    prepare_corpus([books], out=tmp_path / "here", **options)
    assert read_store(out) == read_files(tmp_path / "here")
