"""`albert convert`: what goes in comes out as a folder, whole; what cannot go in leaves no trace."""

import json
import resource
import shutil
import subprocess
import sys
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
    done = run_albert("convert", tiny_copy, tmp_path / "copy")
    assert (done.code, done.err) == (0, "")
    assert "without a vocabulary" in done.out
    assert sorted(read_tree(tmp_path / "copy")) == ["README.md", "config.json", "model.safetensors"]


def test_half_precision_is_half_the_size_and_nearly_the_same_model(run_albert, tiny_folder, tmp_path):
    assert run_albert("convert", tiny_folder, tmp_path / "half", "--half").code == 0
    full, half = (
        load_file(tiny_folder / "model.safetensors"),
        load_file(tmp_path / "half" / "model.safetensors"),
    )
    assert {tensor.dtype for tensor in half.values()} == {torch.float16}
    assert sum(t.nbytes for t in half.values()) * 2 == sum(t.nbytes for t in full.values())
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (tmp_path / "half", tiny_folder)]
    assert sizes[0] < 0.6 * sizes[1]
    vectors = albert.load(tmp_path / "half").embed(TEXTS)
    np.testing.assert_allclose(vectors, albert.load(tiny_folder).embed(TEXTS), atol=0.02)


def test_a_weight_that_half_precision_cannot_hold_is_refused(run_albert, tiny_copy, tmp_path):
    weights = load_file(tiny_copy / "model.safetensors")
    name = "albert.embeddings.word_embeddings.weight"
    weights[name][0, 0] = 7e4
    save_file(weights, tiny_copy / "model.safetensors", metadata={"format": "pt"})
    done = run_albert("convert", tiny_copy, tmp_path / "half", "--half")
    assert "70000 exceeds the largest torch.float16, 65504" in done.error
    assert not (tmp_path / "half").exists()


def test_the_card_of_the_source_comes_along(run_albert, tiny_copy, tmp_path):
    (tiny_copy / "README.md").write_text("trained on sea stories", encoding="utf-8")
    assert run_albert("convert", tiny_copy, tmp_path / "copy").code == 0
    assert (tmp_path / "copy" / "README.md").read_text(encoding="utf-8") == "trained on sea stories"


def test_an_existing_target_is_left_alone(run_albert, tiny_folder, tiny_copy):
    (tiny_copy / "mine.txt").write_text("mine")
    before = read_tree(tiny_copy)
    error = run_albert("convert", tiny_folder, tiny_copy).error
    assert error == f"{tiny_copy} exists; choose another folder, or add --overwrite"
    assert read_tree(tiny_copy) == before


def test_overwrite_replaces_a_model_folder(run_albert, tiny_folder, tiny_copy):
    (tiny_copy / "model.safetensors").write_bytes(b"damaged")
    (tiny_copy / "special_tokens_map.json").write_text("of the model before")
    assert run_albert("convert", tiny_folder, tiny_copy, "--overwrite").code == 0
    assert read_tree(tiny_copy) == read_tree(tiny_folder)


def test_overwrite_does_not_remove_what_is_no_models(run_albert, tiny_folder, tiny_copy):
    (tiny_copy / "notes.md").write_text("mine")
    before = read_tree(tiny_copy)
    assert "holds notes.md" in run_albert("convert", tiny_folder, tiny_copy, "--overwrite").error
    assert read_tree(tiny_copy) == before


def test_overwrite_can_rewrite_a_folder_from_itself(run_albert, tiny_folder, tiny_copy):
    assert run_albert("convert", tiny_copy, tiny_copy, "--overwrite").code == 0
    assert read_tree(tiny_copy.parent) == {"model": None} | {
        f"model/{k}": v for k, v in read_tree(tiny_folder).items()
    }


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_overwrite_replaces_nothing_but_model_folders(kind, run_albert, tiny_folder, tmp_path):
    target = tmp_path / "thesis"
    if kind == "folder":
        target.mkdir()
        (target / "chapter.txt").write_text("years of work")
    else:
        target.write_text("years of work")
    before = read_tree(tmp_path)
    error = run_albert("convert", tiny_folder, target, "--overwrite").error
    assert error == f"{target} is no model folder; --overwrite replaces only those, so choose another"
    assert read_tree(tmp_path) == before


def test_an_empty_folder_may_be_the_target(run_albert, tiny_folder, tmp_path):
    (tmp_path / "empty").mkdir()
    assert run_albert("convert", tiny_folder, tmp_path / "empty").code == 0
    assert read_tree(tmp_path / "empty") == read_tree(tiny_folder)


def test_the_folder_where_one_stands_is_filled_and_never_replaced(
    run_albert, tiny_folder, tmp_path, monkeypatch
):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert run_albert("convert", tiny_folder, ".").code == 0
    assert read_tree(Path.cwd()) == read_tree(tiny_folder)
    done = run_albert("convert", tiny_folder, ".", "--overwrite")
    assert "the current directory is in this folder" in done.error
    assert read_tree(Path.cwd()) == read_tree(tiny_folder)


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


def test_a_disk_that_fills_up_leaves_everything_as_it_was(tiny_folder, tiny_copy, tmp_path):
    (tiny_copy / "README.md").write_text("mine")
    before = read_tree(tmp_path)
    size = (tiny_folder / "model.safetensors").stat().st_size // 2

    def limit_files() -> None:  # no file may grow beyond half of the weights
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    words = [sys.executable, "-m", "albert", "convert", str(tiny_folder), str(tiny_copy), "--overwrite"]
    done = subprocess.run(words, preexec_fn=limit_files, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    said = "cannot be written (File too large); free disk space, or choose another path"
    assert done.stderr == f"error: {tiny_copy}: {said}\n"
    assert read_tree(tmp_path) == before
