"""A config.json that is damaged, or asks for another model: refused in one line with the key and the hint."""

import pytest

from tests.faults.damages import Fault, change_config, check_refused, drop_from_config, remove, write

CONFIGS = [
    Fault(
        "width and heads at odds",
        change_config(num_attention_heads=5),
        ("config.json", "hidden_size 32 is not a multiple of num_attention_heads 5"),
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
        "norms that are none",
        change_config(layer_norm_eps=float("inf")),
        ("config.json", "layer_norm_eps is inf", "less than or equal to 0.1"),
    ),
    Fault(
        "another vocabulary size",
        change_config(vocab_size=60),
        ("config.json needs [60, 16]", "download both again"),
    ),
    Fault(
        "another depth of the tables",
        change_config(max_position_embeddings=512),
        ("config.json needs [512, 16]", "download both again"),
    ),
    Fault(
        "an unknown activation",
        change_config(hidden_act="swish"),
        ("config.json", "hidden_act is 'swish'", "only gelu_new"),
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
        ("config.json", "has no hidden_size", "give a model's config.json"),
    ),
    Fault(
        "a key without a value",
        change_config(num_attention_heads=None),
        ("config.json", "has no num_attention_heads", "give a model's config.json"),
    ),
    Fault(
        "a label without a number",
        change_config(id2label={"x": "good"}),
        ("config.json", "id2label"),
    ),
    Fault(
        "broken JSON",
        write("config.json", b'{"hidden_size": 32,\n"vocab_size": }'),
        ("config.json", "line 2 is not valid JSON", "download it again"),
    ),
    Fault(
        "an empty file",
        write("config.json", b""),
        ("config.json", "line 1 is not valid JSON", "download it again"),
    ),
    Fault(
        "a list",
        write("config.json", b"[1, 2]"),
        ("config.json", "not a JSON object", "give a model's config.json"),
    ),
    Fault("no text", write("config.json", b"\xff\xfe\x00"), ("config.json", "not UTF-8", "save it as UTF-8")),
    Fault("no config", remove("config.json"), ("config.json", "No such file", "check the path")),
]


@pytest.mark.parametrize("fault", CONFIGS, ids=lambda fault: fault.name)
def test_a_damaged_config_is_refused_and_nothing_is_written(fault, run_albert, tiny_copy):
    check_refused(fault, run_albert, tiny_copy)
