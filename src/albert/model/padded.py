"""A module with Hugging Face's call: padded ids and a mask → padded hidden states.

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
        if input_ids.ndim != 2:
            raise InputError(
                f"input_ids have the shape {tuple(input_ids.shape)}; give one row for each sequence, [B, L]"
            )
        limit = self.model.config.max_position_embeddings
        if input_ids.shape[1] > limit:
            raise InputError(
                f"a padded batch is {input_ids.shape[1]} wide and the model has {limit} positions; shorten it"
            )
        mask_BL = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        segments_BL = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        for name, values in (("attention_mask", mask_BL), ("token_type_ids", segments_BL)):
            if values.shape != input_ids.shape:
                raise InputError(
                    f"{name} has the shape {tuple(values.shape)} and input_ids {tuple(input_ids.shape)}; "
                    "give equal ones"
                )
        tokens = Tokens.from_padded(input_ids, mask_BL, segments_BL)
        self._check_numbers(tokens)
        last_TD = self.model(tokens).last_TD
        padded_BLD = last_TD.new_zeros(*input_ids.shape, last_TD.shape[1])
        padded_BLD = padded_BLD.masked_scatter(mask_BL.bool().unsqueeze(-1), last_TD)
        pooled_BD = None if self.model.pooler is None else self.model.pool(last_TD, tokens)
        return PaddedOutput(padded_BLD, pooled_BD)

    def _check_numbers(self, tokens: Tokens) -> None:
        """At real tokens; whatever stands in the padding is not read."""
        config = self.model.config
        for name, values_T, size in (
            ("input_ids", tokens.ids_T, config.vocab_size),
            ("token_type_ids", tokens.segments_T, config.type_vocab_size),
        ):
            if values_T.is_floating_point() or values_T.dtype == torch.bool:
                raise InputError(f"{name} are of type {values_T.dtype}; give whole numbers (torch.long)")
            least, most = (int(value) for value in values_T.aminmax())
            if least < 0 or most >= size:
                odd = least if least < 0 else most
                raise InputError(f"{name} hold {odd}; the model knows 0 to {size - 1}")
