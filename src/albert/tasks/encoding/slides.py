"""The number of a text's pieces comes in; overlapping windows go out, each with the pieces it is best for."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Slide:
    """A window over the pieces `[first, end)`; for those in `[own_first, own_end)` it has the most context.

    Every piece is some window's own, and no other's.
    """

    first: int
    end: int
    own_first: int
    own_end: int

    @property
    def num_pieces(self) -> int:
        """How many pieces the window holds."""
        return self.end - self.first


def build_slides(num_pieces: int, *, size: int, stride: int) -> tuple[Slide, ...]:
    """Windows of `size` pieces, each `stride` further, until one reaches the end; an empty text has one.

    A stride longer than a window would leave pieces out, and is shortened. The time is linear in the number
    of pieces: each lies in at most `size / stride` windows, rounded up.
    """
    if num_pieces <= size:
        return (Slide(0, num_pieces, 0, num_pieces),)
    step = min(stride, size)
    firsts = np.arange(0, num_pieces - size + step, step)
    ends = np.minimum(firsts + size, num_pieces)
    owners = _find_owners(firsts, ends)
    places = np.arange(len(firsts))
    # The owners go up with the pieces: what a window owns is one range.
    own_firsts, own_ends = (np.searchsorted(owners, places, side=side) for side in ("left", "right"))
    rows = zip(*(each.tolist() for each in (firsts, ends, own_firsts, own_ends)), strict=True)
    return tuple(Slide(*row) for row in rows)


def _find_owners(firsts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each piece the window with the most context, by the score of the published code.

    That is the shorter of the ways to both ends, and 0.01 for each piece of the window, so that a whole one
    goes before the last, shorter one; the first of equals has it.
    """
    best = np.full(ends[-1], -1.0)
    owners = np.zeros(ends[-1], np.int64)
    for place, (first, end) in enumerate(zip(firsts.tolist(), ends.tolist(), strict=True)):
        ways = np.arange(end - first)
        scores = np.minimum(ways, ways[::-1]) + 0.01 * (end - first)
        is_better = scores > best[first:end]
        best[first:end][is_better] = scores[is_better]
        owners[first:end][is_better] = place
    return owners
