"""Shards of many texts: the same bytes with any workers, resumed after a kill, one copy of the weights."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import albert
from albert.errors import FileFormatError, InputError
from albert.progress import build_command
from albert.tasks.many_texts import MANIFEST_NAME, embed_files, predict_files
from tests.conftest import WORDS, read_tree, rejects
from tests.data import conftest as stores
from tests.tasks.finetuned_folder import SENTIMENT, write_finetuned_folder

cache, memory = stores.cache, stores.memory
TEXTS = [f"the {a} {b} was {c}" for a in ("old", "new") for b in ("ship", "sea", "dog") for c in WORDS[30:46]]


@pytest.fixture
def table(tmp_path, cache):
    path = tmp_path / "texts.csv"
    path.write_text("key,review\n" + "".join(f"k{n},{text}\n" for n, text in enumerate(TEXTS)))
    return path


def read_vectors(folder):
    table = pq.read_table(folder)  # skips the manifest
    return table.drop(["vector"]).to_pydict(), np.stack(table["vector"].to_numpy())


def test_vectors_are_those_of_one_process_with_any_number_of_workers(
    tiny_folder, table, tmp_path, run_albert
):
    words = ["embed", "--model", tiny_folder, "--input", table, "columns.text=review", "--shard-rows", 20]
    for number in (1, 2):
        done = run_albert(*words, "--workers", number, "--out", tmp_path / f"out-{number}", "--json")
        found = json.loads(done.out)
        assert (found["rows"], found["shards"], found["kept_shards"]) == (96, 5, 0)
    assert read_tree(tmp_path / "out-1") == read_tree(tmp_path / "out-2")
    names, vectors = read_vectors(tmp_path / "out-1")
    assert names == {"line": list(range(2, 98))}
    expected = [albert.load(tiny_folder).embed(TEXTS[k : k + 20]) for k in range(0, 96, 20)]
    assert np.array_equal(vectors, np.concatenate(expected))


def test_predictions_are_those_of_the_command_without_workers(tiny_folder, table, tmp_path, run_albert):
    model = write_finetuned_folder(tmp_path / "m", tiny_folder, SENTIMENT)
    words = ["predict", "classification", "-m", model, table, "columns.text=review", "columns.id=key"]
    expected = run_albert(*words).out
    for number in (1, 2):
        out = tmp_path / f"out-{number}"
        assert run_albert(*words, "--workers", number, "--shard-rows", 96, "--out", out).code == 0
        assert (out / "000000.jsonl").read_text() == expected
    summary = predict_files(
        "classification",
        table,
        models=[model],
        columns={"text": "review"},
        out=tmp_path / "small",
        shard_rows=30,
    )
    lines = "".join((tmp_path / "small" / f"00000{k}.jsonl").read_text() for k in range(4)).splitlines()
    assert [json.loads(line)["line"] for line in lines] == list(range(2, summary.num_rows + 2))


def test_a_killed_run_resumes_with_the_same_bytes(tiny_folder, table, tmp_path):
    model, out = write_finetuned_folder(tmp_path / "m", tiny_folder, SENTIMENT), tmp_path / "out"
    options = {"models": [model], "columns": {"text": "review"}, "shard_rows": 1}
    predict_files("classification", table, out=tmp_path / "whole", **options)
    words = ["columns.text=review", "--shard-rows", "1", "--workers", "2", "--out", out]
    process = subprocess.Popen(
        [*build_command("albert.cli.main"), "predict", "classification", table, "-m", model, *words],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while len(list(out.glob("*.jsonl"))) < 3 and process.poll() is None:
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (out / MANIFEST_NAME).exists()
    finished = {path: path.stat().st_mtime_ns for path in out.glob("*.jsonl")}
    assert predict_files("classification", table, out=out, **options).num_kept == len(finished) < 96
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert read_tree(out) == read_tree(tmp_path / "whole")
    assert predict_files("classification", table, out=out, **options).num_kept == 96


def test_results_of_anything_else_are_kept(tiny_folder, tiny_copy, table, tmp_path):
    options = {"model": tiny_folder, "columns": {"text": "review"}, "out": tmp_path / "out"}
    embed_files(table, **options)
    before = read_tree(tmp_path / "out")
    with rejects(InputError, tmp_path / "out", "pooling"):
        embed_files(table, **options, pooling="cls")
    (tiny_copy / "README.md").write_text("another")
    with rejects(InputError, tmp_path / "out", "model"):
        embed_files(table, **{**options, "model": tiny_copy})
    with rejects(InputError, tmp_path):
        embed_files(table, **{**options, "out": tmp_path})
    table.write_text(table.read_text() + "k,the end\n")
    with rejects(InputError, tmp_path / "out", "input"):
        embed_files(table, **options)
    assert read_tree(tmp_path / "out") == before


def test_tables_of_a_folder_with_ids_and_long_texts(tiny_folder, tmp_path, cache):
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    pq.write_table(pa.table({"id": [7, 8], "text": ["the sea", "the dog"]}), folder / "a.parquet")
    (folder / "deep" / "b.jsonl").write_text('{"id": "x", "text": "the sea"}\nbroken\n')
    (folder / "c.tsv").write_text("id\ttext\ny\t" + "the sea " * 40 + "\n")
    (folder / "notes.md").write_text("not a table")
    options = {"model": tiny_folder, "columns": {"id": "id"}}
    summary = embed_files(folder, out=tmp_path / "out", **options)
    assert (summary.num_rows, summary.num_skipped, len(summary.problems)) == (4, 1, 2)
    names, vectors = read_vectors(tmp_path / "out")
    files = ["a.parquet", "a.parquet", "c.tsv", "deep/b.jsonl"]
    assert names == {"file": files, "id": ["7", "8", "y", "x"]}
    assert vectors.shape == (4, 32)
    for column, out in (("id", folder / "out"), ("mood", tmp_path / "new")):
        with rejects((InputError, FileFormatError), out if column == "id" else column):
            embed_files(folder, out=out, model=tiny_folder, columns={"id": column})


def test_urls(tiny_folder, table, memory, tmp_path):
    with fsspec.open(f"{memory}/in/texts.csv", "wb") as file:
        file.write(table.read_bytes())
    options = {"model": tiny_folder, "columns": {"text": "review"}, "shard_rows": 50}
    embed_files(table, out=tmp_path / "out", **options)
    embed_files(f"{memory}/in/texts.csv", out=f"{memory}/out", **options)
    assert stores.read_store(f"{memory}/out") == read_tree(tmp_path / "out")
    assert embed_files(f"{memory}/in/texts.csv", out=f"{memory}/out", **options).num_kept == 2
    assert embed_files(f"{memory}/in", out=f"{memory}/tables", **options).num_rows == 96


READ_WEIGHTS = """
import sys, albert
model = albert.load("nano", is_shared=True).model
print(sum(float(p.detach().sum()) for p in model.parameters()) > 0, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux")
def test_processes_share_one_copy_of_the_weights(cache):
    """Of float32, although the folder has half precision."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    workers = [subprocess.Popen([sys.executable, "-c", READ_WEIGHTS], **pipes) for _ in range(2)]
    for worker in workers:
        worker.stdout.readline()
    (file,) = (cache / "weights").glob("*.safetensors")
    assert file.stat().st_size > 4 * 2_000_000
    for worker in workers:
        areas = Path(f"/proc/{worker.pid}/smaps").read_text().split("VmFlags")
        (area,) = [each for each in areas if str(file) in each]
        sizes = dict(line.split()[:2] for line in area.splitlines() if line.endswith("kB"))
        assert int(sizes["Rss:"]) * 1024 > 0.9 * file.stat().st_size
        assert int(sizes["Pss:"]) <= 0.51 * int(sizes["Rss:"])
    for worker in workers:
        worker.communicate()


@pytest.mark.parametrize(
    "words",
    [
        ["embed", "-m", "nano", "the dog", "--workers", 2],
        ["embed", "-m", "nano", "--input", "x.csv"],
        ["embed", "-m", "nano", "--input", "missing.csv", "--out", "out"],
        ["embed", "-m", "nano", "--input", "x.csv", "--out", "x.csv"],
        ["embed", "-m", "nano", "--input", "x.csv", "--out", "out", "columns.txt=review"],
        ["predict", "classification", "-m", "nano", "x.csv", "--workers", 2],
        ["predict", "classification", "-m", "nano", "x.csv", "--shard-rows", 2],
    ],
)
def test_mistakes_are_one_line(words, tmp_path, monkeypatch, run_albert):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("text\nthe dog\n")
    assert run_albert(*words).error
    assert os.listdir() == ["x.csv"]
