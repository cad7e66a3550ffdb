"""Questions that a sound model cannot answer: refused in one line with the value, the limit and the hint."""

import os
import sys

import pytest
import torch

import albert
from albert.errors import InputError
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.model.runtime import _has_bf16
from albert.pretrained.folder import load_model, save_model
from albert.text.folder import load_tokenizer
from tests.conftest import read_tree
from tests.faults.damages import change_tensors

ASKED = [
    (["params", "albert-bsae"], "unknown preset 'albert-bsae'; did you mean albert-base?"),
    (
        ["embed", "--model", "MODEL", "sea " * 39],
        "text 1 has 41 tokens with [CLS] and [SEP]",
    ),
    (["fill-mask", "--model", "MODEL", "[MASK] " + "sea " * 60], "text 1 has 63 tokens"),
    (["embed", "--model", "MODEL"], "Missing argument 'TEXT"),
    (["embed", "--model", "MODEL", "-"], "no text on standard input; give at least one line"),
    (
        ["fill-mask", "--model", "MODEL", "a [MASK]", "a dog"],
        "text 2 has no [MASK]",
    ),
    (
        ["fill-mask", "--model", "MODEL", "a [MASK]", "--top", "0"],
        "top is 0",
    ),
    (["sentence-order", "--model", "MODEL", "a", "b", "c"], "3 texts do not make pairs; give an even number"),
    (
        ["embed", "--model", "MODEL", "a", "--pooling", "max"],
        "pooling is 'max'; choose from mean, cls, pooler",
    ),
    (["embed", "--model", "MODEL", "a", "--depth", "0"], "depth is 0"),
    (
        ["embed", "--model", "MODEL", "a", "--device", "tpu"],
        "unknown device 'tpu'; use auto, cpu, cuda, cuda:N or mps",
    ),
    (
        ["embed", "--model", "MODEL", "a", "--revision", "v2"],
        "has no revision 'v2'",
    ),
    (
        ["embed", "--model", "./absent", "a"],
        "'./absent' does not exist; check the path, or give a name on the hub",
    ),
    (["convert", "./absent", "out"], "'./absent' does not exist; check the path, or give a name on the hub"),
    (["embed", "--model", "", "a"], "the model's name is empty; give a folder or a name"),
    (
        ["embed", "--model", "a b/c", "a"],
        "'a b/c' is neither a local path nor a hub name",
    ),
]


@pytest.mark.parametrize(("words", "said"), ASKED, ids=[" ".join(words)[:60] for words, _ in ASKED])
def test_what_cannot_be_answered_is_refused(words, said, run_albert, tiny_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115
    error = run_albert(*(str(tiny_folder) if word == "MODEL" else word for word in words)).error
    assert said in error
    assert read_tree(tmp_path) == {}


def test_a_head_that_the_model_lacks_is_refused(run_albert, tiny_folder, tmp_path):
    save_model(
        tmp_path / "model", load_model(tiny_folder, heads={}).model, tokenizer=load_tokenizer(tiny_folder)
    )
    for words, head in [(["fill-mask", "[MASK]"], "mlm"), (["sentence-order", "a", "b"], "sop")]:
        error = run_albert(*words, "--model", tmp_path / "model").error
        assert error == f"this model has no {head} head; it has none: load a model that was trained with one"


def test_a_pooler_that_the_model_lacks_is_refused(run_albert, tiny_copy):
    change_tensors(lambda t: [t.pop(n) for n in list(t) if "pooler" in n or n.startswith("sop")])(tiny_copy)
    error = run_albert("embed", "--model", tiny_copy, "a", "--pooling", "pooler").error
    assert error.startswith("this model has no pooler; load it with")
    assert run_albert("embed", "--model", tiny_copy, "a").code == 0


def test_a_model_with_layers_of_its_own_runs_no_deeper_than_it_was_built(run_albert, tiny_folder, tmp_path):
    shape = load_model(tiny_folder).config.model_dump() | {"num_hidden_groups": 3}
    model = build_model(ModelConfig(**shape), heads={})
    save_model(tmp_path / "model", model, tokenizer=load_tokenizer(tiny_folder))
    words = ["embed", "--model", tmp_path / "model", "a", "--depth"]
    assert "depth is 4, but this model has 3 layers" in run_albert(*words, "4").error
    assert run_albert(*words, "2").code == 0
    assert run_albert("embed", "--model", tiny_folder, "a", "--depth", "4").code == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_gpu_that_is_not_there_is_refused(device, run_albert, tiny_folder):
    error = run_albert("embed", "--model", tiny_folder, "a", "--device", device).error
    assert error.startswith(
        f"device '{device}' is not available: torch {torch.__version__} sees 0 CUDA devices"
    )
    assert error.endswith("use device=cpu, or install a CUDA build of torch")


@pytest.mark.skipif(_has_bf16(torch.device("cpu")), reason="this CPU has bf16 arithmetic")
def test_bf16_is_refused_where_the_hardware_lacks_it(tiny_folder):
    with pytest.raises(InputError, match=r"precision bf16 on cpu: .*; use precision=float32"):
        albert.load(tiny_folder, device="cpu", precision="bf16")


@pytest.mark.skipif(not _has_bf16(torch.device("cpu")), reason="this CPU has no bf16 arithmetic")
def test_bf16_is_nearly_float32_where_the_hardware_has_it(tiny_folder):
    full = albert.load(tiny_folder, device="cpu").embed(["the old ship"])
    half = albert.load(tiny_folder, device="cpu", precision="bf16").embed(["the old ship"])
    assert 0 < abs(full - half).max() < 0.1 * abs(full).max()


def test_brackets_in_a_file_name_are_no_markup(run_albert, tiny_folder, tmp_path):
    for name in ("v[a].npy", "v[bold].npy"):
        done = run_albert("embed", "--model", tiny_folder, "a", "--out", tmp_path / name)
        assert f"{name}: 1 vectors" in done.out.replace("\n", "")
