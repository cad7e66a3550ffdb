"""Write three small checkpoints with TensorFlow.

Run once, with TensorFlow 2, to make `tensorflow_albert/`, `tensorflow_shards/` and `tensorflow_unsupported/`:

    python tests/data/make_tensorflow_albert.py

TensorFlow is not a dependency: the checkpoints are in the repository, and the tests derive the expected
values from the names and shapes here.
"""

import json
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
ALBERT_PREFIX = HERE / "tensorflow_albert" / "model.ckpt-best"
SHARDS_PREFIX = HERE / "tensorflow_shards" / "model.ckpt-7"
UNSUPPORTED_PREFIX = HERE / "tensorflow_unsupported" / "model.ckpt-7"

V, E, H, F, P = 50, 8, 16, 32, 24  # vocabulary, embedding, hidden, FFN, positions

# The keys of the albert_config.json of the published checkpoints, in their order.
CONFIG = {
    "attention_probs_dropout_prob": 0, "hidden_act": "gelu", "hidden_dropout_prob": 0, "embedding_size": E,
    "hidden_size": H, "initializer_range": 0.02, "intermediate_size": F, "max_position_embeddings": P,
    "num_attention_heads": 2, "num_hidden_layers": 3, "num_hidden_groups": 1, "net_type": 0, "gap_size": 0,
    "num_memory_blocks": 0, "inner_group_num": 1, "down_scale_factor": 1, "type_vocab_size": 2,
    "vocab_size": V,
}  # fmt: skip

BLOCK = "bert/encoder/transformer/group_0/inner_group_0"


def linear(name: str, num_inputs: int, num_outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}/kernel": (num_inputs, num_outputs), f"{name}/bias": (num_outputs,)}


def norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}/beta": (width,), f"{name}/gamma": (width,)}


WEIGHTS: dict[str, tuple[int, ...]] = {
    "bert/embeddings/word_embeddings": (V, E),
    "bert/embeddings/token_type_embeddings": (2, E),
    "bert/embeddings/position_embeddings": (P, E),
    **norm("bert/embeddings/LayerNorm", E),
    **linear("bert/encoder/embedding_hidden_mapping_in", E, H),
    **linear(f"{BLOCK}/attention_1/self/query", H, H),
    **linear(f"{BLOCK}/attention_1/self/key", H, H),
    **linear(f"{BLOCK}/attention_1/self/value", H, H),
    **linear(f"{BLOCK}/attention_1/output/dense", H, H),
    **norm(f"{BLOCK}/LayerNorm", H),
    **linear(f"{BLOCK}/ffn_1/intermediate/dense", H, F),
    **linear(f"{BLOCK}/ffn_1/intermediate/output/dense", F, H),
    **norm(f"{BLOCK}/LayerNorm_1", H),
    **linear("bert/pooler/dense", H, H),
    **linear("cls/predictions/transform/dense", H, E),
    **norm("cls/predictions/transform/LayerNorm", E),
    "cls/predictions/output_bias": (V,),
    "cls/seq_relationship/output_weights": (2, H),
    "cls/seq_relationship/output_bias": (2,),
}

# The optimizer keeps two slots for every variable; two variables with theirs are enough here.
SLOTS: dict[str, tuple[int, ...]] = {
    f"{name}/{slot}": WEIGHTS[name]
    for name in ("bert/embeddings/word_embeddings", "bert/pooler/dense/bias")
    for slot in ("adam_m", "adam_v")
}

GLOBAL_STEP = np.array(125_000, dtype=np.int64)


def random_values(name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Float32 values in [-½, ½) derived from a name; numpy guarantees that the raw stream never changes."""
    raw = np.random.PCG64(zlib.crc32(name.encode())).random_raw(math.prod(shape))
    upper: NDArray[np.float32] = (raw >> np.uint64(40)).astype(np.float32).reshape(shape)
    values: NDArray[np.float32] = upper / np.float32(1 << 24) - np.float32(0.5)
    return values


def albert_tensors() -> dict[str, NDArray[Any]]:
    """The content of `tensorflow_albert/`: every weight, some optimizer slots, and the step."""
    random = {name: random_values(name, shape) for name, shape in (WEIGHTS | SLOTS).items()}
    return {**random, "global_step": GLOBAL_STEP}


def shard_tensors() -> list[dict[str, NDArray[Any]]]:
    """The content of the two data files of `tensorflow_shards/`; names with bfloat16 are stored as such."""
    return [
        {
            "a/float32": random_values("a/float32", (3, 4)),
            "a/float64": random_values("a/float64", (2, 2, 2)).astype(np.float64) / 3,
            "a/empty": np.zeros((0, 5), dtype=np.float32),
            "d/int64": np.array([[-(2**62), -1, 0], [1, 2, 2**62]]),
        },
        {
            "b/float16": random_values("b/float16", (5,)).astype(np.float16),
            "b/bfloat16": np.array([[1.0, -2.5, 0.0], [np.inf, 2.0**-126, 0.15625]], dtype=np.float32),
            "b/scalar_bfloat16": np.array(-3.0, dtype=np.float32),
            "c/int32": np.array([-(2**31), -1, 2**31 - 1], dtype=np.int32),
            "c/scalar": np.array(7, dtype=np.int32),
        },
    ]


def main() -> None:
    """Write the three checkpoints and the configuration with TensorFlow."""
    import tensorflow as tf

    def save(
        prefix: Path, tensors: Mapping[str, NDArray[Any] | str], slices: Mapping[str, str] | None = None
    ) -> None:
        tf.raw_ops.SaveV2(
            prefix=str(prefix),
            tensor_names=list(tensors),
            shape_and_slices=[(slices or {}).get(name, "") for name in tensors],
            tensors=[
                tf.constant(value, dtype=tf.bfloat16 if name.endswith("bfloat16") else None)
                for name, value in tensors.items()
            ],
        )

    for prefix in (ALBERT_PREFIX, SHARDS_PREFIX, UNSUPPORTED_PREFIX):
        prefix.parent.mkdir(exist_ok=True)

    save(ALBERT_PREFIX, albert_tensors())
    config_path = ALBERT_PREFIX.parent / "albert_config.json"
    config_path.write_text(json.dumps(CONFIG, indent=2) + "\n", encoding="utf-8")

    parts = [SHARDS_PREFIX.with_name(f"part-{part}") for part in range(2)]
    for part, tensors in zip(parts, shard_tensors(), strict=True):
        save(part, tensors)
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=[str(part) for part in parts],
        destination_prefix=str(SHARDS_PREFIX),
        delete_old_dirs=False,
    )

    # A variable of [4, 2] of which this file has the upper half, a text, and an ordinary variable.
    half = random_values("partitioned", (2, 2))
    save(
        UNSUPPORTED_PREFIX,
        {"partitioned": half, "text": "a graph", "kernel": random_values("kernel", (2, 2))},
        slices={"partitioned": "4 2 0,2:0,2"},
    )


if __name__ == "__main__":
    main()
