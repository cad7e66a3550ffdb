"""Sequences of a task come in, one flat batch without padding goes out, with what is asked about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from albert.model.tokens import Tokens
from albert.tasks.encoding.sequence import TaskSequence

A = TypeVar("A")
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TaskBatch(Generic[A]):
    """Sequences laid end to end, and the right answers in whatever form the kind of task has."""

    ids_T: Ints
    positions_T: Ints
    segments_T: Ints
    lengths: Ints
    answers: A

    def build_tokens(self, device: torch.device | str = "cpu") -> Tokens:
        """The batch as the model reads it, on its device."""
        flat = (torch.from_numpy(part) for part in (self.ids_T, self.positions_T, self.segments_T))
        ids_T, positions_T, segments_T = (part.to(device, non_blocking=True) for part in flat)
        return Tokens(ids_T, positions_T, segments_T, tuple(self.lengths.tolist()))


def lay_out(sequences: Sequence[TaskSequence], answers: A) -> TaskBatch[A]:
    """The sequences one behind the other, in their order."""
    lengths = np.array([len(sequence.ids) for sequence in sequences], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    positions_T = np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(starts, lengths)
    firsts = np.array([sequence.num_first for sequence in sequences], dtype=np.int64)
    return TaskBatch(
        ids_T=np.fromiter((i for sequence in sequences for i in sequence.ids), np.int64, int(lengths.sum())),
        positions_T=positions_T,
        segments_T=(positions_T >= np.repeat(firsts, lengths)).astype(np.int64),
        lengths=lengths,
        answers=answers,
    )
