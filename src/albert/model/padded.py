"""For code that speaks Hugging Face's call: padded ids and a mask come in, padded hidden states go out.

Shapes: T tokens, B sequences, L longest sequence, D hidden width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from albert.errors import InputError
from albert.model.albert_model import AlbertModel
from albert.model.tokens import Tokens


@dataclass(frozen=True)
class PaddedOutput:
    """Named as in `transformers`; hidden states are zero at the padding."""

    last_hidden_state: Tensor
    pooler_output: Tensor | None


class PaddedModel(nn.Module):
    """The border to padded code: drops the padding, runs the flat model, and puts zeros back."""

    def __init__(self, model: AlbertModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> PaddedOutput:
        """`attention_mask` is 1 at real tokens (all by default), `token_type_ids` the segments (0)."""
        limit = self.model.config.max_position_embeddings
        if input_ids.shape[1] > limit:
            raise InputError(
                f"a padded batch is {input_ids.shape[1]} wide and the model has {limit} positions; shorten it"
            )
        mask_BL = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        segments_BL = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        tokens = Tokens.from_padded(input_ids, mask_BL, segments_BL)
        last_TD = self.model(tokens).last_TD
        padded_BLD = last_TD.new_zeros(*input_ids.shape, last_TD.shape[1])
        padded_BLD = padded_BLD.masked_scatter(mask_BL.bool().unsqueeze(-1), last_TD)
        pooled_BD = None if self.model.pooler is None else self.model.pool(last_TD, tokens)
        return PaddedOutput(padded_BLD, pooled_BD)
