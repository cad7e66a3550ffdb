"""`albert convert`: the folder has the same model, and a failed conversion leaves no trace."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import albert
from albert.pretrained.folder import load_model
from tests.conftest import read_tree

TEXTS = ["the ship left the town", "two children"]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_model(folder).model.state_dict()


def assert_same_model(one: Path, other: Path) -> None:
    ours, theirs = weights(one), weights(other)
    assert set(ours) == set(theirs)
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


def test_a_folder_comes_out_with_the_same_weights_and_vocabulary(run_albert, tiny_folder, tmp_path):
    target = tmp_path / "deep" / "copy"
    done = run_albert("convert", tiny_folder, target, "--json")
    assert (done.code, done.err) == (0, "")
    data = json.loads(done.out)
    assert data["folder"] == str(target)
    assert data["heads"] == ["mlm", "sop"]
    assert data["has_vocabulary"] is True
    assert data["parameters"] == sum(tensor.numel() for tensor in weights(tiny_folder).values())
    assert data["bytes"] == sum(file.stat().st_size for file in target.iterdir())
    assert_same_model(target, tiny_folder)
    assert read_tree(target) == read_tree(tiny_folder)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_weights_file_is_converted_with_what_lies_beside_it(
    name, run_albert, tiny_folder, tiny_copy, tmp_path
):
    if name.endswith(".bin"):
        (tiny_copy / "model.safetensors").unlink()
        torch.save(load_file(tiny_folder / "model.safetensors"), tiny_copy / name)
    assert run_albert("convert", tiny_copy / name, tmp_path / "copy").code == 0
    assert read_tree(tmp_path / "copy") == read_tree(tiny_folder)


def test_what_a_model_was_finetuned_for_comes_along(run_albert, tiny_copy, tmp_path):
    facts = {"task": "classification", "kind": "texts", "labels": ["no", "yes"], "temperature": 2.5}
    (tiny_copy / "task.json").write_text(json.dumps(facts), encoding="utf-8")
    (tiny_copy / "1_Pooling").mkdir()
    (tiny_copy / "1_Pooling" / "config.json").write_text("{}", encoding="utf-8")
    done = run_albert("convert", tiny_copy, tmp_path / "copy", "--json")
    assert read_tree(tmp_path / "copy") == read_tree(tiny_copy)
    files = [file for file in tiny_copy.rglob("*") if file.is_file()]
    assert json.loads(done.out)["bytes"] == sum(file.stat().st_size for file in files)


def test_a_model_without_a_vocabulary_is_converted_without_one(run_albert, tiny_copy, tmp_path):
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        (tiny_copy / name).unlink()
    assert run_albert("convert", tiny_copy, tmp_path / "copy").code == 0
    assert sorted(read_tree(tmp_path / "copy")) == ["README.md", "config.json", "model.safetensors"]


def test_half_precision_is_half_the_size_and_nearly_the_same_model(run_albert, tiny_folder, tmp_path):
    assert run_albert("convert", tiny_folder, tmp_path / "half", "--half").code == 0
    full, half = (
        load_file(tiny_folder / "model.safetensors"),
        load_file(tmp_path / "half" / "model.safetensors"),
    )
    assert {tensor.dtype for tensor in half.values()} == {torch.float16}
    assert sum(t.nbytes for t in half.values()) * 2 == sum(t.nbytes for t in full.values())
    vectors = albert.load(tmp_path / "half").embed(TEXTS)
    np.testing.assert_allclose(vectors, albert.load(tiny_folder).embed(TEXTS), atol=0.02)


def test_a_weight_that_half_precision_cannot_hold_is_rejected(run_albert, tiny_copy, tmp_path):
    weights = load_file(tiny_copy / "model.safetensors")
    name = "albert.embeddings.word_embeddings.weight"
    weights[name][0, 0] = 7e4
    save_file(weights, tiny_copy / "model.safetensors", metadata={"format": "pt"})
    done = run_albert("convert", tiny_copy, tmp_path / "half", "--half")
    assert "70000" in done.error
    assert "65504" in done.error
    assert not (tmp_path / "half").exists()


def test_an_existing_target_is_left_alone(run_albert, tiny_folder, tiny_copy):
    (tiny_copy / "mine.txt").write_text("mine")
    before = read_tree(tiny_copy)
    error = run_albert("convert", tiny_folder, tiny_copy).error
    assert str(tiny_copy) in error
    assert "--overwrite" in error
    assert read_tree(tiny_copy) == before


def test_overwrite_replaces_a_model_folder(run_albert, tiny_folder, tiny_copy):
    (tiny_copy / "model.safetensors").write_bytes(b"damaged")
    assert run_albert("convert", tiny_folder, tiny_copy, "--overwrite").code == 0
    assert read_tree(tiny_copy) == read_tree(tiny_folder)


def test_overwrite_replaces_nothing_but_model_folders(run_albert, tiny_folder, tiny_copy, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    (tmp_path / "thesis.txt").write_text("years of work")
    (tiny_copy / "notes.md").write_text("mine")
    before = read_tree(tmp_path)
    for target in (tmp_path / "thesis", tmp_path / "thesis.txt", tiny_copy):
        assert str(target) in run_albert("convert", tiny_folder, target, "--overwrite").error
    assert read_tree(tmp_path) == before


@pytest.mark.parametrize("has_target", [False, True])
def test_a_failed_conversion_leaves_everything_as_it_was(
    has_target, run_albert, tiny_copy, tiny_folder, tmp_path
):
    if has_target:
        shutil.copytree(tiny_folder, tmp_path / "copy")
    (tiny_copy / "model.safetensors").write_bytes(b"damaged")
    before = read_tree(tmp_path)
    assert "model.safetensors" in run_albert("convert", tiny_copy, tmp_path / "copy", "--overwrite").error
    assert read_tree(tmp_path) == before
