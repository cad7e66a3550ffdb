"""TensorFlow checkpoints of the paper's authors are read bit for bit, and every variable is used."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from albert.errors import FileFormatError, WeightsError
from albert.model.config import ModelConfig
from albert.pretrained.folder import load_model, save_model
from albert.pretrained.names import ROWS, iter_names
from albert.pretrained.tensorflow import read_tensor_bundle, read_tensorflow_weights
from albert.settings import build_settings
from tests.conftest import rejects
from tests.data.make_tensorflow_albert import (
    ALBERT_PREFIX,
    SHARDS_PREFIX,
    SLOTS,
    UNSUPPORTED_PREFIX,
    WEIGHTS,
    albert_tensors,
    random_values,
    shard_tensors,
)

FOLDER = ALBERT_PREFIX.parent
BLOCK = "bert/encoder/transformer/group_0/inner_group_0"
# Written by hand, independently of the table of names: ours, theirs, whether [in, out].
EXPECTED = {
    "encoder.embeddings.word.weight": ("bert/embeddings/word_embeddings", False),
    "encoder.embeddings.norm.weight": ("bert/embeddings/LayerNorm/gamma", False),
    "encoder.embeddings.norm.bias": ("bert/embeddings/LayerNorm/beta", False),
    "encoder.embeddings.map.weight": ("bert/encoder/embedding_hidden_mapping_in/kernel", True),
    "encoder.attention.0.query.weight": (f"{BLOCK}/attention_1/self/query/kernel", True),
    "encoder.attention.0.output.weight": (f"{BLOCK}/attention_1/output/dense/kernel", True),
    "encoder.attention.0.norm.weight": (f"{BLOCK}/LayerNorm/gamma", False),
    "encoder.ffn.0.inner.weight": (f"{BLOCK}/ffn_1/intermediate/dense/kernel", True),
    "encoder.ffn.0.output.weight": (f"{BLOCK}/ffn_1/intermediate/output/dense/kernel", True),
    "encoder.ffn.0.norm.bias": (f"{BLOCK}/LayerNorm_1/beta", False),
    "pooler.weight": ("bert/pooler/dense/kernel", True),
    "heads.mlm.dense.weight": ("cls/predictions/transform/dense/kernel", True),
    "heads.mlm.bias": ("cls/predictions/output_bias", False),
    "heads.sop.linear.weight": ("cls/seq_relationship/output_weights", False),
    "heads.sop.linear.bias": ("cls/seq_relationship/output_bias", False),
}


def assert_same_bits(read, expected):
    assert read.keys() == expected.keys()
    for name, value in expected.items():
        assert (read[name].dtype, read[name].shape) == (value.dtype, value.shape), name
        assert read[name].tobytes() == value.tobytes(), name
        assert read[name].flags.writeable  # torch.from_numpy shares the memory


def test_every_variable_of_a_checkpoint_is_read_bit_for_bit():
    assert_same_bits(read_tensor_bundle(ALBERT_PREFIX), albert_tensors())
    first, second = shard_tensors()  # two data files, all types
    assert_same_bits(read_tensor_bundle(SHARDS_PREFIX), first | second)


def test_only_what_is_wanted_is_read():
    read = read_tensor_bundle(ALBERT_PREFIX, wanted=lambda name: not name.endswith(("/adam_m", "/adam_v")))
    assert read.keys() == albert_tensors().keys() - SLOTS.keys()
    read = read_tensor_bundle(UNSUPPORTED_PREFIX, wanted=lambda name: name == "kernel")
    assert_same_bits(read, {"kernel": random_values("kernel", (2, 2))})


def test_slices_and_strings_are_rejected():
    for name, value in [("partitioned", "slices"), ("text", 7)]:
        with rejects(FileFormatError, name, value):
            read_tensor_bundle(UNSUPPORTED_PREFIX, wanted=lambda each, name=name: each == name)


def test_missing_and_truncated_files_are_named(tmp_path):
    shutil.copytree(SHARDS_PREFIX.parent, tmp_path / "checkpoint")
    prefix = tmp_path / "checkpoint" / SHARDS_PREFIX.name
    for path in (Path(f"{prefix}.data-00001-of-00002"), Path(f"{prefix}.index")):
        data = path.read_bytes()
        for size in range(0, len(data), 7):
            path.write_bytes(data[:size])
            with rejects(FileFormatError, path):
                read_tensor_bundle(prefix)
        path.unlink()
        with rejects(FileFormatError, path, "No such file"):
            read_tensor_bundle(prefix)


def test_every_variable_is_used_once():
    model = load_model(FOLDER).model
    assert len(model.state_dict()) == len(WEIGHTS) == len(read_tensorflow_weights(FOLDER))
    # Values are all different: the sorted numbers agree only if each tensor is used once.
    ours = np.sort(np.concatenate([t.numpy().ravel() for t in model.state_dict().values()]))
    theirs = np.sort(np.concatenate([random_values(name, shape).ravel() for name, shape in WEIGHTS.items()]))
    assert np.array_equal(ours, theirs)


def test_each_variable_has_its_name_and_orientation(tmp_path):
    original = load_model(FOLDER).model
    for ours, (theirs, is_transposed) in EXPECTED.items():
        value = random_values(theirs, WEIGHTS[theirs])
        expected = value.T if is_transposed else value
        assert np.array_equal(original.state_dict()[ours].numpy(), expected), ours
    save_model(tmp_path / "m", original)
    converted = load_model(tmp_path / "m").model
    assert list(converted.heads) == ["mlm", "sop"]
    for name, tensor in original.state_dict().items():
        assert torch.equal(tensor, converted.state_dict()[name])


@pytest.mark.parametrize(
    "content", ["{", '{"vocab_size": 50}', '{"hidden_act": ["gelu"]}', "other width", None]
)
def test_a_configuration_that_does_not_fit_is_named(content, tmp_path):
    shutil.copytree(FOLDER, tmp_path / "m")
    path = tmp_path / "m" / "albert_config.json"
    if content is None:
        path.unlink()
    else:
        other_width = path.read_text().replace('"hidden_size": 16', '"hidden_size": 32')
        path.write_text(other_width if content == "other width" else content)
    with rejects(WeightsError if content == "other width" else FileFormatError, "config.json"):
        load_model(tmp_path / "m")


def test_the_table_of_names_is_one_to_one_on_every_side():
    shape = build_settings(ModelConfig, values={"num_hidden_groups": 3, "inner_group_num": 2})
    for layout in ("albert", "bert", "tensorflow"):
        pairs = list(iter_names(shape, layout))
        ours = [pair.ours for pair in pairs]
        assert len(set(ours)) == len(ours)
        others = [pair.theirs for pair in pairs if not pair.theirs.startswith("classifier")]
        if layout != "bert":  # BERT has no groups
            assert len(set(others)) == len(others)
    assert len({row.ours for row in ROWS}) == len(ROWS)


def test_one_of_several_checkpoints_must_be_chosen(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "m")
    for file in FOLDER.glob("model.ckpt-best.*"):
        shutil.copy(file, tmp_path / "m" / file.name.replace("best", "1000"))
    with rejects(FileFormatError, "2 checkpoints"):
        load_model(tmp_path / "m")
    assert list(load_model(tmp_path / "m" / "model.ckpt-best.index").model.heads) == ["mlm", "sop"]


def test_the_layout_of_tf_hub_is_read(tmp_path):
    (tmp_path / "assets").mkdir()
    (tmp_path / "variables").mkdir()
    shutil.copy(FOLDER / "albert_config.json", tmp_path / "assets")
    for file in FOLDER.glob("model.ckpt-best.*"):
        shutil.copy(file, tmp_path / "variables" / file.name.replace("model.ckpt-best", "variables"))
    assert list(load_model(tmp_path).model.heads) == ["mlm", "sop"]
