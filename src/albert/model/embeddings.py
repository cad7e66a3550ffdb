"""Factorised embeddings: ids, segments and positions come in, vectors of the encoder's width go out.

Shapes: T tokens, E embedding width, D hidden width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from albert.errors import InputError
from albert.model.config import ModelConfig


class Embeddings(nn.Module):
    """Three small tables of width E, one norm, and a map from E to D (paper, section 3.1).

    V·E + E·D parameters instead of V·D: words are looked up in a narrow space and widened once. There is
    no map where E = D, unless a loaded folder brought one.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.embedding_size
        self.word = _build_table(config.vocab_size, width)
        self.position = _build_table(config.max_position_embeddings, width)
        self.segment = _build_table(config.type_vocab_size, width)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.map = nn.Linear(config.embedding_size, config.hidden_size) if config.maps_embeddings else None
        self.dropout = config.hidden_dropout_prob

    def forward(self, ids_T: Tensor, segments_T: Tensor, positions_T: Tensor) -> Tensor:
        """Look up, add, normalise, drop, widen. Refused: two texts, by a model with one kind of segment."""
        if self.segment.num_embeddings == 1 and bool(segments_T.any()):
            raise InputError("this model has type_vocab_size 1 and cannot tell two texts apart; load another")
        x_TE = self.word(ids_T) + self.segment(segments_T) + self.position(positions_T)
        x_TE = F.dropout(self.norm(x_TE), self.dropout, self.training)
        return x_TE if self.map is None else self.map(x_TE)


def _build_table(num_rows: int, width: int) -> nn.Embedding:
    """A table of zeros, to be drawn with all weights: torch would import its compiler to draw mere shapes."""
    return nn.Embedding(num_rows, width, _weight=torch.zeros(num_rows, width))
