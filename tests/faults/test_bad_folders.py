"""Model folders with a damaged config, vocabulary or weights are rejected with the file and the value."""

import json
import os
import pickle
import random
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file, save_file

import albert
from albert.errors import WeightsError
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.pretrained.folder import check_vocabulary, load_model, save_model
from tests.conftest import WORDS, RunAlbert, read_tree, rejects, write_vocabulary

Damage = Callable[[Path], Any]
NOISE = random.Random(0).randbytes(5000)
BIAS = "albert.embeddings.LayerNorm.bias"


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
    def damage(folder):
        for name in names:
            (folder / name).unlink()

    return damage


def write_words(*words: str) -> Damage:
    return lambda folder: write_vocabulary(folder / "vocab.txt", list(words))


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


def in_pickled_weights(damage: Damage) -> Damage:
    def change(folder: Path) -> None:
        torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
        damage(folder)

    return change


def copy_weights_of_another_shape(folder: Path) -> None:
    config = load_model(folder).config.model_copy(update={"hidden_size": 48})
    save_model(folder / "other", build_model(config, heads={"mlm": None}))
    shutil.copy(folder / "other" / "model.safetensors", folder)
    shutil.rmtree(folder / "other")


CONFIGS: list[tuple[Any, ...]] = [
    (change_config(num_attention_heads=5), "hidden_size 32", "num_attention_heads 5"),
    (change_config(num_hidden_groups=4), "num_hidden_groups 4", "num_hidden_layers 3"),
    (change_config(hidden_size=0), "hidden_size is 0"),
    (change_config(hidden_size="32"), "hidden_size is '32'"),
    (change_config(hidden_dropout_prob=1.0), "hidden_dropout_prob is 1.0"),
    (change_config(vocab_size=60), "[60, 16]"),
    (change_config(max_position_embeddings=512), "[512, 16]"),
    (change_config(hidden_act="swish"), "hidden_act is 'swish'", "gelu_new"),
    (change_config(model_type="roberta"), "model_type is 'roberta'", "albert"),
    (change_config(is_decoder=True), "is_decoder is true"),
    (change_config(position_embedding_type="relative_key"), "position_embedding_type is 'relative_key'"),
    (drop_from_config("hidden_size"), "hidden_size"),
    (write("config.json", b'{"hidden_size": 32,\n"vocab_size": }'), "line 2"),
    (write("config.json", b""), "line 1"),
    (write("config.json", b"[1, 2]"), "object"),
    (write("config.json", b"\xff\xfe\x00"), "UTF-8"),
    (remove("config.json"), "No such file"),
]
CASES: list[tuple[Any, ...]] = [
    *((damage, "config.json", *values) for damage, *values in CONFIGS),
    # vocabularies
    (write_words(*WORDS, "more"), str(len(WORDS) + 1), str(len(WORDS))),
    (write_words(*WORDS[:-1], "ship"), "vocab.txt", "'ship'"),
    (write_words(*WORDS[5:]), "vocab.txt", "[PAD], [UNK], [CLS], [SEP], [MASK]"),
    (write("vocab.txt", b""), "vocab.txt"),
    (write("vocab.txt", b"\xff\xfe"), "vocab.txt", "UTF-8"),
    (write("spiece.model", NOISE), "spiece.model"),
    (write("added_tokens.json", b'{"[NEW]": "5"}'), "download"),
    (write("tokenizer_config.json", b'{"do_lower_case": "yes"}'), "tokenizer_config.json", "do_lower_case"),
    # weights
    (truncate("model.safetensors", 0.5), "model.safetensors", "truncated"),
    (truncate("model.safetensors", 1), "model.safetensors", "truncated"),
    (write("model.safetensors", NOISE), "model.safetensors"),
    (write("model.safetensors", b"<!DOCTYPE html><html>Not found</html>" * 50), "model.safetensors"),
    (in_pickled_weights(truncate("pytorch_model.bin", 0.5)), "pytorch_model.bin", "truncated"),
    (in_pickled_weights(write("pytorch_model.bin", NOISE)), "pytorch_model.bin"),
    (in_pickled_weights(lambda f: torch.save([1, 2], f / "pytorch_model.bin")), "state_dict"),
    (lambda f: save_file({"wte.weight": torch.ones(3)}, f / "model.safetensors"), "wte.weight"),
    (copy_weights_of_another_shape, "[48, 16]", "[32, 16]"),
    (change_tensors(lambda t: t.pop(BIAS)), "encoder.embeddings.norm.bias"),
    (change_tensors(lambda t: t.update({"albert.surprise": torch.ones(2)})), "albert.surprise"),
    (change_tensors(lambda t: t[BIAS].fill_(torch.nan)), BIAS, "NaN"),
    (change_tensors(lambda t: t.update({BIAS: t[BIAS].to(torch.int8)})), BIAS, "torch.int8", "torch.float32"),
    (remove("model.safetensors"), "model.safetensors", "pytorch_model.bin"),
]


@pytest.mark.parametrize("case", CASES, ids=[", ".join(case[1:]) for case in CASES])
def test_a_damaged_folder_is_rejected_and_nothing_is_written(case, run_albert: RunAlbert, tiny_copy: Path):
    damage, *values = case
    damage(tiny_copy)
    parent = tiny_copy.parent
    before = read_tree(parent)
    embedding = ("embed", "--model", tiny_copy, "a dog", "--out", parent / "vectors.npy")
    for words in (("convert", tiny_copy, parent / "out"), embedding):
        error = run_albert(*words).error
        assert not [value for value in values if value not in error], error
        assert "Traceback" not in error
    assert read_tree(parent) == before


@pytest.mark.parametrize(
    ("num_tokens", "num_rows", "is_accepted"),
    [(30_000, 30_127, True), (31_102, 32_102, True), (31_102, 33_000, False), (30_000, 29_999, False)],
)
def test_up_to_a_twentieth_of_the_table_may_be_unused(num_tokens, num_rows, is_accepted):
    """The published Italian BERTs have such tables."""
    with nullcontext() if is_accepted else rejects(WeightsError, num_tokens, num_rows):
        check_vocabulary(ModelConfig(vocab_size=num_rows), Mock(vocab_size=num_tokens))


def test_a_folder_without_a_vocabulary_encodes_only_ids(run_albert, tiny_copy):
    remove("vocab.txt", "tokenizer.json", "tokenizer_config.json")(tiny_copy)
    error = run_albert("embed", "--model", tiny_copy, "a").error
    assert error.startswith(f"{tiny_copy}: ")
    assert "spiece.model, vocab.txt, symbols.txt or tokenizer.json" in error
    assert albert.load_encoder(tiny_copy)([[2, 3]])[0].shape == (2, 32)


class MakesFolder:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("is_plain", [True, False], ids=["a plain pickle", "a pickle of torch"])
def test_code_in_a_weights_file_is_not_run(is_plain, run_albert, tiny_copy, tmp_path):
    trace, path = tmp_path / "trace", tiny_copy / "pytorch_model.bin"
    content = {"albert.pooler.bias": MakesFolder(trace)}
    (tiny_copy / "model.safetensors").unlink()
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
