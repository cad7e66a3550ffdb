"""Bad input, kind after kind: each is refused in one line that names it and the cure, and leaves no trace."""

import json
import os
import pickle
import random
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import albert
from albert.errors import InputError
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.model.runtime import _has_bf16
from albert.pretrained.folder import load_model, save_model
from albert.text.folder import load_tokenizer
from tests.conftest import WORDS, read_tree, write_vocabulary

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


def pickle_weights(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def in_pickled_weights(damage: Damage) -> Damage:
    def change(folder: Path) -> None:
        pickle_weights(folder)
        damage(folder)

    return change


def change_tensors(change: Callable[[dict[str, torch.Tensor]], Any]) -> Damage:
    def damage(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return damage


def take_weights_of_another_shape(folder: Path) -> None:
    config = load_model(folder).config.model_copy(update={"hidden_size": 48})
    save_model(folder / "other", build_model(config, heads={"mlm": None}))
    shutil.copy(folder / "other" / "model.safetensors", folder)
    shutil.rmtree(folder / "other")


NOISE = random.Random(0).randbytes(5000)

WEIGHTS = [
    Fault(
        "safetensors, cut in the middle",
        truncate("model.safetensors", 0.5),
        ("model.safetensors", "truncated", "fetch or save it again"),
    ),
    Fault(
        "safetensors, last byte lost",
        truncate("model.safetensors", 1),
        ("model.safetensors", "truncated", "fetch or save it again"),
    ),
    Fault(
        "safetensors, cut in the header",
        truncate("model.safetensors", 0.01),
        ("model.safetensors", "truncated", "fetch or save it again"),
    ),
    Fault(
        "safetensors, empty",
        truncate("model.safetensors", 0),
        ("model.safetensors", "truncated", "fetch or save it again"),
    ),
    Fault(
        "safetensors of noise",
        write("model.safetensors", NOISE),
        ("model.safetensors", "no safetensors file", "fetch or save it again"),
    ),
    Fault(
        "safetensors that is a web page",
        write("model.safetensors", b"<!DOCTYPE html><html>Not found</html>" * 50),
        ("model.safetensors", "no safetensors file", "fetch or save it again"),
    ),
    Fault(
        "safetensors without tensors",
        change_tensors(lambda t: t.clear()),
        ("model.safetensors", "holds no tensors", "fetch or save it again"),
    ),
    Fault(
        "pickle, cut in the middle",
        in_pickled_weights(truncate("pytorch_model.bin", 0.5)),
        ("pytorch_model.bin", "truncated", "fetch it again"),
    ),
    Fault(
        "pickle, empty",
        in_pickled_weights(truncate("pytorch_model.bin", 0)),
        ("pytorch_model.bin", "truncated", "fetch it again"),
    ),
    Fault(
        "pickle of noise",
        in_pickled_weights(write("pytorch_model.bin", NOISE)),
        ("pytorch_model.bin", "fetch it again, or save it as safetensors"),
    ),
    Fault(
        "pickle that is no table of tensors",
        in_pickled_weights(lambda f: torch.save([1, 2], f / "pytorch_model.bin")),
        ("pytorch_model.bin", "not a plain table of tensors", "save the model's state_dict"),
    ),
    Fault(
        "weights of another architecture",
        lambda f: save_file({"wte.weight": torch.ones(3)}, f / "model.safetensors"),
        ("wte.weight", "no albert of this shape", "weights of one model"),
    ),
    Fault(
        "weights of another width",
        take_weights_of_another_shape,
        ("is [48, 16] and config.json asks for [32, 16]", "not of one model", "fetch both again"),
    ),
    Fault(
        "a tensor lost",
        change_tensors(lambda t: t.pop("albert.embeddings.LayerNorm.bias")),
        ("lacks encoder.embeddings.norm.bias", "the file is incomplete", "fetch both again"),
    ),
    Fault(
        "a tensor too many",
        change_tensors(lambda t: t.update({"albert.surprise": torch.ones(2)})),
        ("unknown tensors albert.surprise", "no albert of this shape", "weights of one model"),
    ),
    Fault(
        "no weights at all",
        remove("model.safetensors"),
        ("no model.safetensors and no pytorch_model.bin", "is it a model folder?"),
    ),
]

CONFIGS = [
    Fault(
        "width and heads at odds",
        change_config(num_attention_heads=5),
        ("config.json", "hidden_size 32 is not a multiple of num_attention_heads 5", "equal share"),
    ),
    Fault(
        "more groups than layers",
        change_config(num_hidden_groups=4),
        ("config.json", "num_hidden_groups 4 exceeds num_hidden_layers 3", "at least one layer"),
    ),
    Fault("no width", change_config(hidden_size=0), ("config.json", "hidden_size is 0", "greater than 0")),
    Fault(
        "negative layers",
        change_config(num_hidden_layers=-2),
        ("config.json", "num_hidden_layers is -2", "greater than 0"),
    ),
    Fault(
        "a billion layers",
        change_config(num_hidden_layers=10**9),
        ("config.json", "num_hidden_layers is 1000000000", "less than or equal to 1024"),
    ),
    Fault(
        "a vocabulary beyond all memory",
        change_config(vocab_size=10**30),
        ("config.json", f"vocab_size is {10**30}", "less than or equal to"),
    ),
    Fault(
        "half a layer",
        change_config(num_hidden_layers=2.5),
        ("config.json", "num_hidden_layers is 2.5", "valid integer"),
    ),
    Fault(
        "a size as text",
        change_config(hidden_size="32"),
        ("config.json", "hidden_size is '32'", "valid integer"),
    ),
    Fault(
        "dropout of everything",
        change_config(hidden_dropout_prob=1.0),
        ("config.json", "hidden_dropout_prob is 1.0", "less than 1"),
    ),
    Fault(
        "another vocabulary size",
        change_config(vocab_size=60),
        ("config.json asks for [60, 16]", "not of one model"),
    ),
    Fault(
        "another depth of the tables",
        change_config(max_position_embeddings=512),
        ("config.json asks for [512, 16]", "not of one model"),
    ),
    Fault(
        "an unknown activation",
        change_config(hidden_act="swish"),
        ("config.json", "hidden_act is 'swish'", "there are gelu_new"),
    ),
    Fault(
        "another kind of model",
        change_config(model_type="roberta"),
        ("config.json", "model_type is 'roberta'", "only albert and bert"),
    ),
    Fault(
        "a decoder", change_config(is_decoder=True), ("config.json", "is_decoder is true", "only encoders")
    ),
    Fault(
        "relative positions",
        change_config(position_embedding_type="relative_key"),
        ("config.json", "position_embedding_type is 'relative_key'", "only absolute"),
    ),
    Fault(
        "a key missing",
        drop_from_config("hidden_size"),
        ("config.json", "lacks hidden_size", "is it a model's config.json?"),
    ),
    Fault(
        "a key without a value",
        change_config(num_attention_heads=None),
        ("config.json", "lacks num_attention_heads", "is it a model's config.json?"),
    ),
    Fault(
        "broken JSON",
        write("config.json", b'{"hidden_size": 32,\n"vocab_size": }'),
        ("config.json", "line 2 is not valid JSON", "fetch it again"),
    ),
    Fault(
        "an empty file",
        write("config.json", b""),
        ("config.json", "line 1 is not valid JSON", "fetch it again"),
    ),
    Fault(
        "a list",
        write("config.json", b"[1, 2]"),
        ("config.json", "holds no object of keys", "is it a model's config.json?"),
    ),
    Fault("no text", write("config.json", b"\xff\xfe\x00"), ("config.json", "not UTF-8", "save it as UTF-8")),
    Fault("no config", remove("config.json"), ("config.json", "No such file", "check the path")),
]

VOCABULARIES = [
    Fault(
        "too many pieces",
        lambda f: write_vocabulary(f / "vocab.txt", [*WORDS, "more"]),
        (f"the vocabulary has {len(WORDS) + 1} pieces", f"embedding table {len(WORDS)} rows", "trained with"),
    ),
    Fault(
        "a piece twice",
        lambda f: write_vocabulary(f / "vocab.txt", [*WORDS[:-1], "ship"]),
        ("vocab.txt", "repeats 'ship'", "may stand once"),
    ),
    Fault(
        "no special tokens",
        lambda f: write_vocabulary(f / "vocab.txt", WORDS[5:]),
        ("vocab.txt", "has no [PAD], [UNK], [CLS], [SEP], [MASK]", "use the model's own vocabulary"),
    ),
    Fault("empty", write("vocab.txt", b""), ("vocab.txt", "empty", "fetch the vocabulary again")),
    Fault("no text", write("vocab.txt", b"\xff\xfe"), ("vocab.txt", "not UTF-8", "fetch it again")),
    Fault(
        "no SentencePiece",
        write("spiece.model", NOISE),
        ("spiece.model", "not a SentencePiece model", "fetch the vocabulary again"),
    ),
    Fault(
        "wrong options",
        write("tokenizer_config.json", b'{"do_lower_case": "yes"}'),
        ("tokenizer_config.json", "do_lower_case is 'yes'", "valid boolean"),
    ),
]


def check(error: str, fault: Fault) -> None:
    for words in fault.said:
        assert words in error
    assert "Traceback" not in error


@pytest.mark.parametrize("fault", [*WEIGHTS, *CONFIGS, *VOCABULARIES], ids=lambda fault: fault.name)
def test_a_damaged_folder_is_refused_and_nothing_is_written(fault, run_albert, tiny_copy, tmp_path):
    fault.damage(tiny_copy)
    before = read_tree(tmp_path)
    check(run_albert("convert", tiny_copy, tmp_path / "out").error, fault)
    check(run_albert("embed", "--model", tiny_copy, "a dog", "--out", tmp_path / "vectors.npy").error, fault)
    assert read_tree(tmp_path) == before


def test_a_vocabulary_far_too_small_for_the_table_is_refused(run_albert, tiny_folder, tmp_path):
    shape = load_model(tiny_folder).config.model_dump() | {"vocab_size": 1000}
    save_model(tmp_path / "model", build_model(ModelConfig(**shape), heads={}))
    shutil.copy(tiny_folder / "vocab.txt", tmp_path / "model")
    before = read_tree(tmp_path)
    expected = (
        f"the vocabulary has {len(WORDS)} pieces and the embedding table 1000 rows; "
        "use the vocabulary that the model was trained with"
    )
    assert run_albert("embed", "--model", tmp_path / "model", "a").error == expected
    assert run_albert("convert", tmp_path / "model", tmp_path / "out").error == expected
    assert read_tree(tmp_path) == before


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
    assert (
        "pytorch_model.bin: truncated, or holds more than weights (UnpicklingError); fetch it again" in error
    )
    assert not trace.exists()
    assert not (tmp_path / "out").exists()


ASKED = [
    (["params", "albert-bsae"], "unknown preset 'albert-bsae'; did you mean albert-base?"),
    (
        ["embed", "--model", "MODEL", "sea " * 39],
        "text 1 has 41 pieces with its borders and the model reads 40; shorten it",
    ),
    (["fill-mask", "--model", "MODEL", "[MASK] " + "sea " * 60], "text 1 has 63 pieces"),
    (["embed", "--model", "MODEL"], "Missing argument 'TEXT"),
    (["embed", "--model", "MODEL", "-"], "no text on standard input; give at least one line"),
    (
        ["fill-mask", "--model", "MODEL", "a [MASK]", "a dog"],
        "text 2 has no [MASK]; put one where a word is to be guessed",
    ),
    (["fill-mask", "--model", "MODEL", "a [MASK]", "--top", "0"], "top is 0; it must be from 1 to"),
    (["sentence-order", "--model", "MODEL", "a", "b", "c"], "3 texts do not make pairs; give an even number"),
    (["embed", "--model", "MODEL", "a", "--pooling", "max"], "pooling is 'max'; there are mean, cls, pooler"),
    (["embed", "--model", "MODEL", "a", "--depth", "0"], "depth is 0; it must be at least 1"),
    (
        ["embed", "--model", "MODEL", "a", "--device", "tpu"],
        "unknown device 'tpu'; use auto, cpu, cuda, cuda:N or mps",
    ),
    (
        ["embed", "--model", "MODEL", "a", "--revision", "v2"],
        "is a local path and has no revision 'v2'; leave the revision out",
    ),
    (
        ["embed", "--model", "./absent", "a"],
        "'./absent' does not exist; check the path, or give a name on the hub",
    ),
    (["convert", "./absent", "out"], "'./absent' does not exist; check the path, or give a name on the hub"),
    (["embed", "--model", "", "a"], "the model's name is empty; give a folder or a name"),
    (
        ["embed", "--model", "a b/c", "a"],
        "'a b/c' is neither a path here nor a name on the hub; one looks like albert/",
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
        assert error == f"this model has no {head} head; it has none. Load a folder that was trained with one"


def test_a_pooler_that_the_model_lacks_is_refused(run_albert, tiny_copy):
    change_tensors(lambda t: [t.pop(n) for n in list(t) if "pooler" in n or n.startswith("sop")])(tiny_copy)
    error = run_albert("embed", "--model", tiny_copy, "a", "--pooling", "pooler").error
    assert error.startswith("this model has no pooler; load it with")
    assert run_albert("embed", "--model", tiny_copy, "a").code == 0


def test_a_folder_without_a_vocabulary_cannot_read_texts(run_albert, tiny_copy):
    remove("vocab.txt", "tokenizer.json", "tokenizer_config.json")(tiny_copy)
    error = run_albert("embed", "--model", tiny_copy, "a").error
    assert error.startswith(
        f"{tiny_copy}: has no vocabulary (spiece.model, vocab.txt or tokenizer.json); copy"
    )
    assert albert.load_encoder(tiny_copy)([[2, 3]])[0].shape == (2, 32)


def test_a_model_with_layers_of_its_own_runs_no_deeper_than_it_was_built(run_albert, tiny_folder, tmp_path):
    shape = load_model(tiny_folder).config.model_dump() | {"num_hidden_groups": 3}
    model = build_model(ModelConfig(**shape), heads={})
    save_model(tmp_path / "model", model, tokenizer=load_tokenizer(tiny_folder))
    words = ["embed", "--model", tmp_path / "model", "a", "--depth"]
    assert run_albert(*words, "4").error == (
        "depth is 4 but this model has 3 distinct layers; "
        "only a model that shares all its layers can run deeper than it was built"
    )
    assert run_albert(*words, "2").code == 0
    assert run_albert("embed", "--model", tiny_folder, "a", "--depth", "4").code == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_gpu_that_is_not_there_is_refused(device, run_albert, tiny_folder):
    error = run_albert("embed", "--model", tiny_folder, "a", "--device", device).error
    assert error.startswith(f"device '{device}' is not here: torch {torch.__version__} sees 0 CUDA devices")
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
