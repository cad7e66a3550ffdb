"""Weights that are damaged, or of another model: refused in one line that names the file and the hint."""

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
from tests.faults.damages import NOISE, Damage, Fault, change_tensors, check_refused, remove, truncate, write


def pickle_weights(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def in_pickled_weights(damage: Damage) -> Damage:
    def change(folder: Path) -> None:
        pickle_weights(folder)
        damage(folder)

    return change


def take_weights_of_another_shape(folder: Path) -> None:
    config = load_model(folder).config.model_copy(update={"hidden_size": 48})
    save_model(folder / "other", build_model(config, heads={"mlm": None}))
    shutil.copy(folder / "other" / "model.safetensors", folder)
    shutil.rmtree(folder / "other")


BIAS = "albert.embeddings.LayerNorm.bias"
WEIGHTS = [
    Fault(
        "safetensors, cut in the middle",
        truncate("model.safetensors", 0.5),
        ("model.safetensors", "truncated", "download or save it again"),
    ),
    Fault(
        "safetensors, last byte lost",
        truncate("model.safetensors", 1),
        ("model.safetensors", "truncated", "download or save it again"),
    ),
    Fault(
        "safetensors, cut in the header",
        truncate("model.safetensors", 0.01),
        ("model.safetensors", "truncated", "download or save it again"),
    ),
    Fault(
        "safetensors, empty",
        truncate("model.safetensors", 0),
        ("model.safetensors", "truncated", "download or save it again"),
    ),
    Fault(
        "safetensors of noise",
        write("model.safetensors", NOISE),
        ("model.safetensors", "not a safetensors file", "download or save it again"),
    ),
    Fault(
        "safetensors that is a web page",
        write("model.safetensors", b"<!DOCTYPE html><html>Not found</html>" * 50),
        ("model.safetensors", "not a safetensors file", "download or save it again"),
    ),
    Fault(
        "pickle, cut in the middle",
        in_pickled_weights(truncate("pytorch_model.bin", 0.5)),
        ("pytorch_model.bin", "truncated", "download it again"),
    ),
    Fault(
        "pickle, empty",
        in_pickled_weights(truncate("pytorch_model.bin", 0)),
        ("pytorch_model.bin", "truncated", "download it again"),
    ),
    Fault(
        "pickle of noise",
        in_pickled_weights(write("pytorch_model.bin", NOISE)),
        ("pytorch_model.bin", "download it again, or save it as safetensors"),
    ),
    Fault(
        "pickle that is no table of tensors",
        in_pickled_weights(lambda f: torch.save([1, 2], f / "pytorch_model.bin")),
        ("pytorch_model.bin", "save the model's state_dict"),
    ),
    Fault(
        "weights of another architecture",
        lambda f: save_file({"wte.weight": torch.ones(3)}, f / "model.safetensors"),
        ("wte.weight", "unknown tensors"),
    ),
    Fault(
        "weights of another width",
        take_weights_of_another_shape,
        ("[48, 16], but config.json needs [32, 16]", "download both again"),
    ),
    Fault(
        "a tensor lost",
        change_tensors(lambda t: t.pop("albert.embeddings.LayerNorm.bias")),
        ("lacks encoder.embeddings.norm.bias", "download both again"),
    ),
    Fault(
        "a tensor too many",
        change_tensors(lambda t: t.update({"albert.surprise": torch.ones(2)})),
        ("unknown tensors albert.surprise", "both files of one model"),
    ),
    Fault(
        "a number that is none",
        change_tensors(lambda t: t[BIAS].fill_(torch.nan)),
        (f"{BIAS} has a NaN", "download the file again"),
    ),
    Fault(
        "an infinite number in half precision",
        change_tensors(lambda t: t.update({BIAS: t[BIAS].half() - torch.inf})),
        (f"{BIAS} has a NaN or a number beyond 3.4e+38",),
    ),
    Fault(
        "whole numbers",
        change_tensors(lambda t: t.update({BIAS: t[BIAS].to(torch.int8)})),
        (f"{BIAS} has dtype torch.int8", "torch.float32"),
    ),
    Fault(
        "no weights at all",
        remove("model.safetensors"),
        ("no model.safetensors or pytorch_model.bin", "give a model folder"),
    ),
]


@pytest.mark.parametrize("fault", WEIGHTS, ids=lambda fault: fault.name)
def test_damaged_weights_are_refused_and_nothing_is_written(fault, run_albert, tiny_copy):
    check_refused(fault, run_albert, tiny_copy)


class MakesFolder:
    """Unpickling one makes a folder: harmless, and visible."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("is_plain", [True, False], ids=["a plain pickle", "as torch writes it"])
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
    assert trace.is_dir()  # the code works, for who runs it
    trace.rmdir()
    error = run_albert("convert", tiny_copy, tmp_path / "out").error
    assert "pytorch_model.bin: truncated, or has more than weights (UnpicklingError)" in error
    assert not trace.exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_weights_that_may_not_be_read_are_not_called_damaged(name, run_albert, tiny_copy, monkeypatch):
    if name != "model.safetensors":
        pickle_weights(tiny_copy)
    opened = Path.open

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == name:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    said = run_albert("convert", tiny_copy, tiny_copy.parent / "out").error
    assert said == f"{tiny_copy / name}: cannot be read (Permission denied); check the path"
