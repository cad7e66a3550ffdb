"""A folder here and one in a store: the same words, the same bytes, and nothing is ever half there."""

import pytest

from albert.data import prepare as prepare_module
from albert.data.prepare import prepare_corpus
from albert.data.sources import Unit
from albert.data.storage import open_storage, put_json
from albert.data.units import RUN_NAME, PrepareSettings, UnitTask, hash_unit
from albert.errors import InputError
from tests.conftest import read_tree
from tests.corpus.conftest import read_files, read_store
from tests.corpus.test_prepare import UNIT, Listener


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
    assert store.below("deep").list_names() == ["a.bin"]
    assert open_storage(store.place).find_size("deep/a.bin") == 5


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
    assert any("corpus: is prepared already" in line for line in again.lines)


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
        patch.setattr(prepare_module, at, stop)
        with pytest.raises(KeyboardInterrupt):
            prepare_corpus([books], vocab=vocab_path, out=out, unit_bytes=UNIT)


@pytest.mark.parametrize(("at", "stage"), [("_mark_duplicates", "reading"), ("write_manifest", "writing")])
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
    assert any(line.startswith(stage) and "were done before" in line for line in listener.lines)
    prepare_corpus([books], vocab=vocab_path, out=tmp_path / "here", unit_bytes=UNIT)
    assert read_store(out) == read_files(tmp_path / "here")


def test_a_folder_of_something_else_in_a_store_is_left_alone(books, vocab_path, memory):
    put_json(open_storage(memory), "thesis.json", "years of work")
    with pytest.raises(InputError, match=r"^memory://.*: holds files that are no prepared corpus"):
        prepare_corpus([books], vocab=vocab_path, out=memory)
    assert list(read_store(memory)) == ["thesis.json"]


@pytest.mark.parametrize("left", [None, "another run's"])
def test_a_worker_that_sees_another_disk_says_so_and_writes_nothing(tmp_path, left):
    scratch = tmp_path / "out" / ".prepare"
    if left is not None:
        scratch.mkdir(parents=True)
        (scratch / RUN_NAME).write_text(left)
    before = read_tree(tmp_path)
    task = UnitTask(Unit(0, ()), PrepareSettings(), str(tmp_path / "out"), str(scratch), "", run_id="mine")
    with pytest.raises(
        InputError, match=r"\.prepare: on .* this is not the folder of this run; give an --out"
    ):
        hash_unit(task)
    assert read_tree(tmp_path) == before
