"""A seed and a purpose come in; a random generator of its own goes out."""

from enum import IntEnum

import numpy as np

from albert.errors import InputError


class Stream(IntEnum):
    """What random numbers are drawn for; each purpose has a stream of its own."""

    RESAMPLING = 1
    SWAPPING = 2
    HALVING = 3


def build_generator(seed: int, *, stream: Stream) -> np.random.Generator:
    """The same numbers for the same seed and purpose, always; refused: a seed below 0."""
    if seed < 0:
        raise InputError(f"seed {seed} is below 0; give 0 or more")
    return np.random.default_rng([seed, int(stream)])
