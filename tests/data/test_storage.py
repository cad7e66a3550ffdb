"""Files and folders are read and written the same, local or remote, compressed or not."""

import gzip
import json
import lzma

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from albert.data.prepare import RUN_NAME, Job, PrepareSettings, UnitTask, hash_unit, prepare_corpus
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
    to_path,
)
from albert.errors import FileFormatError, InputError
from tests.conftest import read_tree
from tests.data.conftest import PARAGRAPHS, read_files, read_store, upload
from tests.data.test_prepare import UNIT, Listener


@pytest.fixture
def library(books):
    """Every kind of file that is read, among others that are not."""
    text = "\n".join(PARAGRAPHS[:20]).encode()
    (books / "d.txt.gz").write_bytes(gzip.compress(text.replace(b"old", b"tall")))
    (books / "e.txt.xz").write_bytes(lzma.compress(text.replace(b"old", b"young")))
    (books / "f.txt.zst").write_bytes(pa.Codec("zstd").compress(text.replace(b"old", b"kind"), asbytes=True))
    rows = [{"text": f"{first} {second}"} for first, second in zip(PARAGRAPHS, PARAGRAPHS[7:], strict=False)]
    (books / "deep" / "g.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = pa.table({"text": [f"{row['text']} Once more, and not the same." for row in rows]})
    pq.write_table(table, books / "deep" / "h.parquet", row_group_size=10)
    (books / ".hidden.txt").write_text("not read")
    return books


def test_sources_in_a_store_give_the_bytes_of_the_same_files_here(library, vocab_path, memory, tmp_path):
    upload(library, f"{memory}/books")
    here = prepare_corpus([library], vocab=vocab_path, out=tmp_path / "here", unit_bytes=2000)
    prepare_corpus([f"{memory}/books"], vocab=vocab_path, out=tmp_path / "there", unit_bytes=2000)
    assert len(here.shards) > 10
    assert len(here.sources) == 9
    assert read_tree(tmp_path / "there") == read_tree(tmp_path / "here")


def test_a_folder_is_searched_in_the_order_of_the_disk(books, memory):
    (books / "a").mkdir()
    (books / "a" / "z.txt").write_text("z")
    upload(books, f"{memory}/books")
    assert list_files(f"{memory}/books") == [
        "a_sentences.txt", "b_wrapped.txt", "c_lines.txt", "notes.md", "a/z.txt", "deep/copy.txt",
    ]  # fmt: skip
    names = [source.name for source in find_sources([books])]
    assert [source.name for source in find_sources([f"{memory}/books/"])] == names
    assert count_ignored([f"{memory}/books", f"{memory}/books/a_sentences.txt"]) == {".md": 1}


def test_a_file_url_is_a_path(books):
    assert not is_url(f"file://{books}")
    assert to_path(f"file://{books}") == books
    assert [source.path for source in find_sources([f"file://{books}/c_lines.txt"])] == [
        str(books / "c_lines.txt")
    ]
    assert is_url("s3://bucket/key")
    assert not is_url(r"C:\books")
    assert to_name("https://host/a/b.txt.gz?signature=x.y").name == "b.txt.gz"


def test_a_change_is_noticed(memory):
    import fsspec

    with fsspec.open(f"{memory}/a.txt", "wb") as file:
        file.write(b"one")
    before = measure(f"{memory}/a.txt")
    assert measure(f"{memory}/a.txt", is_fresh=True) == before
    with fsspec.open(f"{memory}/a.txt", "wb") as file:
        file.write(b"two")
    assert measure(f"{memory}/a.txt", is_fresh=True)[0] == before[0] == 3
    assert measure(f"{memory}/a.txt", is_fresh=True) != before


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nowhere://x/y.txt", "cannot be opened (ValueError: Protocol not known: nowhere)"),
        ("memory://none/y.txt", "no such file, folder or bucket; check the address"),
        ("memory://none", "no such folder, or empty; check the address"),
    ],
)
def test_what_is_not_there_is_one_line(run_albert, vocab_path, cache, tmp_path, url, message):
    words = ("corpus", "prepare", url, "--vocab", vocab_path, "--out", tmp_path / "out", "--workers", 1)
    assert run_albert(*words).error.startswith(f"{url}: {message}")


CONTENT = b"".join(b"line %d of a text that is compressed\n" % number for number in range(40_000))


def write_zstd(path, content):
    with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as stream:
        stream.write(content)


def write_plain(path, content):
    path.write_bytes(content)


