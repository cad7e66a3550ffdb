"""`albert convert`: the folder has the same model, and a failed conversion leaves no trace."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

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


def test_overwrite_replaces_a_model_folder(run_albert, tiny_folder, tiny_copy):
    (tiny_copy / "model.safetensors").write_bytes(b"damaged")
    assert run_albert("convert", tiny_folder, tiny_copy, "--overwrite").code == 0
    assert read_tree(tiny_copy) == read_tree(tiny_folder)


def test_only_model_folders_are_replaced_and_only_on_request(run_albert, tiny_folder, tiny_copy, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    (tmp_path / "thesis.txt").write_text("years of work")
    (tiny_copy / "notes.md").write_text("mine")
    before = read_tree(tmp_path)
    for target in (tmp_path / "thesis", tmp_path / "thesis.txt", tiny_copy):
        assert "--overwrite" in run_albert("convert", tiny_folder, target).error
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
