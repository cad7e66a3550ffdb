"""The encoder as a torch module that is called with lists of ids or with padded tensors.

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

# Lists of ids, or tensors or arrays of them; also a single two-dimensional tensor or array.
Rows = Iterable[Any]


def load_encoder(
    source: str | Path, *, device: str = "auto", revision: str | None = None
) -> "SequenceEncoder":
    """Load a model without its heads, in evaluation mode.

    Args:
        source: A model as in `load`; it needs no vocabulary.
        device: auto, cpu, cuda, cuda:N or mps.
        revision: The version of a model on the hub.

    Returns:
        A torch module that maps lists of ids to hidden states.

    Raises:
        InputError: If the model or the device does not exist.
        FileFormatError: If a file is missing or damaged.

    >>> encoder = albert.load_encoder("folder")
    >>> first, second = encoder([[2, 17, 45, 3], [2, 9, 3]])  # two tensors [length, hidden_size]
    """
    pretrained = load_model(source, heads={}, revision=revision, device=select_device(device))
    return SequenceEncoder(pretrained.model).eval()


class SequenceEncoder(nn.Module):
    """An encoder of lists of ids: a torch module without tokenizer, padding and masks."""

    def __init__(self, model: AlbertModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Rows, *, segments: Rows | None = None, depth: int | None = None) -> list[Tensor]:
        """Encode sequences of ids.

        Args:
            ids: The ids of each sequence, with [CLS] and [SEP].
            segments: The segment of each id, 0 by default.
            depth: The number of layers: by default all, or fewer, or more if the model shares all its layers.

        Returns:
            The last hidden states of each sequence, [length, hidden_size].

        Raises:
            InputError: If an id or a segment is out of range, or a sequence is empty or too long.
        """
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
            reason = f"expected a list of lists of integers, but item {number} is {values!r}"
            raise InputError(f"{name}: {reason}") from error
        if wrong := [value for value in numbers if not 0 <= value < size]:
            raise InputError(f"{name} must be from 0 to {size - 1}; sequence {number} has {wrong[0]}")
        lists.append(numbers)
    return lists


@dataclass(frozen=True)
class PaddedOutput:
    """The output of `PaddedModel`, named as in `transformers`; hidden states are 0 at padded positions."""

    last_hidden_state: Tensor
    pooler_output: Tensor | None


class PaddedModel(nn.Module):
    """A model with the call of `transformers`: removes the padding, runs the flat model and pads again."""

    def __init__(self, model: AlbertModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> PaddedOutput:
        """Encode padded ids.

        Args:
            input_ids: Ids [B, L].
            attention_mask: 1 at real tokens and 0 at padding; by default all are real.
            token_type_ids: Segments [B, L]; 0 by default.

        Raises:
            InputError: If shapes differ, an id is out of range, or a row has no real token.
        """
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
