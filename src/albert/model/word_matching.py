"""Attention heads that are kept to attending to the same word.

To compare two texts a model must first see which words they share. A head whose queries and keys are the same
map of the word alone, wherever it stands, sees just that: it looks at itself and at every other occurrence,
and what it brings back tells whether any of these lies in the other segment. Small models do not find such
heads by themselves, and masked words soon make something else of heads that only began as such (docs/log.md):
so they are held to it, in step with the embeddings, for as long as a model is pretrained.

Shapes: V words, L positions, S segments, E embedding width, D hidden width, H width of a head, R directions
that are left out.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from albert.errors import InputError
from albert.model.blocks import AttentionBlock
from albert.model.encoder import Embeddings, Encoder

# What a word and itself have before the softmax: against a hundred others, about half of all that is seen.
_OWN_WORD = 5.0
# The share of the embedding's directions that positions take up most, and that matching leaves out.
_POSITION_SHARE = 1 / 3
# So many words tell how large they are.
_NUM_WORDS = 1000


class WordMatching:
    """The first `num_heads` heads of every block, and the directions in which each compares words.

    Directions are the same for every model of a shape, so that pretraining may go on in another run. Refused:
    more heads than there are, and embeddings that are wider than the hidden layers.
    """

    def __init__(self, encoder: Encoder, *, num_heads: int) -> None:
        self.tables: Embeddings = encoder.embeddings
        self.blocks = [part for part in encoder.modules() if isinstance(part, AttentionBlock)]
        width, hidden_size = self.tables.word.weight.shape[1], self.blocks[0].query.weight.shape[0]
        most = self.blocks[0].num_heads
        if num_heads > most:
            raise InputError(f"num_matching_heads {num_heads} exceeds the model's {most} heads; lower it")
        if width > hidden_size:
            raise InputError(
                f"num_matching_heads needs embeddings no wider than the hidden layers, and embedding_size "
                f"{width} is wider than hidden_size {hidden_size}; set num_matching_heads=0"
            )
        num_segments = self.tables.segment.weight.shape[0]
        if _count_left_out(width) + num_segments + 1 >= width:
            raise InputError(
                f"num_matching_heads needs wider embeddings: of embedding_size {width}, positions and "
                f"{num_segments} segments leave nothing to know words by; set num_matching_heads=0"
            )
        head_width = hidden_size // most
        shape, generator = (num_heads, head_width, width), torch.Generator().manual_seed(0)
        self._directions_NHE = torch.randn(shape, generator=generator, dtype=torch.float64)

    @torch.no_grad()
    def apply(self) -> None:
        """Make the heads of what the embeddings are now."""
        map_RD = self._find_map()
        for block in self.blocks:
            for part in (block.query, block.key):
                part.weight[: len(map_RD)] = map_RD.to(part.weight)
                part.bias[: len(map_RD)] = 0.0

    def hold(self, optimizer: torch.optim.Optimizer) -> None:
        """Let no step of the optimiser move the heads but with the embeddings."""
        num_rows = self._directions_NHE.shape[0] * self._directions_NHE.shape[1]

        def clear(*_: Any) -> None:
            for block in self.blocks:
                for part in (block.query, block.key):
                    for tensor in (part.weight.grad, part.bias.grad):
                        if tensor is not None:
                            tensor[:num_rows] = 0.0

        optimizer.register_step_pre_hook(clear)
        optimizer.register_step_post_hook(lambda *_: self.apply())

    def _find_map(self) -> Tensor:
        """From hidden vectors to the queries of all matching heads, which are their keys too.

        Words are compared as they come out of the embeddings' map, in its own directions. Undoing the map
        instead would blow up whatever it hardly lets through (gradients of 263 after 890 steps). They are
        taken to be no longer than what the layers' norms let out: were the map made for longer ones too, a
        model could quieten these heads in later layers by long embeddings, and does (docs/log.md).
        """
        basis_DE, inside_EE = torch.linalg.qr(self._read_map())
        word_VE, position_LE, segment_SE = (_center(table) @ inside_EE.T for table in self._read_tables())
        word_EE = _leave_out(position_LE, torch.cat([segment_SE, word_VE.mean(0, keepdim=True)]))
        hidden_VE = torch.renorm(self._list_vectors() @ inside_EE.T, 2, 0, math.sqrt(len(basis_DE)))
        queries_NHV = self._directions_NHE @ word_EE @ hidden_VE.T
        own = float(queries_NHV.square().sum(1).mean()) / math.sqrt(queries_NHV.shape[1])
        directions_NHE = math.sqrt(_OWN_WORD / own) * self._directions_NHE
        map_RD: Tensor = (directions_NHE @ word_EE @ basis_DE.T).flatten(0, 1)
        return map_RD

    def _list_vectors(self) -> Tensor:
        """Words somewhere, as the norm of the embeddings scales them."""
        word_VE, position_LE, segment_SE = self._read_tables()
        number_V = torch.arange(len(word_VE))
        x_VE = word_VE + position_LE[number_V % len(position_LE)] + segment_SE[number_V % len(segment_SE)]
        return F.layer_norm(x_VE, x_VE.shape[1:])

    def _read_tables(self) -> tuple[Tensor, Tensor, Tensor]:
        """Some of the words, all positions and all segments."""
        tables = self.tables
        stride = max(1, tables.word.weight.shape[0] // _NUM_WORDS)
        weights = (tables.word.weight[::stride], tables.position.weight, tables.segment.weight)
        # First to the CPU: not every device knows double precision.
        word_VE, position_LE, segment_SE = (weight.detach().cpu().double() for weight in weights)
        return word_VE, position_LE, segment_SE

    def _read_map(self) -> Tensor:
        """From the embeddings, once they are scaled, to hidden vectors."""
        gain_E = self.tables.norm.weight.detach().cpu().double()
        if self.tables.map is None:
            return torch.diag(gain_E)
        return self.tables.map.weight.detach().cpu().double() * gain_E


def _center(table: Tensor) -> Tensor:
    """As the norm does it: what all numbers of a vector have in common is lost."""
    return table - table.mean(1, keepdim=True)


def _count_left_out(width: int) -> int:
    """So many directions of the embeddings belong to positions."""
    return round(width * _POSITION_SHARE)


def _leave_out(position_LE: Tensor, others_RE: Tensor) -> Tensor:
    """The projection on what tells neither places nor those others."""
    num_places = _count_left_out(position_LE.shape[1])
    place_RE = torch.linalg.eigh(position_LE.T @ position_LE).eigenvectors.T[-num_places:]
    other_ER = torch.linalg.qr(torch.cat([place_RE, others_RE]).T).Q
    word_EE: Tensor = torch.eye(len(other_ER), dtype=torch.float64) - other_ER @ other_ER.T
    return word_EE
