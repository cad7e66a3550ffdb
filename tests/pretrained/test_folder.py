"""Our folder is Hugging Face's: what we write it opens, what it writes we open, and nothing is lost."""

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

TINY = {
    "vocab_size": 30,
    "embedding_size": 8,
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}
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


def write_vocab(folder):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(25))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    return load_tokenizer(folder)


def assert_same_weights(one, other):
    ours, theirs = one.state_dict(), other.state_dict()
    assert list(ours) == list(theirs)
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


@pytest.mark.parametrize("changes", SHAPES.values(), ids=SHAPES)
def test_what_we_write_we_read_back_bit_for_bit(changes, tmp_path):
    model = build(changes)
    save_model(tmp_path / "m", model)
    loaded = load_model(tmp_path / "m")
    assert loaded.config == model.config
    assert loaded.new_parts == ()
    assert_same_weights(loaded.model, model)


@pytest.mark.parametrize("changes", SHAPES.values(), ids=SHAPES)
def test_auto_classes_open_what_we_write_and_compute_the_same(changes, tmp_path):
    model = build(changes)
    (tmp_path / "v").mkdir()
    tokenizer = write_vocab(tmp_path / "v")
    save_model(tmp_path / "m", model, tokenizer=tokenizer)
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "m").eval()
    for ids in IDS:
        ours = model(Tokens.from_lists([ids])).last_TD
        torch.testing.assert_close(theirs(torch.tensor([ids])).last_hidden_state[0], ours, atol=2e-5, rtol=0)
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    assert their_tokenizer("w3 w4 zzz")["input_ids"] == [2, 8, 9, 1, 3]


@pytest.mark.parametrize("changes", [SHAPES["all shared"], SHAPES["2 inner groups"]])
def test_through_transformers_pretraining_class_and_back_is_bit_identical(changes, tmp_path):
    model = build(changes)
    save_model(tmp_path / "ours", model)
    theirs, report = transformers.AlbertForPreTraining.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    theirs.save_pretrained(tmp_path / "theirs")
    assert_same_weights(load_model(tmp_path / "theirs").model, model)


def test_bert_goes_through_its_pretraining_class_too(tmp_path):
    model = build(SHAPES["bert"], heads={"mlm": None, "nsp": None})
    save_model(tmp_path / "ours", model)
    theirs, report = transformers.BertForPreTraining.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    theirs.save_pretrained(tmp_path / "theirs")
    assert_same_weights(load_model(tmp_path / "theirs").model, model)


@pytest.mark.parametrize(
    ("heads", "their_class"),
    [
        ({"classification": 3}, "AutoModelForSequenceClassification"),
        ({"token_classification": 3}, "AutoModelForTokenClassification"),
        ({"span": None}, "AutoModelForQuestionAnswering"),
        ({"choice": None}, "AutoModelForMultipleChoice"),
        ({"mlm": None}, "AutoModelForMaskedLM"),
    ],
)
@pytest.mark.parametrize("shape", ["all shared", "bert"])
def test_fine_tuned_heads_open_in_their_class_and_come_back_as_themselves(
    heads, their_class, shape, tmp_path
):
    model = build(SHAPES[shape], heads=heads)
    labels = ("a", "b", "c") if next(iter(heads.values())) else ()
    save_model(tmp_path, model, labels=labels)
    theirs, report = getattr(transformers, their_class).from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    if labels:
        assert theirs.config.id2label == {0: "a", 1: "b", 2: "c"}
    loaded = load_model(tmp_path)
    assert list(loaded.model.heads) == list(heads)
    assert loaded.folder_config.labels == labels
    assert_same_weights(loaded.model, model)


def test_the_beam_head_has_a_folder_of_its_own(tmp_path):
    model = build({}, heads={"beam_span": None})
    save_model(tmp_path, model)
    assert_same_weights(load_model(tmp_path).model, model)
    assert transformers.AutoModel.from_pretrained(tmp_path).config.hidden_size == 16


def test_what_their_classes_cannot_share_is_repeated_and_tied_again(tmp_path):
    model = build({"sharing": "attention"})
    save_model(tmp_path, model)
    written = load_file(tmp_path / "model.safetensors")
    queries = [tensor for name, tensor in written.items() if name.endswith("attention.query.weight")]
    assert len(queries) == 4
    assert all(torch.equal(queries[0], query) for query in queries)
    loaded = load_model(tmp_path).model
    assert sum(p.numel() for p in loaded.parameters()) == sum(p.numel() for p in model.parameters())


def test_repeated_tensors_that_differ_are_not_tied_in_silence(tmp_path):
    save_model(tmp_path, build({"sharing": "ffn"}))
    change_tensor(tmp_path, "albert.encoder.albert_layer_groups.2.albert_layers.0.ffn.bias", 1.0)
    with pytest.raises(WeightsError, match=r"groups\.0.*groups\.2.*differ"):
        load_model(tmp_path)


def test_a_map_that_should_be_the_identity_and_is_not_is_rejected(tmp_path):
    save_model(tmp_path, build({"embedding_size": 16}))
    change_tensor(tmp_path, "albert.encoder.embedding_hidden_mapping_in.bias", 1.0)
    with pytest.raises(WeightsError, match="not the identity"):
        load_model(tmp_path)


def change_tensor(folder, name, addend):
    tensors = load_file(folder / "model.safetensors")
    tensors[name] = tensors[name] + addend
    save_file(tensors, folder / "model.safetensors")


def test_a_missing_tensor_is_listed(tmp_path):
    save_model(tmp_path, build({}))
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match=r"lacks encoder\.ffn\.0\.inner\.weight"):
        load_model(tmp_path)


