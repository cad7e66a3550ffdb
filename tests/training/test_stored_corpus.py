"""A corpus in a store trains and is asked about like the same one on the disk."""

import json

import fsspec
import pytest

from albert.training.pretrain import pretrain


@pytest.fixture
def stored(story_corpus, tmp_path, monkeypatch):
    """The corpus under a URL that only this process can open; its loaders take the copy."""
    monkeypatch.setenv("ALBERT_CACHE", str(tmp_path / "cache"))
    system = fsspec.filesystem("memory")
    root = f"/{tmp_path.name}"
    for file in story_corpus.rglob("*"):
        if file.is_file():
            system.put_file(str(file), f"{root}/{file.relative_to(story_corpus).as_posix()}")
    yield f"memory://{tmp_path.name}"
    system.rm(root, recursive=True)


def test_training_and_evaluating_from_a_store(run_albert, recipe, story_corpus, stored, tmp_path):
    for out, data, workers in (("here", story_corpus, 0), ("there", stored, 1)):
        overrides = ["num_steps=4", f"num_workers={workers}", f"held_out.data={data}"]
        pretrain(recipe, data=data, out=tmp_path / out, overrides=overrides)
    models = [(tmp_path / out / "model" / "model.safetensors").read_bytes() for out in ("here", "there")]
    assert models[0] == models[1]
    assert json.loads((tmp_path / "there" / "run.json").read_text())["data"] == stored

    words = ("evaluate", "pretraining", "--model", tmp_path / "here", "--examples", 4, "--json", "--data")
    scores = [json.loads(run_albert(*words, data).out)["scores"] for data in (story_corpus, stored)]
    assert scores[0] == scores[1]
