"""`albert fill-mask`, `sentence-order` and `embed`."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import albert

MASKED = ["the [MASK] left.", "a [MASK] and a [MASK]"]
TEXTS = ["the ship left the town", "two children", "it was cold, and they went to the house by the river"]


@pytest.fixture
def type_lines(monkeypatch):
    def put(*lines: str) -> None:
        monkeypatch.setattr(
            sys, "stdin", io.TextIOWrapper(io.BytesIO("".join(f"{line}\n" for line in lines).encode()))
        )

    return put


def read(done):
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_fill_mask_gives_the_answers_of_python(run_albert, tiny_folder):
    rows = read(run_albert("fill-mask", "--model", tiny_folder, *MASKED, "--top", "3", "--json"))
    assert [row["text"] for row in rows] == MASKED
    assert [len(row["masks"]) for row in rows] == [1, 2]
    answers = albert.load(tiny_folder).fill_mask(MASKED, top=3)
    for row, masks in zip(rows, answers, strict=True):
        for guesses, expected in zip(row["masks"], masks, strict=True):
            assert [(guess["text"], guess["id"]) for guess in guesses] == [(g.text, g.id) for g in expected]
            assert [g["probability"] for g in guesses] == pytest.approx([g.probability for g in expected])


def test_fill_mask_prints_candidates(run_albert, tiny_folder):
    done = run_albert("fill-mask", "--model", tiny_folder, *MASKED, "--top", "2")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert [lines[0], lines[2]] == MASKED
    assert lines[1].count("%") == 2


def test_sentence_order_takes_pairs(run_albert, tiny_folder):
    rows = read(run_albert("sentence-order", "-m", tiny_folder, "one", "two", "two", "one", "--json"))
    assert [(row["first"], row["second"]) for row in rows] == [("one", "two"), ("two", "one")]
    answers = albert.load(tiny_folder).sentence_order([("one", "two"), ("two", "one")])
    assert [row["in_order"] for row in rows] == pytest.approx([answer.in_order for answer in answers])


def test_embed_prints_vectors(run_albert, tiny_folder):
    data = read(run_albert("embed", "--model", tiny_folder, *TEXTS, "--json"))
    assert (data["count"], data["width"]) == (3, 32)
    assert [row["text"] for row in data["vectors"]] == TEXTS
    vectors = np.array([row["vector"] for row in data["vectors"]])
    np.testing.assert_allclose(vectors, albert.load(tiny_folder).embed(TEXTS), atol=1e-6)


def test_embed_writes_a_file_of_vectors(run_albert, tiny_folder, tmp_path):
    file = tmp_path / "new" / "vectors.npy"
    words = ["--pooling", "cls", "--normalize", "--depth", "2"]
    data = read(run_albert("embed", "--model", tiny_folder, *TEXTS, *words, "--out", file, "--json"))
    assert data == {"count": 3, "width": 32, "file": str(file)}
    expected = albert.load(tiny_folder).embed(TEXTS, pooling="cls", is_normalized=True, depth=2)
    np.testing.assert_allclose(np.load(file), expected, atol=1e-6)
    assert [path.name for path in file.parent.iterdir()] == ["vectors.npy"]


def test_embed_replaces_a_file_with_force_alone(run_albert, tiny_folder, tmp_path):
    file = tmp_path / "thesis.txt"
    file.write_text("years of work")
    words = ["embed", "--model", tiny_folder, *TEXTS, "--out", file]
    assert "--force" in run_albert(*words).error
    assert file.read_text() == "years of work"
    assert run_albert(*words, "--force").code == 0
    assert np.load(file).shape == (3, 32)


def test_a_dash_reads_a_text_from_each_line(run_albert, tiny_folder, type_lines):
    type_lines(*TEXTS)
    rows = read(run_albert("embed", "--model", tiny_folder, "-", "--json"))["vectors"]
    assert [row["text"] for row in rows] == TEXTS
    type_lines("one", "two")
    assert len(read(run_albert("sentence-order", "--model", tiny_folder, "-", "--json"))) == 1


def test_what_stdout_cannot_hold_is_escaped(tiny_folder):
    text = "\udce9 [MASK] \u2581"
    command = [sys.executable, "-m", "albert", "fill-mask", "--model", str(tiny_folder), text]
    env = {**os.environ, "PYTHONIOENCODING": "latin-1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, env=env)
    assert done.returncode == 0, done.stderr
    assert rb"\udce9" in done.stdout
    assert rb"\u2581" in done.stdout


def test_texts_are_shown_as_they_are_and_not_as_markup(run_albert, tiny_folder):
    done = run_albert("embed", "--model", tiny_folder, "a [bold]dog[/bold] [/oops]")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("(32 values): a [bold]dog[/bold] [/oops]\n")