WRITERS = {
    ".gz": lambda path, content: path.write_bytes(gzip.compress(content)),
    ".xz": lambda path, content: path.write_bytes(lzma.compress(content)),
    ".zst": write_zstd,
    "": write_plain,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_what_was_compressed_comes_out_whole_and_in_bounded_blocks(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    WRITERS[suffix](path, CONTENT)
    blocks = list(iter_bytes(path, block_bytes=10_000))
    assert b"".join(blocks) == CONTENT
    assert max(map(len, blocks)) <= 10_000
    assert read_head(path, num_bytes=1234) == CONTENT[:1234]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_files_joined_end_to_end_are_read_to_the_last(tmp_path, suffix):
    parts = []
    for number, content in enumerate((b"first\n" * 1000, b"second\n" * 1000)):
        WRITERS[suffix](tmp_path / f"{number}{suffix}", content)
        parts.append((tmp_path / f"{number}{suffix}").read_bytes())
    path = tmp_path / f"both.txt{suffix}"
    path.write_bytes(b"".join(parts))
    assert b"".join(iter_bytes(path)) == b"first\n" * 1000 + b"second\n" * 1000


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("share", [0.5, 0.999])
def test_half_a_file_is_refused_by_name(tmp_path, suffix, share):
    path = tmp_path / f"half.txt{suffix}"
    WRITERS[suffix](path, CONTENT)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(
        FileFormatError, match=f"half.txt{suffix}: its compressed data is damaged or truncated"
    ):
        list(iter_bytes(path))


def test_a_slice_of_a_plain_file_is_that_slice(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(CONTENT)
    assert b"".join(iter_bytes(path, start=100, end=5000, block_bytes=999)) == CONTENT[100:5000]


@pytest.fixture(params=["local", "memory", "bucket"])
def store(request, tmp_path):
    if request.param == "local":
        return open_storage(tmp_path / "store")
    if request.param == "memory":
        return open_storage(request.getfixturevalue("memory"))
    return open_storage(f"{request.getfixturevalue('bucket').url}/store/corpus")


def read(store, name):
    with store.reading(name) as path:
        return path.read_bytes()


def test_what_is_written_is_there_and_what_fails_is_not(store):
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


def test_a_corpus_in_a_store_has_the_bytes_of_one_here(books, vocab_path, memory, tmp_path):
    listener = Listener()
    options = {"vocab": vocab_path, "unit_bytes": UNIT}
    here = prepare_corpus([books], out=tmp_path / "here", **options)
    there = prepare_corpus([books], out=f"{memory}/corpus/", reporter=listener, **options)
    assert there == here
    assert read_store(f"{memory}/corpus") == read_files(tmp_path / "here")
    again = Listener()
    assert prepare_corpus([books], out=f"{memory}/corpus", reporter=again, **options) == here
    assert any("corpus: already prepared" in line for line in again.lines)


def test_several_processes_put_their_shards_and_the_manifest_comes_last(books, vocab_path, bucket, tmp_path):
    options = {"vocab": vocab_path, "unit_bytes": UNIT}
    prepare_corpus([books], out=tmp_path / "here", **options)
    prepare_corpus([books], out=f"{bucket.url}/b/corpus", num_workers=2, **options)
    assert bucket.read_tree("b/corpus") == read_files(tmp_path / "here")
    assert bucket.puts[-1] == "b/corpus/manifest.json"
    assert bucket.puts.count("b/corpus/manifest.json") == 1


def interrupt(monkeypatch, at, books, vocab_path, out):
    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"albert.data.{at}", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare_corpus([books], vocab=vocab_path, out=out, unit_bytes=UNIT)


@pytest.mark.parametrize(
    ("at", "stage"), [("prepare._mark_duplicates", "reading"), ("shards.write_manifest", "writing")]
)
def test_an_interrupted_upload_goes_on(books, vocab_path, memory, tmp_path, monkeypatch, at, stage):
    out = f"{memory}/corpus"
    interrupt(monkeypatch, at, books, vocab_path, out)
    assert "manifest.json" not in read_store(out)
    if stage == "writing":  # half a shard, as a store without whole objects may keep it
        import fsspec

        name = next(name for name in read_store(out) if name.startswith("shards/"))
        with fsspec.open(f"{out}/{name}", "wb") as file:
            file.write(b"half")
    listener = Listener()
    prepare_corpus([books], vocab=vocab_path, out=out, unit_bytes=UNIT, reporter=listener)
    assert any(line.startswith(stage) and "are already finished" in line for line in listener.lines)
    prepare_corpus([books], vocab=vocab_path, out=tmp_path / "here", unit_bytes=UNIT)
    assert read_store(out) == read_files(tmp_path / "here")


@pytest.mark.parametrize("left", [None, "another run's"])
def test_a_worker_that_sees_another_disk_says_so_and_writes_nothing(tmp_path, left):
    scratch = tmp_path / "out" / ".prepare"
    if left is not None:
        scratch.mkdir(parents=True)
        (scratch / RUN_NAME).write_text(left)
    before = read_tree(tmp_path)
    job = Job(open_storage(tmp_path / "out"), PrepareSettings(), "", keeps_long_tokens=False, run_id="mine")
    task = UnitTask(0, (), job)
    with pytest.raises(
        InputError, match=r"\.prepare: on .* this is not the folder of this run; give an --out"
    ):
        hash_unit(task)
    assert read_tree(tmp_path) == before
