"""ONNX export: the graph equals torch, weights are stored once, and exported folders predict alike."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import albert
from albert.errors import InputError, WeightsError
from albert.export.onnx import export_onnx
from albert.files import write_json
from albert.inference import backends
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig, build_preset
from albert.pretrained.folder import load_model, load_vocabulary, save_model
from albert.pretrained.huggingface import ONNX_INT8_NAME, ONNX_NAME
from albert.tasks.catalogue import build_task
from albert.tasks.models import save_finetuned
from tests.conftest import read_tree, rejects
from tests.guides.journeys import ROOT, read_blocks
from tests.tasks.finetuned_folder import (
    ANSWERS,
    EARLY,
    OPTIONS,
    PLACES,
    SENTIMENT,
    STARS,
    TOPICS,
    VECTORS,
    write_finetuned_folder,
)
from tests.tasks.test_predictor import CONTEXT, PAIRS, TEXTS

IMPOSSIBLE = ANSWERS.model_copy(update={"has_impossible": True, "threshold": 0.0})
INPUTS = {
    "classify": ([*TEXTS, *PAIRS],),
    "find_labels": (TEXTS,),
    "rate": (PAIRS,),
    "tag": (TEXTS,),
    "answer": (["what did the man see", "was it old"], CONTEXT),
    "choose": (["what was it", "who"], [["a ship", "a big dog", "the sea"], ["she", "he"]]),
    "embed": (TEXTS,),
}


def pooled_by(pooling):
    return SENTIMENT.model_copy(update={"classifier_pooling": pooling})


def flatten(value):
    """The numbers and texts of a prediction, in order."""
    if isinstance(value, dict | tuple | list | np.ndarray):
        parts = value.items() if isinstance(value, dict) else value
        return [each for part in parts for each in flatten(part)]
    return flatten(vars(value)) if hasattr(value, "__dict__") else [value]


def assert_same(ours, theirs):
    ours, theirs = flatten(ours), flatten(theirs)
    assert [type(each) for each in ours] == [type(each) for each in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one == (pytest.approx(other, abs=1e-4) if isinstance(other, float | np.floating) else other)


@pytest.mark.parametrize(
    "config",
    [
        SENTIMENT, pooled_by("mean"), pooled_by("segments"), TOPICS, STARS, PLACES, ANSWERS, IMPOSSIBLE,
        OPTIONS, VECTORS,
    ],
)  # fmt: skip
def test_an_exported_task_predicts_alike(tiny_folder, tmp_path, config):
    folder = write_finetuned_folder(tmp_path / "m", tiny_folder, config)
    found = export_onnx(folder, out=tmp_path / "out")  # verifies every output of the graph
    assert found.max_difference < 1e-4
    method = build_task(config).method
    torch_model, onnx_model = albert.load(folder), albert.load(tmp_path / "out", backend="onnx")
    assert_same(*(getattr(model, method)(*INPUTS[method]) for model in (onnx_model, torch_model)))


def test_a_pretrained_model_predicts_alike_at_any_depth(tiny_folder, tmp_path):
    pairs, texts = [("the ship left", "it was old")], ["the [MASK] was [MASK]", "a [MASK]"]
    torch_model = albert.load(tiny_folder)
    for depth in (1, 3, 5):
        export_onnx(tiny_folder, out=tmp_path / "out", depth=depth)  # replaces the earlier one
        model = albert.load(tmp_path / "out", backend="onnx")
        for pooling in ("mean", "cls", "pooler"):
            expected = torch_model.embed(TEXTS, pooling=pooling, depth=depth)
            np.testing.assert_allclose(model.embed(TEXTS, pooling=pooling), expected, atol=1e-4)
        assert_same(model.fill_mask(texts), torch_model.fill_mask(texts, depth=depth))
        assert_same(model.sentence_order(pairs), torch_model.sentence_order(pairs, depth=depth))
    with rejects(InputError, "depth is 2", "5 layers", "--depth 2"):
        model.embed(TEXTS, depth=2)
    with rejects(InputError, "cannot be saved"):
        model.save(tmp_path / "saved")


def test_exits_are_exported_at_their_depth(tiny_folder, tmp_path):
    folder = write_finetuned_folder(tmp_path / "m", tiny_folder, EARLY)
    export_onnx(folder, out=tmp_path / "out", depth=2)
    model = albert.load(tmp_path / "out", backend="onnx")
    assert_same(model.classify(TEXTS), albert.load(folder).classify(TEXTS, depth=2))
    with rejects(InputError, "patience is 1"):
        model.classify(TEXTS, patience=1)


def test_maps_of_shallow_vectors_are_exported(tiny_folder, tmp_path):
    model = load_model(tiny_folder, heads={"vector_exits": None}, seed=1).model
    torch.nn.init.normal_(model.heads["vector_exits"][1].up.weight)
    save_finetuned(tmp_path / "m", model, config=VECTORS, tokenizer=load_vocabulary(tiny_folder))
    export_onnx(tmp_path / "m", out=tmp_path / "out", depth=2)
    vectors = albert.load(tmp_path / "out", backend="onnx").embed(TEXTS)
    np.testing.assert_allclose(vectors, albert.load(tmp_path / "m").embed(TEXTS, depth=2), atol=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {"sharing": "attention", "hidden_act": "relu"},
        {"sharing": "none", "embedding_size": 32, "hidden_act": "gelu", "type_vocab_size": 1},
        {"num_hidden_groups": 2, "inner_group_num": 2},
    ],
)
def test_every_sharing_is_exported(tiny_folder, tmp_path, changes):
    values = {**load_model(tiny_folder).config.model_dump(), "num_hidden_layers": 4, **changes}
    model = build_model(ModelConfig(**values), heads={"mlm": None, "nsp": None})
    save_model(tmp_path / "m", model, tokenizer=load_vocabulary(tiny_folder))
    export_onnx(tmp_path / "m", out=tmp_path / "out", depth=3)
    assert len(onnx.load(tmp_path / "out" / ONNX_NAME).graph.output) == 5
    texts = ["the [MASK] was old"]
    found = albert.load(tmp_path / "out", backend="onnx").fill_mask(texts)
    assert_same(found, albert.load(tmp_path / "m").fill_mask(texts, depth=3))


@pytest.mark.parametrize("head", ["mlm", "classification"])
def test_weights_are_stored_once_before_and_after_the_optimizer(tiny_folder, tmp_path, head):
    shape = {"vocab_size": 71, "num_hidden_layers": 12, "max_position_embeddings": 40}
    config = build_preset("nano").model_copy(update=shape)
    model = build_model(config, heads={head: 2})
    save_model(tmp_path / "m", model, tokenizer=load_vocabulary(tiny_folder))
    found = export_onnx(tmp_path / "m", out=tmp_path / "out", int8=True)
    num_bytes = (tmp_path / "m" / "model.safetensors").stat().st_size
    for name, limit in ((ONNX_NAME, 1.1), (ONNX_INT8_NAME, 0.45)):  # a small model has many other tensors
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        onnxruntime.InferenceSession(tmp_path / "out" / name, options)
        for file in (tmp_path / "out" / name, tmp_path / "optimized.onnx"):
            assert file.stat().st_size < limit * num_bytes
    assert found.agreement.mean_cosine > 0.99
    models = albert.load(tmp_path / "m"), albert.load(tmp_path / "out", backend="onnx-int8")
    exact, quantized = (model.embed(TEXTS, is_normalized=True) for model in models)
    assert 0.99 < (exact * quantized).sum(1).min() < 1 - 1e-6
    if head == "mlm":
        exact, quantized = (model.fill_mask(["the [MASK] was old"])[0][0][0] for model in models)
        assert quantized.probability == pytest.approx(exact.probability, rel=0.05)


def test_int8_that_loses_the_model_is_rejected(tiny_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("albert.export.graph._LARGEST", 1)  # weights of -1, 0 and 1
    before = read_tree(tmp_path)
    with rejects(WeightsError, "cosine", "0.9", "--int8"):
        export_onnx(tiny_folder, out=tmp_path / "out", int8=True)
    assert read_tree(tmp_path) == before


def test_a_graph_that_differs_is_not_written(tiny_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("albert.export.graph._FAR_BELOW", np.float32(-1))  # padding is visible
    with rejects(WeightsError, "last_hidden_state", "nothing was written"):
        export_onnx(tiny_folder, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_commands(tiny_folder, tmp_path, run_albert):
    done = run_albert("export", "onnx", tiny_folder, "--out", tmp_path / "out", "--int8", "--json")
    assert json.loads(done.out)["num_layers"] == 3
    assert "already exists" in run_albert("export", "onnx", tiny_folder, "--out", tmp_path / "out").error
    assert run_albert("export", "onnx", tiny_folder, "--out", tmp_path / "out", "--overwrite").code == 0
    assert not (tmp_path / "out" / ONNX_INT8_NAME).exists()
    assert "onnx" in run_albert("embed", "a ship", "-m", tmp_path / "out").error
    assert "export onnx" in run_albert("embed", "a ship", "-m", tiny_folder, "--backend", "onnx").error
    assert (
        "torch, onnx, onnx-int8" in run_albert("embed", "a ship", "-m", tiny_folder, "--backend", "tf").error
    )
    folder = write_finetuned_folder(tmp_path / "m", tiny_folder, SENTIMENT)
    export_onnx(folder, out=tmp_path / "task")
    rows = tmp_path / "rows.csv"
    rows.write_text("text\na ship\nthe sea was cold\n")
    answers = [
        run_albert("predict", "classification", rows, "-m", model, "--backend", backend).out
        for model, backend in ((folder, "torch"), (tmp_path / "task", "onnx"))
    ]
    labels = [[json.loads(line)["label"] for line in each.splitlines()] for each in answers]
    assert labels[0] == labels[1]
    assert len(labels[0]) == 2


def test_mistakes_are_explained(tiny_copy, tmp_path, monkeypatch, run_albert):
    model = load_model(tiny_copy, heads={"teacher_map": 8}).model
    save_model(tmp_path / "student", model, tokenizer=load_vocabulary(tiny_copy))
    with rejects(InputError, "teacher_map"):
        export_onnx(tmp_path / "student", out=tmp_path / "out")
    (tmp_path / "file").write_text("")
    unwritable = run_albert("export", "onnx", tiny_copy, "--out", tmp_path / "file" / "out")
    assert "cannot be written" in unwritable.error
    (tiny_copy / "1_Pooling").mkdir()
    write_json(tiny_copy / "1_Pooling" / "config.json", {"pooling_mode_max_tokens": True})
    with rejects(InputError, "max_tokens", "mean, cls, pooler"):
        export_onnx(tiny_copy, out=tmp_path / "out")
    monkeypatch.setattr(onnxruntime, "__version__", "1.16.3")
    with rejects(InputError, "1.16.3", "1.20", "pip install"):
        backends.import_runtime()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert "pip install" in run_albert("export", "onnx", "nano", "--out", tmp_path / "out").error
    assert not (tmp_path / "out").exists()


def read_example(language):
    page = ROOT / "docs" / "onnx.md"
    return next(block.text for block in read_blocks(page) if block.language == language)


def assert_embeds(done, folder):
    assert done.returncode == 0, done.stderr
    texts = ["a ship left the town", "the dog was small"]
    vectors = np.array(json.loads(done.stdout))
    np.testing.assert_allclose(vectors, albert.load(folder).embed(texts), atol=1e-4)


def test_the_python_example_of_the_page_needs_no_albert(tiny_folder, tmp_path):
    export_onnx(tiny_folder, out=tmp_path / "exported")
    blocked = "import sys; sys.modules.update(dict.fromkeys(['albert', 'torch']))\n"
    words = [sys.executable, "-c", blocked + read_example("python")]
    assert_embeds(subprocess.run(words, cwd=tmp_path, capture_output=True, text=True), tiny_folder)


@pytest.mark.slow
def test_the_javascript_example_of_the_page(tiny_folder, tmp_path):
    """Runs if $NODE_PATH is a folder node_modules with @huggingface/transformers."""
    modules = Path(os.environ.get("NODE_PATH", "node_modules"))
    if shutil.which("node") is None or not (modules / "@huggingface" / "transformers").exists():
        pytest.skip("node or @huggingface/transformers is not installed")
    export_onnx(tiny_folder, out=tmp_path / "models" / "exported")
    (tmp_path / "node_modules").symlink_to(modules.resolve())
    (tmp_path / "example.mjs").write_text(read_example("js"))
    words = ["node", "example.mjs"]
    assert_embeds(subprocess.run(words, cwd=tmp_path, capture_output=True, text=True), tiny_folder)
