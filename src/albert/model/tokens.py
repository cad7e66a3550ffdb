"""A batch without padding: flat tensors and the lengths of the sequences.

Shapes: T tokens of the whole batch, B sequences, L the longest of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from albert.errors import InputError


@dataclass(frozen=True)
class Tokens:
    """B sequences laid end to end. Lengths stay on the host: they decide shapes, not values."""

    ids_T: Tensor
    positions_T: Tensor
    segments_T: Tensor
    lengths: tuple[int, ...]

    @staticmethod
    def from_lists(
        ids: Sequence[Sequence[int]],
        segments: Sequence[Sequence[int]] | None = None,
        *,
        device: torch.device | str = "cpu",
    ) -> "Tokens":
        """Lay sequences end to end; without `segments` every token belongs to segment 0."""
        if not ids or not all(ids):
            raise InputError("a batch needs at least one sequence, and each at least one id")
        lengths = tuple(len(sequence) for sequence in ids)
        if segments is not None and tuple(len(sequence) for sequence in segments) != lengths:
            raise InputError("ids and segments have different lengths; give one segment for each id")
        ids_T = torch.tensor([i for sequence in ids for i in sequence])
        segments_T = (
            torch.zeros_like(ids_T)
            if segments is None
            else torch.tensor([s for sequence in segments for s in sequence])
        )
        positions_T = torch.cat([torch.arange(length) for length in lengths])
        return Tokens(ids_T.to(device), positions_T.to(device), segments_T.to(device), lengths)

    @staticmethod
    def from_padded(ids_BL: Tensor, mask_BL: Tensor, segments_BL: Tensor) -> "Tokens":
        """Drop the padding of a rectangular batch; `mask_BL` is true at the tokens that count."""
        mask_BL = mask_BL.bool()
        positions_BL = torch.arange(ids_BL.shape[1], device=ids_BL.device).expand_as(ids_BL)
        lengths = tuple(mask_BL.sum(1).tolist())
        if not lengths or min(lengths) == 0:
            raise InputError("a padded batch needs at least one real token in each row")
        return Tokens(ids_BL[mask_BL], positions_BL[mask_BL], segments_BL[mask_BL], lengths)

    @cached_property
    def first_B(self) -> Tensor:  # noqa: N802 - a tensor carries its shape in its name
        """Where each sequence begins: the place of its [CLS]."""
        # Kept with the batch: made under inference mode it could not be trained with later.
        with torch.inference_mode(False):
            lengths_B = torch.tensor(self.lengths)
            return (lengths_B.cumsum(0) - lengths_B).to(self.ids_T.device)

    def to(self, device: torch.device | str) -> "Tokens":
        return Tokens(
            self.ids_T.to(device), self.positions_T.to(device), self.segments_T.to(device), self.lengths
        )
