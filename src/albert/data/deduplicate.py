"""Hashes in source order come in, a flag for each goes out: whether it was there before.

Two passes make the result independent of the workers: the first hashes, the second writes; between them the
first in source order is found here. Memory: 8 bytes for each distinct hash, and as much again while merging.
Among n different paragraphs, about n² / 2^65 share a 64-bit hash with another by chance: of a hundred
million, 0.0003 are dropped by mistake.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Flags = NDArray[np.bool_]


def hash_text(text: str) -> bytes:
    """Eight bytes that stand for a text; white space at its ends is no difference."""
    return blake2b(text.strip().encode("utf-8", "surrogatepass"), digest_size=8).digest()


def hash_paragraphs(paragraphs: Sequence[str], *, min_characters: int) -> bytes:
    """The hashes, end to end, of those paragraphs that are long enough to be compared."""
    return b"".join([hash_text(text) for text in paragraphs if len(text) >= min_characters])


def hash_document(paragraphs: Sequence[str]) -> bytes:
    """The hash of a whole document."""
    return hash_text("\n".join(paragraphs))


class SeenHashes:
    """All hashes so far, in sorted runs whose lengths at least double: adding n of them costs n log n."""

    def __init__(self) -> None:
        self._runs: list[Hashes] = []

    def mark(self, hashes: Hashes) -> Flags:
        """Which of these were here before, in earlier calls or earlier in this one; all of them are now."""
        if not len(hashes):
            return np.zeros(0, dtype=np.bool_)
        distinct, first = np.unique(hashes, return_index=True)
        is_known = np.zeros(len(distinct), dtype=np.bool_)
        for run in self._runs:
            places = np.searchsorted(run, distinct)
            places[places == len(run)] = 0
            is_known |= run[places] == distinct
        flags = np.ones(len(hashes), dtype=np.bool_)
        flags[first[~is_known]] = False
        self._add(distinct[~is_known])
        return flags

    def _add(self, run: Hashes) -> None:
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.concatenate([self._runs.pop(), run])
            run.sort(kind="stable")  # two sorted halves: a merge
        if len(run):
            self._runs.append(run)
