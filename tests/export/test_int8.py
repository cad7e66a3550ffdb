"""`albert export int8`: the folder runs in int8, and a model that differs from float32 is rejected."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import albert
from albert.errors import InputError
from albert.export.int8 import AgreementCheck, export_int8
from albert.model.int8 import is_quantized, is_saturating
from albert.model.runtime import RuntimeSettings, build_autocast
from albert.pretrained.folder import load_model, load_vocabulary, save_model
from tests.conftest import rejects
from tests.tasks.finetuned_folder import (
    ANSWERS,
    OPTIONS,
    PLACES,
    SENTIMENT,
    STARS,
    write_finetuned_folder,
)

TEXTS = [
    "the ship left the town and it was cold .",
    "a man saw the dog by the river in the night .",
    "two children went to the house on the hill , or not ?",
    "she found three small old towns by the sea !",
]
NAMES = ("float32", "int8")
SATURATING = """
import sys
from albert.export.int8 import export_int8
from albert.model.int8 import is_saturating
assert is_saturating()
texts = open(sys.argv[2]).read().splitlines()
reduced = export_int8(sys.argv[1], sys.argv[3], texts=texts)
assert reduced.reduce_range and reduced.agreement.excess < 1, reduced
export_int8(sys.argv[1], sys.argv[3], texts=texts, reduce_range=False)
"""


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


@pytest.fixture
def vector_folder(tiny_folder, tmp_path):
    """The tiny model without heads."""
    loaded = load_model(tiny_folder, heads={})
    save_model(tmp_path / "vectors", loaded.model, tokenizer=load_vocabulary(tiny_folder))
    return tmp_path / "vectors"


def test_an_exported_folder_runs_in_int8(run_albert, tiny_folder, text_file, tmp_path):
    out = tmp_path / "small"
    done = run_albert("export", "int8", tiny_folder, "--out", out, "--text", text_file, "--json")
    assert (done.code, done.err) == (0, "")
    data, stored = json.loads(done.out), json.loads((out / "int8.json").read_text())
    assert data["num_bytes"] < data["num_float_bytes"]
    assert stored["agreement"] == {**data["agreement"], "num_texts": 4}
    assert abs(data["agreement"]["nll_rise"]) < 0.01
    opened, converted = albert.load(out), albert.load(tiny_folder, precision="int8")
    assert opened.precision == "int8"
    assert is_quantized(opened.model)
    vectors = opened.embed(TEXTS)
    np.testing.assert_allclose(vectors, converted.embed(TEXTS), rtol=0, atol=1e-4)
    assert not np.array_equal(vectors, albert.load(tiny_folder).embed(TEXTS))
    assert len(opened.fill_mask(["the [MASK] was cold ."])[0][0]) == 5
    with rejects(InputError, "int8"):
        opened.save(tmp_path / "saved")


@pytest.mark.parametrize("config", [SENTIMENT, STARS, PLACES, ANSWERS, OPTIONS])
def test_task_models_are_checked_by_their_certain_predictions(config, tiny_folder, tmp_path):
    predictor = albert.load(write_finetuned_folder(tmp_path / "model", tiny_folder, config))
    with torch.no_grad():  # so that random heads are certain
        for parameter in predictor.model.heads.parameters():
            parameter.mul_(20)
    found = AgreementCheck(predictor, TEXTS).run()
    assert found.nll is None
    assert found.num_predictions > 0
    assert found.same is not None
    assert found.same > 0.8  # by chance, a third or less


def test_commands_run_in_int8(run_albert, tiny_folder, tmp_path):
    folder = write_finetuned_folder(tmp_path / "model", tiny_folder, SENTIMENT)
    table = tmp_path / "table.tsv"
    table.write_text("text\tlabel\n" + "".join(f"{text}\tgood\n" for text in TEXTS), encoding="utf-8")
    for number, name in enumerate(NAMES):
        words = ("classification", "--model", folder, "--precision", name)
        assert run_albert("evaluate", *words, "--data", table).code == 0
        assert run_albert("predict", *words, table, "--out", tmp_path / f"{number}.jsonl").code == 0
    assert (tmp_path / "0.jsonl").read_text() != (tmp_path / "1.jsonl").read_text()
    texts = ["the [MASK] was cold ."]
    for command in ("embed", "fill-mask"):
        words = (command, "--model", tiny_folder, *texts, "--json")
        one, other = (run_albert(*words, "--precision", name) for name in NAMES)
        assert one.code == other.code == 0
        assert one.out != other.out


def test_a_model_with_an_outlier_is_rejected_with_the_module(vector_folder, tmp_path):
    loaded = load_model(vector_folder)
    with torch.no_grad():  # a channel that leaves no integers for the others, and has no effect itself
        loaded.model.encoder.ffn[0].inner.bias[0] = 3000.0
        loaded.model.encoder.ffn[0].output.weight[:, 0] = 0
    save_model(tmp_path / "odd", loaded.model, tokenizer=load_vocabulary(vector_folder))
    with rejects(InputError, "cosine", "--float-modules ffn.0.output"):
        export_int8(tmp_path / "odd", tmp_path / "out", texts=TEXTS)
    assert not (tmp_path / "out").exists()
    kept = export_int8(tmp_path / "odd", tmp_path / "out", texts=TEXTS, float_modules=["ffn.0.output"])
    assert kept.agreement.excess < 1
    assert albert.load(tmp_path / "out").precision == "int8"


def test_a_model_that_saturates_is_rejected_without_reduced_range(vector_folder, text_file, tmp_path):
    """oneDNN runs the kernel of a CPU without VNNI, which adds pairs of products in 16 bits."""
    loaded = load_model(vector_folder)
    with torch.no_grad():  # pairs of large products of the same sign
        loaded.model.encoder.ffn[0].inner.bias += 4
        output = loaded.model.encoder.ffn[0].output.weight
        output.copy_(output.sign() * (1 + 0.01 * torch.arange(output.shape[1]).cos()) * 0.1)
    save_model(tmp_path / "full", loaded.model, tokenizer=load_vocabulary(vector_folder))
    done = subprocess.run(
        [sys.executable, "-c", SATURATING, tmp_path / "full", text_file, tmp_path / "out"],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"},
        capture_output=True,
        text=True,
    )
    assert "differs too much" in done.stderr, done.stderr
    if not is_saturating():  # it is not rounding to 8 bits that was rejected
        export_int8(tmp_path / "full", tmp_path / "exact", texts=TEXTS, reduce_range=False)


def test_training_rejects_int8(tiny_folder):
    with rejects(InputError, "int8", "float32"):
        build_autocast(RuntimeSettings(precision="int8"))
