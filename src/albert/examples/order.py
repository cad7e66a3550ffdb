"""The order of an epoch: places come in, example numbers go out; a keyed permutation that needs no memory."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.errors import InputError
from albert.examples.randomness import Stream, derive, mix, seed_key

_ROUNDS = 4


@dataclass(frozen=True)
class ExampleOrder:
    """Which example stands at which place of each epoch.

    A Feistel network permutes the numbers below the next power of four; a number that falls outside is
    permuted again until it falls inside, which keeps it a permutation.
    """

    num_examples: int
    seed: int

    def __post_init__(self) -> None:
        if self.num_examples < 1:
            raise InputError(
                "the corpus is too small for a single example; prepare more text, or choose shorter sequences"
            )

    def numbers(self, places: NDArray[np.int64], *, epoch: int) -> NDArray[np.int64]:
        """The examples at these places of the epoch."""
        half = np.uint64(max(1, ((self.num_examples - 1).bit_length() + 1) // 2))
        key = derive(derive(derive(seed_key(self.seed), Stream.ORDER), epoch), 0)
        values = places.astype(np.uint64)
        outside = np.ones(len(values), dtype=bool)
        while outside.any():
            values[outside] = _permute(values[outside], half, key)
            outside = values >= np.uint64(self.num_examples)
        return values.astype(np.int64)

    def step(self, step: int, *, batch_size: int) -> list[tuple[int, NDArray[np.int64]]]:
        """The examples of one step, [step·B, (step + 1)·B) of the endless row of epochs, by epoch."""
        first, last = step * batch_size, (step + 1) * batch_size
        found = []
        for epoch in range(first // self.num_examples, (last - 1) // self.num_examples + 1):
            start = max(first - epoch * self.num_examples, 0)
            end = min(last - epoch * self.num_examples, self.num_examples)
            found.append((epoch, self.numbers(np.arange(start, end), epoch=epoch)))
        return found


def share_step(
    parts: list[tuple[int, NDArray[np.int64]]], *, rank: int, world_size: int
) -> list[tuple[int, NDArray[np.int64]]]:
    """One process's share of a step: its examples in a row, as many as another's or one more."""
    total = sum(len(numbers) for _, numbers in parts)
    first, last = rank * total // world_size, (rank + 1) * total // world_size
    shares, start = [], 0
    for epoch, numbers in parts:
        share = numbers[max(first - start, 0) : max(last - start, 0)]
        if len(share):
            shares.append((epoch, share))
        start += len(numbers)
    return shares


def _permute(values: NDArray[np.uint64], half: np.uint64, key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = values >> half, values & mask
    for round_number in range(_ROUNDS):
        left, right = right, left ^ (mix(right ^ derive(key, round_number)) & mask)
    permuted: NDArray[np.uint64] = (left << half) | right
    return permuted
