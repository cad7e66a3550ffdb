"""Two segments from each window: sentence order, next sentence, or plain; pieces of the corpus go out."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.corpus.corpus import Corpus
from albert.examples.randomness import Keys, Stream, below, derive, uniform
from albert.examples.settings import ExampleSettings
from albert.examples.windows import Ints, Windows, find_anchors, grow_windows, piece_offsets

_TRIES = 8  # to find another document; a corpus that is nearly one document may need them


@dataclass(frozen=True)
class Ranges:
    """Runs of pieces: those of `part` from `start` up to `end`."""

    part: Ints
    start: Ints
    end: Ints

    @property
    def length(self) -> Ints:
        """Pieces in each."""
        return self.end - self.start

    def select(self, other: "Ranges", where: NDArray[np.bool_]) -> "Ranges":
        """The other's runs where the condition holds, these elsewhere."""
        return Ranges(
            np.where(where, other.part, self.part),
            np.where(where, other.start, self.start),
            np.where(where, other.end, self.end),
        )


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


def build_pairs(corpus: Corpus, positions: Ints, keys: Keys, settings: ExampleSettings) -> Pairs:
    """Windows around the given pieces, split at a random sentence, cut to length, swapped or replaced."""
    targets = _draw_targets(keys, settings)
    # Single sentences: a window of one, which takes in its neighbour.
    wanted = np.ones_like(targets) if settings.unit == "sentences" else targets
    windows = grow_windows(
        corpus,
        find_anchors(corpus, positions),
        targets=wanted,
        is_backward=uniform(derive(keys, Stream.DIRECTION)) < 0.5,
    )
    border = windows.start + 1 + below(derive(keys, Stream.SPLIT), windows.num_sentences - 1)
    offsets = [piece_offsets(corpus, windows.part, s) for s in (windows.start, border, windows.end)]
    first = Ranges(windows.part, offsets[0], offsets[1])
    second = Ranges(windows.part, offsets[1], offsets[2])
    is_valid = (windows.num_sentences >= 2) | (settings.objective == "none")
    is_chosen = uniform(derive(keys, Stream.SWAP)) < 0.5
    if settings.objective == "nsp":
        other, is_found = _draw_other_document(corpus, windows, keys, windows.end - border)
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
    corpus: Corpus, windows: Windows, keys: Keys, num_sentences: Ints
) -> tuple[Ranges, NDArray[np.bool_]]:
    """As many sentences from another document as the true segment has, and whether one was found.

    They begin after the sentence that was found by a piece: that one is longer than others, which would
    tell a random segment from a true one.
    """
    chosen = Ranges(*(np.zeros(len(keys), np.int64) for _ in range(3)))
    is_found = np.zeros(len(keys), dtype=bool)
    for attempt in range(_TRIES):
        draw = derive(derive(keys, Stream.OTHER_DOCUMENT), attempt)
        anchors = find_anchors(corpus, below(draw, corpus.num_pieces))
        latest = np.maximum(anchors.document_end - num_sentences, anchors.document_start)
        start = np.minimum(anchors.sentence + 1, latest)
        end = np.minimum(start + num_sentences, anchors.document_end)
        candidate = Ranges(
            anchors.part,
            piece_offsets(corpus, anchors.part, start),
            piece_offsets(corpus, anchors.part, end),
        )
        is_other = (anchors.part != windows.part) | (anchors.document_start != windows.document_start)
        chosen = chosen.select(candidate, is_other & ~is_found)
        is_found |= is_other
        if is_found.all():
            break
    return chosen, is_found


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
