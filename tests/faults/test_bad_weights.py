"""Weights that are damaged, or of another model, are rejected with the file and the tensor."""

import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from albert.model.albert_model import build_model
from albert.pretrained.folder import load_model, save_model
from tests.faults.damages import (
    NOISE,
    Damage,
    change_tensors,
    check_rejected,
    damages,
    remove,
    truncate,
    write,
)


def pickle_weights(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def in_pickled_weights(damage: Damage) -> Damage:
    def change(folder: Path) -> None:
        pickle_weights(folder)
        damage(folder)

    return change


def copy_weights_of_another_shape(folder: Path) -> None:
    config = load_model(folder).config.model_copy(update={"hidden_size": 48})
    save_model(folder / "other", build_model(config, heads={"mlm": None}))
    shutil.copy(folder / "other" / "model.safetensors", folder)
    shutil.rmtree(folder / "other")


BIAS = "albert.embeddings.LayerNorm.bias"


@damages(
    *(
        (truncate("model.safetensors", share), "model.safetensors", "truncated")
        for share in (0.5, 1, 0.01, 0)
    ),
    (write("model.safetensors", NOISE), "model.safetensors"),
    (write("model.safetensors", b"<!DOCTYPE html><html>Not found</html>" * 50), "model.safetensors"),
    *(
        (in_pickled_weights(truncate("pytorch_model.bin", share)), "pytorch_model.bin", "truncated")
        for share in (0.5, 0)
    ),
    (in_pickled_weights(write("pytorch_model.bin", NOISE)), "pytorch_model.bin"),
    (
        in_pickled_weights(lambda f: torch.save([1, 2], f / "pytorch_model.bin")),
        "pytorch_model.bin",
        "state_dict",
    ),
    (lambda f: save_file({"wte.weight": torch.ones(3)}, f / "model.safetensors"), "wte.weight"),
    (copy_weights_of_another_shape, "[48, 16]", "[32, 16]"),
    (change_tensors(lambda t: t.pop(BIAS)), "encoder.embeddings.norm.bias"),
    (change_tensors(lambda t: t.update({"albert.surprise": torch.ones(2)})), "albert.surprise"),
    (change_tensors(lambda t: t[BIAS].fill_(torch.nan)), BIAS, "NaN"),
    (change_tensors(lambda t: t.update({BIAS: t[BIAS].half() - torch.inf})), BIAS, "3.4e+38"),
    (change_tensors(lambda t: t.update({BIAS: t[BIAS].to(torch.int8)})), BIAS, "torch.int8", "torch.float32"),
    (remove("model.safetensors"), "model.safetensors", "pytorch_model.bin"),
)
def test_damaged_weights_are_rejected_and_nothing_is_written(damage, values, run_albert, tiny_copy):
    check_rejected(damage, values, run_albert, tiny_copy)


class MakesFolder:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("is_plain", [True, False], ids=["a plain pickle", "a pickle of torch"])
def test_code_in_a_weights_file_is_not_run(is_plain, run_albert, tiny_copy, tmp_path):
    trace = tmp_path / "trace"
    content = {"albert.pooler.bias": MakesFolder(trace)}
    (tiny_copy / "model.safetensors").unlink()
    path = tiny_copy / "pytorch_model.bin"
    if is_plain:
        path.write_bytes(pickle.dumps(content))
        pickle.loads(path.read_bytes())
    else:
        torch.save(content, path)
        torch.load(path, weights_only=False)
    trace.rmdir()  # the code does run in a reader of pickles
    assert "pytorch_model.bin" in run_albert("convert", tiny_copy, tmp_path / "out").error
    assert not trace.exists()
    assert not (tmp_path / "out").exists()


def test_weights_without_permission_are_not_called_damaged(run_albert, tiny_copy, monkeypatch):
    opened = Path.open

    def deny(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == "model.safetensors":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", deny)
    error = run_albert("convert", tiny_copy, tiny_copy.parent / "out").error
    assert error.startswith(f"{tiny_copy / 'model.safetensors'}: ")
    assert "Permission denied" in error
