"""Many small damages to a folder: none ends in anything but a model or a refusal in one line."""

import json
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from albert.errors import AlbertError
from albert.pretrained.folder import load_model

JUNK: tuple[Any, ...] = (
    None, -1, 0, 1, 2.5, 1e30, 10**30, 10**9, True, "x", "", [], [1], {}, {"a": "b"}, {"0": 1}, float("inf"),
)  # fmt: skip


def is_refused(folder: Path) -> bool:
    """Whether loading ends in a refusal of one line; any other error is the test's."""
    message = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load_model(folder)
    except AlbertError as error:
        message = str(error)
    assert "\n" not in message
    return message != ""


@pytest.mark.parametrize("layout", ["albert", "bert"])
def test_no_value_in_a_config_is_a_crash(layout, tiny_folder, tiny_copy):
    config = json.loads((tiny_folder / "config.json").read_text()) | {"model_type": layout}
    more = ("id2label", "albert_encoder", "classifier_dropout", "position_embedding_type", "is_decoder")
    num_refused = 0
    for key in (*config, *more):
        for value in JUNK:
            (tiny_copy / "config.json").write_text(json.dumps(config | {key: value}))
            num_refused += is_refused(tiny_copy)
    assert num_refused > 100


def test_no_lost_or_bent_tensor_goes_unnoticed(tiny_folder, tiny_copy):
    tensors = load_file(tiny_folder / "model.safetensors")
    bends = (lambda t: t[None], lambda t: t.flatten()[0])
    for name, tensor in tensors.items():
        save_file({k: v for k, v in tensors.items() if k != name}, tiny_copy / "model.safetensors")
        assert is_refused(tiny_copy), name
        for bend in bends:
            save_file(tensors | {name: bend(tensor).clone()}, tiny_copy / "model.safetensors")
            assert is_refused(tiny_copy), name


@pytest.mark.parametrize("kind", ["safetensors", "pickle", "old pickle"])
def test_no_place_to_cut_a_weights_file_is_a_crash(kind, tiny_copy):
    path = tiny_copy / "model.safetensors"
    if kind != "safetensors":
        tensors = load_file(path)
        path.unlink()
        path = tiny_copy / "pytorch_model.bin"
        torch.save(tensors, path, _use_new_zipfile_serialization=kind == "pickle")
    assert not is_refused(tiny_copy)
    content = path.read_bytes()
    draw = random.Random(1)
    for size in [*range(12), *(draw.randrange(len(content)) for _ in range(30)), len(content) - 1]:
        path.write_bytes(content[:size])
        assert is_refused(tiny_copy), f"cut to {size} of {len(content)}"


def test_no_noise_in_a_pickle_is_a_crash(tiny_copy):
    (tiny_copy / "model.safetensors").unlink()
    path = tiny_copy / "pytorch_model.bin"
    draw = random.Random(2)
    for start in (b"", b"\x80\x02", b"\x80\x04", b"PK\x03\x04"):
        for _ in range(40):
            path.write_bytes(start + draw.randbytes(200))
            assert is_refused(tiny_copy)
