"""Random numbers and permutations by key: (seed, epoch, example, stream, counter).

Without generators that have a state, any machine can make any example in any order. The mixing function is
that of SplitMix64; all arithmetic wraps at 64 bits.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Ints = NDArray[np.int64]
_ROUNDS = 4
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Stream(IntEnum):
    """The purpose of a random number; each has its own stream."""

    ORDER = 1
    JITTER = 2
    DIRECTION = 3
    SHORT = 4
    SHORT_LENGTH = 5
    SPLIT = 6
    SWAP = 7
    CUT_FIRST = 8
    CUT_SECOND = 9
    OTHER_DOCUMENT = 10
    SPAN_COUNT = 11
    SPAN_LENGTH = 12
    SPAN_POSITION = 13
    REPLACEMENT = 14
    RANDOM_TOKEN = 15


def seed_key(seed: int) -> np.uint64:
    """Convert a seed, any integer, to the first key."""
    key: np.uint64 = np.uint64(seed % 2**64)
    return key


def mix(values: Keys) -> Keys:
    """Mix the bits of 64-bit numbers, bijectively."""
    with np.errstate(over="ignore"):
        x = values + _GOLDEN
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: Keys = x ^ (x >> np.uint64(31))
        return mixed


def derive(keys: Keys | np.uint64, number: Keys | Ints | int) -> Keys:
    """Derive a new key from each key and a number."""
    with np.errstate(over="ignore"):
        return mix(np.asarray(keys, np.uint64) ^ (np.asarray(number).astype(np.uint64) * _GOLDEN))


def uniform(keys: Keys) -> NDArray[np.float64]:
    """Draw a number in [0, 1) for each key."""
    numbers: NDArray[np.float64] = (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return numbers


def below(keys: Keys, limits: Ints | int) -> Ints:
    """Draw an integer in [0, limit) for each key."""
    return (uniform(keys) * limits).astype(np.int64)


@dataclass(frozen=True)
class ExampleOrder:
    """The order of the examples in each epoch.

    A Feistel network permutes the numbers below the next power of four. A number outside of the range is
    permuted again until it is inside, so that the result is a permutation of the range.
    """

    num_examples: int
    seed: int

    def numbers(self, positions: Ints, *, epoch: int) -> Ints:
        """Return the indices of the examples at these positions of the epoch."""
        half = np.uint64(max(1, ((self.num_examples - 1).bit_length() + 1) // 2))
        key = derive(derive(derive(seed_key(self.seed), Stream.ORDER), epoch), 0)
        values = positions.astype(np.uint64)
        outside = np.ones(len(values), dtype=bool)
        while outside.any():
            values[outside] = _permute(values[outside], half, key)
            outside = values >= np.uint64(self.num_examples)
        return values.astype(np.int64)

    def step(self, step: int, *, batch_size: int) -> list[tuple[int, Ints]]:
        """Return the examples of one step, [step·B, (step + 1)·B) of all epochs in sequence, by epoch."""
        first, last = step * batch_size, (step + 1) * batch_size
        found = []
        for epoch in range(first // self.num_examples, (last - 1) // self.num_examples + 1):
            start = max(first - epoch * self.num_examples, 0)
            end = min(last - epoch * self.num_examples, self.num_examples)
            found.append((epoch, self.numbers(np.arange(start, end), epoch=epoch)))
        return found


def share_step(parts: list[tuple[int, Ints]], *, rank: int, world_size: int) -> list[tuple[int, Ints]]:
    """Return the part of one process of the examples of a step."""
    total = sum(len(numbers) for _, numbers in parts)
    first, last = rank * total // world_size, (rank + 1) * total // world_size
    shares, start = [], 0
    for epoch, numbers in parts:
        share = numbers[max(first - start, 0) : max(last - start, 0)]
        if len(share):
            shares.append((epoch, share))
        start += len(numbers)
    return shares


def _permute(values: Keys, half: np.uint64, key: Keys) -> Keys:
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = values >> half, values & mask
    for round_number in range(_ROUNDS):
        left, right = right, left ^ (mix(right ^ derive(key, round_number)) & mask)
    permuted: Keys = (left << half) | right
    return permuted
