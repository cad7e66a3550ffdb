"""A config.json that is damaged or describes another architecture is rejected with the key and the value."""

from tests.faults.damages import change_config, check_rejected, damages, drop_from_config, remove, write


@damages(
    (change_config(num_attention_heads=5), "hidden_size 32", "num_attention_heads 5"),
    (change_config(num_hidden_groups=4), "num_hidden_groups 4", "num_hidden_layers 3"),
    (change_config(hidden_size=0), "hidden_size is 0"),
    (change_config(num_hidden_layers=10**9), "num_hidden_layers is 1000000000", "1024"),
    (change_config(vocab_size=10**30), f"vocab_size is {10**30}"),
    (change_config(num_hidden_layers=2.5), "num_hidden_layers is 2.5"),
    (change_config(hidden_size="32"), "hidden_size is '32'"),
    (change_config(hidden_dropout_prob=1.0), "hidden_dropout_prob is 1.0"),
    (change_config(layer_norm_eps=float("inf")), "layer_norm_eps is inf", "0.1"),
    (change_config(vocab_size=60), "[60, 16]"),
    (change_config(max_position_embeddings=512), "[512, 16]"),
    (change_config(hidden_act="swish"), "hidden_act is 'swish'", "gelu_new"),
    (change_config(model_type="roberta"), "model_type is 'roberta'", "albert"),
    (change_config(is_decoder=True), "is_decoder is true"),
    (change_config(position_embedding_type="relative_key"), "position_embedding_type is 'relative_key'"),
    (drop_from_config("hidden_size"), "hidden_size"),
    (change_config(num_attention_heads=None), "num_attention_heads"),
    (change_config(id2label={"x": "good"}), "id2label"),
    (write("config.json", b'{"hidden_size": 32,\n"vocab_size": }'), "line 2"),
    (write("config.json", b""), "line 1"),
    (write("config.json", b"[1, 2]"), "object"),
    (write("config.json", b"\xff\xfe\x00"), "UTF-8"),
    (remove("config.json"), "No such file"),
)
def test_a_damaged_config_is_rejected_and_nothing_is_written(damage, values, run_albert, tiny_copy):
    check_rejected(damage, ["config.json", *values], run_albert, tiny_copy)
