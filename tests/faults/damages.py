"""Ways to damage a model folder, and the check that it is rejected and nothing is written."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.conftest import RunAlbert, read_tree

Damage = Callable[[Path], Any]


def damages(*cases: tuple[Any, ...]) -> pytest.MarkDecorator:
    """Parametrize a test by (damage, value, …): the values must be in the error."""
    found = [(damage, values) for damage, *values in cases]
    return pytest.mark.parametrize(("damage", "values"), found, ids=[", ".join(each[1]) for each in found])


def change_config(**changes: Any) -> Damage:
    def damage(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return damage


def drop_from_config(key: str) -> Damage:
    def damage(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != key}))

    return damage


def write(name: str, content: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(content)


def remove(*names: str) -> Damage:
    def damage(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return damage


def truncate(name: str, share: float) -> Damage:
    """Keep this share of a file; 1 keeps all but the last byte."""

    def damage(folder: Path) -> None:
        size = (folder / name).stat().st_size
        os.truncate(folder / name, min(int(share * size), size - 1))

    return damage


def change_tensors(change: Callable[[dict[str, torch.Tensor]], Any]) -> Damage:
    def damage(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return damage


NOISE = random.Random(0).randbytes(5000)


def check_rejected(damage: Damage, values: list[str], run_albert: RunAlbert, folder: Path) -> None:
    """Check that two commands reject the folder with these values and write nothing."""
    damage(folder)
    before = read_tree(folder.parent)
    embedding = ("embed", "--model", folder, "a dog", "--out", folder.parent / "vectors.npy")
    for words in (("convert", folder, folder.parent / "out"), embedding):
        error = run_albert(*words).error
        assert not [value for value in values if value not in error], error
        assert "Traceback" not in error
    assert read_tree(folder.parent) == before
