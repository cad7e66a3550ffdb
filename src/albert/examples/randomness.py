"""Random numbers by key: (seed, epoch, example, stream, counter) comes in, the same number always goes out.

No generator is carried along, so any machine makes any example in any order. The mixing function is that of
SplitMix64, whose output passes the usual batteries; all arithmetic wraps at 64 bits, as numpy's does.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Stream(IntEnum):
    """What a random number is for; each has a stream of its own."""

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
    SPAN_PLACE = 13
    REPLACEMENT = 14
    RANDOM_PIECE = 15


def seed_key(seed: int) -> np.uint64:
    """A seed as the first key; any whole number will do."""
    key: np.uint64 = np.uint64(seed % 2**64)
    return key


def mix(values: Keys) -> Keys:
    """Scramble 64-bit numbers; a permutation of them."""
    with np.errstate(over="ignore"):
        x = values + _GOLDEN
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: Keys = x ^ (x >> np.uint64(31))
        return mixed


def derive(keys: Keys | np.uint64, number: Keys | NDArray[np.int64] | int) -> Keys:
    """Keys one level further down: of each key's child with that number."""
    with np.errstate(over="ignore"):
        return mix(np.asarray(keys, np.uint64) ^ (np.asarray(number).astype(np.uint64) * _GOLDEN))


def uniform(keys: Keys) -> NDArray[np.float64]:
    """Numbers in [0, 1), one for each key."""
    numbers: NDArray[np.float64] = (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return numbers


def below(keys: Keys, limits: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Whole numbers in [0, limit), one for each key."""
    return (uniform(keys) * limits).astype(np.int64)
