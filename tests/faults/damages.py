"""Ways to damage a model's folder, and the check that it is refused in one line and nothing is written."""

import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tests.conftest import RunAlbert, read_tree

Damage = Callable[[Path], Any]


@dataclass(frozen=True)
class Fault:
    """What is wrong with a folder, and the words that must stand in the line that refuses it."""

    name: str
    damage: Damage
    said: tuple[str, ...]


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
    """Keep that share of a file; of 1, all but the last byte."""

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


def check_refused(fault: Fault, run_albert: RunAlbert, folder: Path) -> None:
    """Two commands refuse the folder with the words of the fault, and nothing is written beside it."""
    fault.damage(folder)
    place = folder.parent
    before = read_tree(place)
    embedding = ("embed", "--model", folder, "a dog", "--out", place / "vectors.npy")
    for words in (("convert", folder, place / "out"), embedding):
        error = run_albert(*words).error
        assert [said for said in fault.said if said not in error] == [], error
        assert "Traceback" not in error
    assert read_tree(place) == before
