"""Inputs of the benchmarks: token ids of fixed real texts, for both sides."""

import re
import zlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from albert.model.tokens import Tokens

VOCAB_SIZE = 30_000
TEXTS = (Path(__file__).parent / "texts.txt").read_text(encoding="utf-8").splitlines()
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Batch:
    """The same sequences, both flat and padded."""

    tokens: Tokens
    ids_BL: Tensor
    mask_BL: Tensor

    @property
    def padding_factor(self) -> float:
        """Padded tokens divided by real ones."""
        return self.mask_BL.numel() / int(self.mask_BL.sum())

    def split(self, size: int) -> list["Batch"]:
        """Sort the sequences by length and split them into batches of `size`."""
        order = self.mask_BL.sum(1).argsort(stable=True).tolist()
        rows = [self.ids_BL[i][self.mask_BL[i].bool()].tolist() for i in order]
        return [build_batch(rows[start : start + size]) for start in range(0, len(rows), size)]


def build_batch(rows: list[list[int]]) -> Batch:
    """Build a batch from lists of ids."""
    longest = max(map(len, rows))
    return Batch(
        Tokens.from_lists(rows),
        torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows]),
        torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows]),
    )


def ragged_batch() -> Batch:
    """Build a batch of 32 sentences and paragraphs, with a hash of each word or punctuation mark as its id.

    Speed depends on the lengths only, so no vocabulary is needed.
    """
    rows = [
        [2, *(5 + zlib.crc32(word.lower().encode()) % (VOCAB_SIZE - 5) for word in _WORD.findall(text)), 3]
        for text in TEXTS
    ]
    return build_batch(rows)


def dense_batch(count: int = 8, length: int = 128) -> Batch:
    """Build a batch of sequences of equal length."""
    generator = torch.Generator().manual_seed(0)
    return build_batch(torch.randint(5, VOCAB_SIZE, (count, length), generator=generator).tolist())
