"""The encoder as a torch module, called with lists of ids or with padded tensors.

Shapes: T tokens, B sequences, L longest sequence, D hidden width.
"""

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from albert.errors import InputError
from albert.model.albert_model import AlbertModel
from albert.model.runtime import select_device
from albert.model.tokens import Tokens
from albert.pretrained.folder import load_model

# Lists of ids, tensors or arrays; or one rectangular tensor or array.
Rows = Iterable[Any]


def load_encoder(
    source: str | Path, *, device: str = "auto", revision: str | None = None
) -> "SequenceEncoder":
    """Load a model without its heads, in evaluation mode.

    >>> encoder = albert.load_encoder("folder")
    >>> first, second = encoder([[2, 17, 45, 3], [2, 9, 3]])  # lists of ids in, [length, hidden_size] out
    """
    pretrained = load_model(source, heads={}, revision=revision, device=select_device(device))
    return SequenceEncoder(pretrained.model).eval()


class SequenceEncoder(nn.Module):
    """An encoder of lists of ids, without a tokenizer, padding or masks; an ordinary torch module."""

    def __init__(self, model: AlbertModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Rows, *, segments: Rows | None = None, depth: int | None = None) -> list[Tensor]:
        """Return the last hidden states [length, hidden_size] of each sequence of ids."""
        config = self.model.config
        tokens = Tokens.from_lists(
            _read_rows(ids, size=config.vocab_size, name="ids"),
            None if segments is None else _read_rows(segments, size=config.type_vocab_size, name="segments"),
            device=self.model.device,
        )
        return list(self.model(tokens, depth=depth).last_TD.split(tokens.lengths))


def _read_rows(rows: Rows, *, size: int, name: str) -> list[list[int]]:
    lists = []
    for number, row in enumerate(rows, start=1):
        values = row.tolist() if hasattr(row, "tolist") else row
        try:
            numbers = [operator.index(value) for value in values]
        except TypeError as error:
            raise InputError(f"{name} must be lists of integers; item {number} is {values!r}") from error
        if wrong := [value for value in numbers if not 0 <= value < size]:
            raise InputError(f"{name} must be from 0 to {size - 1}; sequence {number} has {wrong[0]}")
        lists.append(numbers)
    return lists


@dataclass(frozen=True)
class PaddedOutput:
    """The output of `PaddedModel`, named as in `transformers`; hidden states are zero at the padding."""

    last_hidden_state: Tensor
    pooler_output: Tensor | None


class PaddedModel(nn.Module):
    """A model with Hugging Face's call: removes the padding, runs the flat model, and pads the result."""

    def __init__(self, model: AlbertModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> PaddedOutput:
        """Encode ids [B, L]; the mask is 1 at real tokens, all by default, and segments are 0 by default."""
        config = self.model.config
        mask_BL = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        segments_BL = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        for name, values in (("attention_mask", mask_BL), ("token_type_ids", segments_BL)):
            if input_ids.ndim != 2 or values.shape != input_ids.shape:
                raise InputError(
                    f"input_ids have the shape {tuple(input_ids.shape)} and {name} {tuple(values.shape)}; "
                    "both must be [sequences, tokens]"
                )
        tokens = Tokens.from_padded(input_ids, mask_BL, segments_BL)
        for name, values_T, size in (
            ("input_ids", tokens.ids_T, config.vocab_size),
            ("token_type_ids", tokens.segments_T, config.type_vocab_size),
        ):
            if wrong := values_T[(values_T < 0) | (values_T >= size)].tolist():
                raise InputError(f"{name} must be from 0 to {size - 1}, not {wrong[0]}")
        last_TD = self.model(tokens).last_TD
        padded_BLD = last_TD.new_zeros(*input_ids.shape, last_TD.shape[1])
        padded_BLD = padded_BLD.masked_scatter(mask_BL.bool().unsqueeze(-1), last_TD)
        pooled_BD = None if self.model.pooler is None else self.model.pool(last_TD, tokens)
        return PaddedOutput(padded_BLD, pooled_BD)
