"""Heads that begin by looking for the same word: an encoder with fresh weights comes in and leaves with them.

To compare two texts a model must first see which words they share. A head whose queries and keys are the same
map of the word alone, wherever it stands, sees just that: it looks at itself and at every other occurrence,
and what it brings back tells whether any of these lies in the other segment. Small models hardly find such
heads by themselves (docs/log.md).

Shapes: E embedding width, D hidden width, H width of a head, R directions that are left out.
"""

import math

import torch
from torch import Tensor

from albert.errors import InputError
from albert.model.blocks import AttentionBlock
from albert.model.embeddings import Embeddings
from albert.model.encoder import Encoder

# What a word and itself have before the softmax: against a hundred others, about half of all that is seen.
_OWN_WORD = 5.0
# The share of the embedding's directions that positions take up most, and that matching leaves out.
_POSITION_SHARE = 1 / 3


@torch.no_grad()
def match_words(encoder: Encoder, *, num_heads: int) -> None:
    """Start the first `num_heads` heads of every block as ones that look for the same word.

    Refused: more heads than there are, and embeddings that are wider than the hidden layers.
    """
    tables = encoder.embeddings
    blocks = [part for part in encoder.modules() if isinstance(part, AttentionBlock)]
    word_ED = _find_word(tables)
    if word_ED.shape[0] > word_ED.shape[1]:
        raise InputError(
            f"num_matching_heads needs embeddings no wider than the hidden layers, and embedding_size "
            f"{word_ED.shape[0]} is wider than hidden_size {word_ED.shape[1]}; set num_matching_heads=0"
        )
    for block in blocks:
        if num_heads > block.num_heads:
            raise InputError(
                f"num_matching_heads {num_heads} exceeds the model's {block.num_heads} heads; lower it"
            )
        _match(block, word_ED, num_heads=num_heads, scale=_find_scale(tables, block))


def _match(block: AttentionBlock, word_ED: Tensor, *, num_heads: int, scale: float) -> None:
    width = block.query.weight.shape[0] // block.num_heads
    for head in range(num_heads):
        rows = slice(head * width, (head + 1) * width)
        # The weights that were drawn for the head, of which only the spread changes.
        drawn_HE = block.query.weight[rows, : word_ED.shape[0]].double()
        map_HD = scale * drawn_HE / drawn_HE.std() @ word_ED
        for part in (block.query, block.key):
            part.weight[rows] = map_HD.to(part.weight)


def _find_word(tables: Embeddings) -> Tensor:
    """The map from hidden vectors to what they say of the word, and nothing of its place and its segment."""
    position_LE, segment_SE = (table.weight.double() for table in (tables.position, tables.segment))
    num_left_out = round(position_LE.shape[1] * _POSITION_SHARE)
    place_RE = torch.linalg.svd(position_LE, full_matrices=False).Vh[:num_left_out]
    other_ER = torch.linalg.qr(torch.cat([place_RE, segment_SE]).T).Q
    word_EE = torch.eye(position_LE.shape[1], dtype=torch.float64) - other_ER @ other_ER.T
    return word_EE if tables.map is None else word_EE @ torch.linalg.pinv(tables.map.weight.double())


def _find_scale(tables: Embeddings, block: AttentionBlock) -> float:
    """The spread of a head's weights at which a word and itself have `_OWN_WORD` before the softmax."""
    spreads = [float(table.weight.double().var()) for table in (tables.word, tables.position, tables.segment)]
    num_directions = tables.word.weight.shape[1] * (1 - _POSITION_SHARE)
    of_word = num_directions * spreads[0] / sum(spreads)  # of a vector that its norm has scaled
    head_width = block.query.weight.shape[0] // block.num_heads
    return math.sqrt(_OWN_WORD / (math.sqrt(head_width) * of_word))
