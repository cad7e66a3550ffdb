"""Two segments from each window: sentence order, next sentence, or plain; pieces of the corpus go out."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.data.corpus import Corpus
from albert.examples.randomness import Keys, Stream, below, derive, uniform
from albert.examples.settings import ExampleSettings
from albert.examples.windows import (
    Anchors,
    Ints,
    Windows,
    find_anchors,
    grow_windows,
    locate_documents,
    piece_offsets,
    split_off_ends,
)

_TRIES = 8  # to find another document, with a segment of the right length
_NOT_FOUND = np.iinfo(np.int64).max
_LAST_RESORT = 1 << 40


@dataclass(frozen=True)
class Ranges:
    """Runs of pieces: those of `part` from `start` up to `end`."""

    part: Ints
    start: Ints
    end: Ints

    @property
    def length(self) -> Ints:
        return self.end - self.start

    def select(self, other: "Ranges", where: NDArray[np.bool_]) -> "Ranges":
        """The other's runs where the condition holds, these elsewhere."""
        return Ranges(
            np.where(where, other.part, self.part),
            np.where(where, other.start, self.start),
            np.where(where, other.end, self.end),
        )

    def replace(self, places: Ints, other: "Ranges", where: NDArray[np.bool_]) -> None:
        """Put the other's runs for which the condition holds at these places."""
        for mine, theirs in ((self.part, other.part), (self.start, other.start), (self.end, other.end)):
            mine[places] = theirs[where]


@dataclass(frozen=True)
class Pairs:
    """First and second segment as the model will read them, and whether the answer is 1.

    `label` is 1 for a swapped pair (sop) or a random second segment (nsp). `is_valid` is false where a
    document is a single sentence and the objective needs two: such an example is left out.
    """

    first: Ranges
    second: Ranges
    label: Ints
    is_valid: NDArray[np.bool_]


@dataclass(frozen=True)
class _Growth:
    """How windows grow: up to so many pieces, and to which side first."""

    targets: Ints
    is_backward: NDArray[np.bool_]

    def select(self, places: Ints) -> "_Growth":
        return _Growth(self.targets[places], self.is_backward[places])

    def grow(self, corpus: Corpus, anchors: Anchors) -> Windows:
        return grow_windows(corpus, anchors, targets=self.targets, is_backward=self.is_backward)


def build_pairs(corpus: Corpus, positions: Ints, keys: Keys, settings: ExampleSettings) -> Pairs:
    """Windows around the given pieces, split at a random sentence, cut to length, swapped or replaced."""
    targets = _draw_targets(keys, settings)
    # Single sentences: a window of one, which takes in its neighbour.
    wanted = np.ones_like(targets) if settings.unit == "sentences" else targets
    growth = _Growth(wanted, uniform(derive(keys, Stream.DIRECTION)) < 0.5)
    windows = growth.grow(corpus, find_anchors(corpus, positions))
    border = windows.start + 1 + below(derive(keys, Stream.SPLIT), windows.num_sentences - 1)
    offsets = [piece_offsets(corpus, windows.part, s) for s in (windows.start, border, windows.end)]
    first = Ranges(windows.part, offsets[0], offsets[1])
    second = Ranges(windows.part, offsets[1], offsets[2])
    is_valid = (windows.num_sentences >= 2) | (settings.objective == "none")
    is_chosen = uniform(derive(keys, Stream.SWAP)) < 0.5
    if settings.objective == "nsp":
        room = np.ones_like(targets) if settings.unit == "sentences" else targets - first.length
        other, is_found = _draw_other_document(
            corpus, windows, keys, growth=growth, room=room, true=second.length
        )
        is_chosen &= is_found
        second = second.select(other, is_chosen)
    first, second = _cut(first, second, targets, keys)
    if settings.objective == "sop":
        first, second = first.select(second, is_chosen), second.select(first, is_chosen)
    label = np.zeros(len(keys), np.int64) if settings.objective == "none" else is_chosen.astype(np.int64)
    return Pairs(first, second, label, is_valid)


def _draw_targets(keys: Keys, settings: ExampleSettings) -> Ints:
    """Pieces that both segments may have together; a tenth of the examples are short on purpose."""
    full = settings.target_pieces
    is_short = uniform(derive(keys, Stream.SHORT)) < settings.short_share
    short = 2 + below(derive(keys, Stream.SHORT_LENGTH), full - 1)
    return np.where(is_short, short, full)


def _draw_other_document(
    corpus: Corpus, windows: Windows, keys: Keys, *, growth: _Growth, room: Ints, true: Ints
) -> tuple[Ranges, NDArray[np.bool_]]:
    """The end of another document's window, as long as the true second segment, and whether one was found.

    Random segments must not be told by how they were made. So they are second segments of windows that grew
    as the true ones did, and begin and end where those do; and a pair that is full stays full, a short one
    as short: `true` are the pieces of the true segment, `room` those that a full pair has left for it. Of
    those tried, the nearest to that length is taken.
    """
    is_full = true >= room
    targets = np.maximum(np.minimum(true, room), 1)
    own_start, own_end = locate_documents(corpus, windows)
    num_others = corpus.num_pieces - (own_end - own_start)
    chosen = Ranges(*(np.zeros(len(keys), np.int64) for _ in range(3)))
    misses = np.full(len(keys), _NOT_FOUND)
    for attempt in range(_TRIES):
        left = np.flatnonzero(misses > 0)
        if not len(left):
            break
        draw = derive(derive(keys[left], Stream.OTHER_DOCUMENT), attempt)
        # Of all pieces but the own document's: beside a long one, eight tries would often find no other.
        positions = below(draw, num_others[left])
        positions += np.where(positions >= own_start[left], (own_end - own_start)[left], 0)
        other = growth.select(left).grow(corpus, find_anchors(corpus, positions))
        start = split_off_ends(corpus, other, targets=targets[left], is_full=is_full[left])
        offsets = (piece_offsets(corpus, other.part, sentences) for sentences in (start, other.end))
        candidate = Ranges(other.part, *offsets)
        is_other = (other.part != windows.part[left]) | (other.document_start != windows.document_start[left])
        excess = candidate.length - targets[left]
        miss = np.where(is_full[left] & (excess > 0), 0, np.abs(excess))
        miss += np.where(other.num_sentences < 2, _LAST_RESORT, 0)  # all of a document: no second segment
        is_better = is_other & (miss < misses[left])
        chosen.replace(left[is_better], candidate, is_better)
        misses[left[is_better]] = miss[is_better]
    return chosen, misses < _NOT_FOUND


def _cut(first: Ranges, second: Ranges, targets: Ints, keys: Keys) -> tuple[Ranges, Ranges]:
    """Take what is too much from the longer side until they are equal, then from both; at a random end."""
    excess = np.maximum(first.length + second.length - targets, 0)
    difference = first.length - second.length
    from_longer = np.minimum(excess, np.abs(difference))
    rest = excess - from_longer
    coin = (derive(keys, Stream.CUT_FIRST) & np.uint64(1)).astype(np.int64)
    of_first = np.where(difference > 0, from_longer, 0) + (rest + coin) // 2
    return (
        _cut_at_random_end(first, of_first, derive(keys, Stream.CUT_FIRST)),
        _cut_at_random_end(second, excess - of_first, derive(keys, Stream.CUT_SECOND)),
    )


def _cut_at_random_end(ranges: Ranges, count: Ints, keys: Keys) -> Ranges:
    at_front = np.where(uniform(keys) < 0.5, count, 0)
    return Ranges(ranges.part, ranges.start + at_front, ranges.end - (count - at_front))
