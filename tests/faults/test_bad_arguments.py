"""Arguments that a model cannot process are rejected with the value and the limit."""

import os
import sys

import pytest
import torch

import albert
from albert.errors import InputError
from albert.model.runtime import _has_bf16
from tests.conftest import read_tree, rejects

REJECTED: list[tuple[list[str], tuple[str, ...]]] = [
    (["fill-mask", "--model", "MODEL", "[MASK] " + "sea " * 60], ("text 1", "63 tokens")),
    (["embed", "--model", "MODEL"], ("TEXT",)),
    (["embed", "--model", "MODEL", "-"], ("standard input",)),
    (["fill-mask", "--model", "MODEL", "a [MASK]", "--top", "0"], ("top is 0",)),
    (["embed", "--model", "MODEL", "a", "--pooling", "max"], ("pooling is 'max'", "mean, cls, pooler")),
    (["embed", "--model", "MODEL", "a", "--depth", "0"], ("depth is 0",)),
    (["embed", "--model", "MODEL", "a", "--device", "tpu"], ("'tpu'", "cuda:N")),
    (["embed", "--model", "MODEL", "a", "--revision", "v2"], ("'v2'",)),
    (["embed", "--model", "./absent", "a"], ("'./absent'",)),
    (["convert", "./absent", "out"], ("'./absent'",)),
    (["embed", "--model", "a b/c", "a"], ("'a b/c'",)),
]


@pytest.mark.parametrize(("words", "values"), REJECTED, ids=[" ".join(words)[:60] for words, _ in REJECTED])
def test_wrong_arguments_are_rejected(words, values, run_albert, tiny_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115
    error = run_albert(*(str(tiny_folder) if word == "MODEL" else word for word in words)).error
    assert not [value for value in values if value not in error], error
    assert read_tree(tmp_path) == {}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_missing_gpu_is_named(device, run_albert, tiny_folder):
    error = run_albert("embed", "--model", tiny_folder, "a", "--device", device).error
    values = (f"'{device}'", torch.__version__, "0 CUDA devices", "device=cpu")
    assert not [value for value in values if value not in error], error


@pytest.mark.skipif(_has_bf16(torch.device("cpu")), reason="this CPU has bf16 arithmetic")
def test_bf16_is_rejected_where_the_hardware_lacks_it(tiny_folder):
    with rejects(InputError, "bf16", "cpu", "precision=float32"):
        albert.load(tiny_folder, device="cpu", precision="bf16")


@pytest.mark.skipif(not _has_bf16(torch.device("cpu")), reason="this CPU has no bf16 arithmetic")
def test_bf16_is_nearly_float32_where_the_hardware_has_it(tiny_folder):
    full = albert.load(tiny_folder, device="cpu").embed(["the old ship"])
    half = albert.load(tiny_folder, device="cpu", precision="bf16").embed(["the old ship"])
    assert 0 < abs(full - half).max() < 0.1 * abs(full).max()
