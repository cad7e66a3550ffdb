"""A pair so small that a process spends its time on starting: what the studies of pairs are tested with."""

from typing import Any

TOY_MODEL: dict[str, Any] = {
    "vocab_size": 120,
    "embedding_size": 8,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 16,
}
TOY: dict[str, Any] = {
    "shapes": ("nano",),
    "model": TOY_MODEL,
    "length": 8,
    "num_steps": 1,
    "num_threads": 1,
}


def count_by_hand() -> tuple[int, int]:
    """Parameters of both sides with their heads: ALBERT's and BERT's."""
    v, e, h, f, layers, positions = 120, 8, 16, 32, 3, 16
    block = 4 * (h * h + h) + 2 * h + (h * f + f) + (f * h + h) + 2 * h
    pooler, pair = h * h + h, 2 * h + 2

    def count(e: int, num_blocks: int, word_map: int) -> int:
        embeddings = (v + positions + 2) * e + 2 * e
        words = h * e + e + 2 * e + v
        return embeddings + word_map + num_blocks * block + pooler + words + pair

    return count(e, 1, e * h + h), count(h, layers, 0)
