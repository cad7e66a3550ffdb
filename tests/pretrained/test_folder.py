"""Model folders are those of Hugging Face: each side reads what the other writes, bit for bit."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from albert.errors import InputError, WeightsError
from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.model.tokens import Tokens
from albert.pretrained.folder import NewWeightsWarning, load_model, save_model
from albert.settings import build_settings
from albert.text.folder import load_tokenizer
from tests.conftest import WORDS, rejects, write_vocabulary

TINY = {
    "vocab_size": 30, "embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 4,
    "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 64,
}  # fmt: skip
SHAPES = {
    "all shared": {},
    "2 groups": {"num_hidden_groups": 2},
    "2 inner groups": {"inner_group_num": 2, "num_hidden_groups": 2},
    "attention shared": {"sharing": "attention"},
    "attention shared in 2 groups": {"sharing": "attention", "num_hidden_groups": 2},
    "ffn shared": {"sharing": "ffn"},
    "ffn shared, 2 inner": {"sharing": "ffn", "inner_group_num": 2},
    "none shared": {"sharing": "none"},
    "E = H": {"embedding_size": 16},
    "E = H, with a map": {"embedding_size": 16, "has_embedding_map": True},
    "E = H, attention shared": {"embedding_size": 16, "sharing": "attention"},
    "bert": {"embedding_size": 16, "sharing": "none", "hidden_act": "gelu"},
}
IDS = [[2, 7, 9, 3], [2, 5, 3], [2, 8, 8, 8, 11, 3]]


def build(changes, heads=None, seed=0):
    config = build_settings(ModelConfig, values={**TINY, **changes})
    model = build_model(config, heads=heads or {"mlm": None, "sop": None}, seed=seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def assert_same_weights(one, other):
    ours, theirs = one.state_dict(), other.state_dict()
    assert list(ours) == list(theirs)
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


@pytest.mark.parametrize("changes", SHAPES.values(), ids=SHAPES)
def test_a_folder_is_read_back_bit_for_bit_and_opens_in_auto_classes(changes, tmp_path):
    model = build(changes)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(25))]
    tokenizer = load_tokenizer(write_vocabulary(tmp_path / "vocab.txt", words))
    save_model(tmp_path / "m", model, tokenizer=tokenizer)
    loaded = load_model(tmp_path / "m")
    assert loaded.config == model.config
    assert loaded.new_parts == ()
    assert_same_weights(loaded.model, model)
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "m").eval()
    for ids in IDS:
        ours = model(Tokens.from_lists([ids])).last_TD
        torch.testing.assert_close(theirs(torch.tensor([ids])).last_hidden_state[0], ours, atol=2e-5, rtol=0)
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    assert their_tokenizer("w3 w4 zzz")["input_ids"] == [2, 8, 9, 1, 3]


@pytest.mark.parametrize(
    ("shape", "heads", "their_class"),
    [
        ("all shared", {"mlm": None, "sop": None}, transformers.AlbertForPreTraining),
        ("2 inner groups", {"mlm": None, "sop": None}, transformers.AlbertForPreTraining),
        ("bert", {"mlm": None, "nsp": None}, transformers.BertForPreTraining),
    ],
)
def test_saving_in_a_pretraining_class_of_transformers_changes_no_bit(shape, heads, their_class, tmp_path):
    model = build(SHAPES[shape], heads=heads)
    save_model(tmp_path / "ours", model)
    theirs, report = their_class.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    theirs.save_pretrained(tmp_path / "theirs")
    assert_same_weights(load_model(tmp_path / "theirs").model, model)


@pytest.mark.parametrize("shape", ["all shared", "bert"])
@pytest.mark.parametrize(
    ("heads", "their_class"),
    [
        ({"classification": 3}, "AutoModelForSequenceClassification"),
        ({"classification": 1}, "AutoModelForSequenceClassification"),
        ({"token_classification": 3}, "AutoModelForTokenClassification"),
        ({"span": None}, "AutoModelForQuestionAnswering"),
        ({"choice": None}, "AutoModelForMultipleChoice"),
        ({"mlm": None}, "AutoModelForMaskedLM"),
        ({"beam_span": None}, "AutoModel"),
    ],
)
def test_heads_open_in_their_class_and_are_read_back(heads, their_class, shape, tmp_path):
    model = build(SHAPES[shape], heads=heads)
    labels = ("a", "b", "c") if 3 in heads.values() else ()
    save_model(tmp_path, model, labels=labels)
    theirs, report = getattr(transformers, their_class).from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"] or their_class == "AutoModel"  # has a pooler
    if labels:
        assert theirs.config.id2label == {0: "a", 1: "b", 2: "c"}
    if 1 in heads.values():
        assert theirs.config.num_labels == 1
    loaded = load_model(tmp_path)
    assert list(loaded.model.heads) == list(heads)
    assert loaded.folder_config.labels == (labels or ("LABEL_0",) * heads.get("classification", 0))
    assert_same_weights(loaded.model, model)


def test_tensors_that_transformers_cannot_share_are_repeated_and_tied_again(tmp_path):
    model = build({"sharing": "attention"})
    save_model(tmp_path, model)
    written = load_file(tmp_path / "model.safetensors")
    queries = [tensor for name, tensor in written.items() if name.endswith("attention.query.weight")]
    assert len(queries) == 4
    assert all(torch.equal(queries[0], query) for query in queries)
    loaded = load_model(tmp_path).model
    assert sum(p.numel() for p in loaded.parameters()) == sum(p.numel() for p in model.parameters())


LAYER = "albert.encoder.albert_layer_groups.2.albert_layers.0"


@pytest.mark.parametrize(
    ("changes", "name", "addend", "value"),
    [
        ({"sharing": "ffn"}, f"{LAYER}.ffn.bias", 1.0, LAYER),
        ({"embedding_size": 16}, "albert.encoder.embedding_hidden_mapping_in.bias", 1.0, "has_embedding_map"),
        ({}, "predictions.decoder.weight", torch.zeros(30, 8), "predictions.decoder.weight"),
    ],
)
def test_tensors_that_contradict_the_config_are_rejected(changes, name, addend, value, tmp_path):
    """Repeated tensors that differ, a map that is not the identity, an output table of its own."""
    save_model(tmp_path, build(changes))
    tensors = load_file(tmp_path / "model.safetensors")
    tensors[name] = tensors.get(name, 0) + addend
    save_file(tensors, tmp_path / "model.safetensors")
    with rejects(WeightsError, value):
        load_model(tmp_path)


def test_missing_heads_are_initialized_and_named(tmp_path):
    model = build({}, heads={"classification": 3})
    save_model(tmp_path, model)
    for heads, names in [
        ({"classification": 2}, ("heads.classification",)),  # RTE, with two labels, from MNLI, with three
        ({"sop": None}, ("heads.sop",)),
        ({"token_classification": 3}, ("heads.token_classification",)),
    ]:
        with pytest.warns(NewWeightsWarning, match=names[0]):
            loaded = load_model(tmp_path, heads=heads, seed=7)
        assert loaded.new_parts == names
        assert torch.equal(loaded.model.encoder.embeddings.word.weight, model.encoder.embeddings.word.weight)
        with pytest.warns(NewWeightsWarning):
            assert_same_weights(loaded.model, load_model(tmp_path, heads=heads, seed=7).model)
    save_model(tmp_path, build({}, heads={"mlm": None}))
    with pytest.warns(NewWeightsWarning, match=r"pooler, heads\.sop"):
        load_model(tmp_path, heads={"mlm": None, "sop": None})


def test_a_single_file_and_a_pickled_one_are_read(tmp_path):
    model = build({})
    save_model(tmp_path, model)
    assert_same_weights(load_model(tmp_path / "model.safetensors").model, model)
    tensors = load_file(tmp_path / "model.safetensors")
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    assert_same_weights(load_model(tmp_path).model, model)
    assert_same_weights(load_model(tmp_path / "pytorch_model.bin").model, model)


def test_older_spellings_are_read(tmp_path):
    """Files without the prefix, with position ids, gamma and beta."""
    model = build({}, heads={"mlm": None, "sop": None})
    save_model(tmp_path, model)
    tensors = {
        name.replace("albert.", "", 1)
        .replace("LayerNorm.weight", "LayerNorm.gamma")
        .replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in load_file(tmp_path / "model.safetensors").items()
    }
    assert sum(name.endswith(".beta") for name in tensors) > 1
    tensors["embeddings.position_ids"] = torch.arange(64)
    save_file(tensors, tmp_path / "model.safetensors")
    assert_same_weights(load_model(tmp_path).model, model)


def test_without_architectures_a_head_is_found_by_its_shape(tmp_path):
    save_model(tmp_path, build({}, heads={"classification": 3}))
    config = json.loads((tmp_path / "config.json").read_text())
    del config["architectures"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load_model(tmp_path, heads={"token_classification": 3}).new_parts == ()


def test_nothing_is_written_for_wrong_arguments(tmp_path):
    with rejects(InputError, "2 labels", "3 outputs"):
        save_model(tmp_path / "m", build({}, heads={"classification": 3}), labels=["a", "b"])
    tokenizer = load_tokenizer(write_vocabulary(tmp_path / "vocab.txt", WORDS))
    with rejects(WeightsError, len(WORDS), 29):
        save_model(tmp_path / "m", build({"vocab_size": 29}), tokenizer=tokenizer)
    (tmp_path / "thesis.tex").write_text("years of work")
    with rejects(InputError, "thesis.tex"):
        save_model(tmp_path, build({}))
    assert {path.name for path in tmp_path.iterdir()} == {"vocab.txt", "thesis.tex"}


def test_a_pair_head_of_the_other_family_is_not_declared(tmp_path):
    """AlbertForPreTraining would initialize the sentence-order head that this folder lacks."""
    save_model(tmp_path, build({}, heads={"mlm": None, "nsp": None}))
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["AlbertForMaskedLM"]
    assert list(load_model(tmp_path).model.heads) == ["mlm", "nsp"]