def test_a_left_over_tensor_is_listed(tmp_path):
    save_model(tmp_path, build({}))
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["albert.encoder.surprise.weight"] = torch.zeros(2)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match=r"unknown tensors albert\.encoder\.surprise\.weight"):
        load_model(tmp_path)


def test_a_tensor_of_another_shape_is_named_with_both_shapes(tmp_path):
    save_model(tmp_path, build({}))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "intermediate_size": 64}))
    with pytest.raises(WeightsError, match=r"inner\.weight .*\[32, 16\].*\[64, 16\]"):
        load_model(tmp_path)


def test_a_head_that_a_folder_lacks_starts_fresh_and_is_named(tmp_path):
    model = build({})
    save_model(tmp_path, model)
    with pytest.warns(NewWeightsWarning, match=r"no weights for heads\.classification"):
        loaded = load_model(tmp_path, heads={"classification": 2}, seed=7)
    assert loaded.new_parts == ("heads.classification",)
    assert torch.equal(loaded.model.pooler.weight, model.pooler.weight)
    assert 0 < loaded.model.head("classification").linear.weight.abs().max() <= 0.04
    with pytest.warns(NewWeightsWarning):
        again = load_model(tmp_path, heads={"classification": 2}, seed=7)
    assert_same_weights(loaded.model, again.model)


def test_a_missing_pooler_is_named_with_the_head_that_needs_it(tmp_path):
    save_model(tmp_path, build({}, heads={"mlm": None}))
    with pytest.warns(NewWeightsWarning, match=r"pooler, heads\.sop"):
        load_model(tmp_path, heads={"mlm": None, "sop": None})


def test_a_single_file_and_a_pickled_one_load_too(tmp_path):
    model = build({})
    save_model(tmp_path, model)
    assert_same_weights(load_model(tmp_path / "model.safetensors").model, model)
    tensors = load_file(tmp_path / "model.safetensors")
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    assert_same_weights(load_model(tmp_path).model, model)
    assert_same_weights(load_model(tmp_path / "pytorch_model.bin").model, model)


def test_older_spellings_are_read(tmp_path):
    """Files without the prefix, with position ids and with gamma and beta, as older programs wrote them."""
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


def test_an_output_table_that_is_not_the_word_table_is_rejected(tmp_path):
    save_model(tmp_path, build({}))
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["predictions.decoder.weight"] = torch.zeros(30, 8)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match=r"predictions\.decoder\.weight differs"):
        load_model(tmp_path)


def test_half_precision_on_disk_is_float32_in_memory(tmp_path):
    model = build({})
    save_model(tmp_path, model, dtype=torch.float16)
    loaded = load_model(tmp_path).model
    for name, tensor in loaded.state_dict().items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, model.state_dict()[name].half().float())


def test_labels_must_be_as_many_as_outputs(tmp_path):
    with pytest.raises(InputError, match="2 labels for a classification head of 3 outputs"):
        save_model(tmp_path / "m", build({}, heads={"classification": 3}), labels=["a", "b"])
    assert not (tmp_path / "m").exists()


def test_a_vocabulary_that_does_not_fit_is_rejected_before_anything_is_written(tmp_path):
    tokenizer = write_vocab(tmp_path)
    with pytest.raises(WeightsError, match="30 tokens and the embedding table 29 rows"):
        save_model(tmp_path / "m", build({"vocab_size": 29}), tokenizer=tokenizer)
    assert not (tmp_path / "m").exists()


def test_a_folder_that_holds_anything_else_is_never_replaced(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"holds thesis\.tex"):
        save_model(tmp_path, build({}))
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_loaded_model_does_not_change_when_its_file_is_written_over(tmp_path):
    save_model(tmp_path / "one", build({}, seed=1))
    save_model(tmp_path / "other", build({}, seed=2))
    loaded = load_model(tmp_path / "one").model
    before = loaded.pooler.weight.clone()
    (tmp_path / "one" / "model.safetensors").write_bytes(
        (tmp_path / "other" / "model.safetensors").read_bytes()
    )
    assert torch.equal(loaded.pooler.weight, before)


def test_a_declared_head_is_not_taken_for_another(tmp_path):
    save_model(tmp_path, build({}, heads={"classification": 3}))
    with pytest.warns(NewWeightsWarning, match=r"heads\.token_classification"):
        load_model(tmp_path, heads={"token_classification": 3})
    config = json.loads((tmp_path / "config.json").read_text())
    del config["architectures"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load_model(tmp_path, heads={"token_classification": 3}).new_parts == ()


def test_a_task_with_other_labels_starts_from_a_fine_tuned_model(tmp_path):
    """As RTE, with two labels, starts from MNLI, with three."""
    model = build({}, heads={"classification": 3})
    save_model(tmp_path, model)
    with pytest.warns(NewWeightsWarning, match=r"heads\.classification"):
        loaded = load_model(tmp_path, heads={"classification": 2})
    assert loaded.model.head("classification").linear.weight.shape == (2, 16)
    assert torch.equal(loaded.model.pooler.weight, model.pooler.weight)


@pytest.mark.parametrize("num_labels", [1, 3])
def test_heads_without_named_labels_open_in_transformers_too(num_labels, tmp_path):
    save_model(tmp_path, build({}, heads={"classification": num_labels}))
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert theirs.config.num_labels == num_labels


def test_a_pair_head_of_the_other_family_is_declared_as_masked_words_only(tmp_path):
    """AlbertForPreTraining would draw the sentence-order head that this folder lacks."""
    save_model(tmp_path, build({}, heads={"mlm": None, "nsp": None}))
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["AlbertForMaskedLM"]
    assert list(load_model(tmp_path).model.heads) == ["mlm", "nsp"]
