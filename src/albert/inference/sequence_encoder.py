"""The encoder as a torch module, called with lists of ids or with padded tensors.

Shapes: T tokens, B sequences, L longest sequence, D hidden width.
"""

import operator
from collections.abc import Iterable, Sequence
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

    Args:
        source: Folder, run, released name or hub name of the model.
        device: auto, cpu, cuda, cuda:N or mps.
        revision: Branch, tag or commit on the hub.

    Returns:
        The encoder as a torch module.

    Raises:
        InputError: If the model or the device is not found.
        FileFormatError: If the folder cannot be read.
    """
    pretrained = load_model(source, heads={}, revision=revision, device=select_device(device))
    return SequenceEncoder(pretrained.model).eval()


class SequenceEncoder(nn.Module):
    """An encoder of lists of ids, without a tokenizer, padding or masks; an ordinary torch module."""

    def __init__(self, model: AlbertModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Rows, *, segments: Rows | None = None, depth: int | None = None) -> list[Tensor]:
        """Encode sequences of ids.

        Args:
            ids: A list, tensor or array of ids for each sequence.
            segments: The segments of the ids, 0 by default.
            depth: The number of layers, as in `Predictor`.

        Returns:
            The last hidden states, one tensor [length, hidden_size] for each sequence.

        Raises:
            InputError: If an id is unknown or a sequence too long.
        """
        config = self.model.config
        tokens = Tokens.from_lists(
            _read_rows(ids, size=config.vocab_size, name="ids"),
            None if segments is None else _read_rows(segments, size=config.type_vocab_size, name="segments"),
            device=self.model.device,
        )
        return list(self.model(tokens, depth=depth).last_TD.split(tokens.lengths))


def _read_rows(rows: Rows, *, size: int, name: str) -> list[list[int]]:
    """Return rows of integers below `size` as lists."""
    lists = []
    for number, row in enumerate(rows, start=1):
        values = row.tolist() if hasattr(row, "tolist") else row
        if not isinstance(values, Sequence) or isinstance(values, str):
            raise InputError(f"{name} must be a list of lists of integers; item {number} is {values!r}")
        try:
            numbers = [operator.index(value) for value in values]
        except TypeError as error:
            raise InputError(f"{name} must be integers; sequence {number} has others ({error})") from error
        if numbers and not 0 <= min(numbers) <= max(numbers) < size:
            wrong = next(value for value in numbers if not 0 <= value < size)
            raise InputError(f"{name} must be from 0 to {size - 1}; sequence {number} has {wrong}")
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
        """Encode a padded batch.

        Args:
            input_ids: Token ids [B, L].
            attention_mask: 1 at real tokens; all by default.
            token_type_ids: The segments; 0 by default.

        Returns:
            The hidden states [B, L, D] and, if the model has a pooler, the pooled vectors [B, D].

        Raises:
            InputError: If shapes differ, or an id or a length exceeds the model's limits.
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
        if input_ids.shape[1] > config.max_position_embeddings:
            raise InputError(
                f"a padded batch is {input_ids.shape[1]} tokens wide, more than "
                f"max_position_embeddings={config.max_position_embeddings}; shorten it"
            )
        tokens = Tokens.from_padded(input_ids, mask_BL, segments_BL)
        for name, values_T, size in (
            ("input_ids", tokens.ids_T, config.vocab_size),
            ("token_type_ids", tokens.segments_T, config.type_vocab_size),
        ):
            if values_T.is_floating_point() or values_T.dtype == torch.bool:
                raise InputError(f"{name} are of type {values_T.dtype}; convert them to torch.long")
            least, most = (int(value) for value in values_T.aminmax())
            if least < 0 or most >= size:
                raise InputError(f"{name} must be from 0 to {size - 1}, not {least if least < 0 else most}")
        last_TD = self.model(tokens).last_TD
        padded_BLD = last_TD.new_zeros(*input_ids.shape, last_TD.shape[1])
        padded_BLD = padded_BLD.masked_scatter(mask_BL.bool().unsqueeze(-1), last_TD)
        pooled_BD = None if self.model.pooler is None else self.model.pool(last_TD, tokens)
        return PaddedOutput(padded_BLD, pooled_BD)
