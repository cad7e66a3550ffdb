"""N-gram masking: draw spans of whole words, and what replaces them.

A row is one segment of one example: spans never leave it, so they never touch [CLS] or [SEP].
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.examples.randomness import Keys, Stream, below, derive, uniform
from albert.examples.settings import ExampleSettings
from albert.examples.windows import Ints

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class PieceTable:
    """What masking needs to know of a vocabulary, by id.

    `begins_word` is true for pieces that begin a word; `ordinary` lists the ids that may replace another:
    no special token.
    """

    begins_word: Flags
    ordinary: Ints
    cls_id: int
    sep_id: int
    mask_id: int


@dataclass(frozen=True)
class Spans:
    """Runs of pieces to be predicted: [start, end) in the flat batch, in order, never touching."""

    start: Ints
    end: Ints
    num_words: Ints

    @property
    def places(self) -> Ints:
        """Every place to be predicted, in order."""
        return expand_ranges(self.start, self.end - self.start)


NO_SPANS = Spans(*(np.empty(0, dtype=np.int64) for _ in range(3)))


def expand_ranges(starts: Ints, lengths: Ints) -> Ints:
    """The numbers of all ranges [start, start + length), one range after another."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def draw_spans(
    begins_word_T: Flags, row_start: Ints, row_length: Ints, keys: Keys, settings: ExampleSettings
) -> Spans:
    """Spans of n whole words, p(n) ∝ 1/n, that hold the asked share of the words on average.

    The number of spans and their lengths are drawn first and placed afterwards, at least one word apart.
    Filling a budget span by span, as is usual, would favour short spans at the end of it.
    """
    is_ngram = settings.masking == "ngram"
    num_words, first_word, word_place = _find_words(begins_word_T, row_start, row_length, is_ngram)
    edge_pieces = _count_edge_pieces(num_words, first_word, word_place, row_start, row_length)
    row, length = _draw_lengths(num_words, row_length, edge_pieces, keys, settings)
    # Spans one after another, with one free word between two (none where single pieces are masked).
    gap = 1 if is_ngram else 0
    rank, used = _accumulate(row, length, len(num_words))
    fits = used + rank * gap <= num_words[row]
    row, length, rank, used = row[fits], length[fits], rank[fits], used[fits]
    count = np.bincount(row, minlength=len(num_words))
    total = np.bincount(row, weights=length, minlength=len(num_words)).astype(np.int64)
    free = num_words - total - gap * np.maximum(count - 1, 0)
    slack = below(derive(derive(keys[row], Stream.SPAN_PLACE), rank), free[row] + 1)
    # Sorted within each row: rows come in order already, so one sort of (row, slack) does it.
    slack = np.sort(row * np.int64(1 << 32) + slack) - row * np.int64(1 << 32)
    word = first_word[row] + slack + (used - length) + rank * gap
    row_end = (row_start + row_length)[row]
    after = word + length
    is_last = after >= (first_word + num_words)[row]
    end = np.where(is_last, row_end, word_place[np.minimum(after, len(word_place) - 1)])
    return Spans(word_place[word], end, length)


def _find_words(
    begins_word_T: Flags, row_start: Ints, row_length: Ints, is_ngram: bool
) -> tuple[Ints, Ints, Ints]:
    """Words in each row, the number of the first one, and the place of every word's first piece."""
    is_start = np.zeros(len(begins_word_T) + 1, dtype=bool)
    places = expand_ranges(row_start, row_length)
    is_start[places] = begins_word_T[places] if is_ngram else True
    is_start[row_start[row_length > 0]] = True  # a row cut inside a word begins with what is left of it
    before = np.concatenate([[0], np.cumsum(is_start)])
    first_word = before[row_start]
    return before[row_start + row_length] - first_word, first_word, np.flatnonzero(is_start)


def _count_edge_pieces(
    num_words: Ints, first_word: Ints, word_place: Ints, row_start: Ints, row_length: Ints
) -> Ints:
    """Pieces in the first and the last word of each row together."""
    place = np.append(word_place, len(word_place) and word_place[-1] + 1)
    row_end = row_start + row_length
    last = np.maximum(first_word + num_words - 1, 0)
    second_start = np.where(num_words > 1, place[np.minimum(first_word + 1, len(place) - 1)], row_end)
    edges: Ints = (second_start - row_start) + (row_end - place[np.minimum(last, len(place) - 1)])
    return edges


def _draw_lengths(
    num_words: Ints, num_pieces: Ints, edge_pieces: Ints, keys: Keys, settings: ExampleSettings
) -> tuple[Ints, Ints]:
    """Row and number of words of each span, rows in order."""
    longest = settings.max_ngram if settings.masking == "ngram" else 1
    sizes = np.arange(1, longest + 1)
    chances = (1 / sizes) / (1 / sizes).sum()
    # A row of fewer words than a span needs gives it all it has: spans are shorter there on average.
    mean = np.minimum(sizes, np.maximum(num_words, 1)[:, None]) @ chances
    wanted = _words_for_pieces(num_words, num_pieces, edge_pieces, float(sizes @ chances), settings) / mean
    count = np.floor(wanted + uniform(derive(keys, Stream.SPAN_COUNT))).astype(np.int64)
    row = np.repeat(np.arange(len(num_words)), count)
    number = expand_ranges(np.zeros_like(count), count)
    draw = uniform(derive(derive(keys[row], Stream.SPAN_LENGTH), number))
    length = 1 + np.searchsorted(np.cumsum(chances)[:-1], draw, side="right")
    return row, np.minimum(length, num_words[row])


def _words_for_pieces(
    num_words: Ints, num_pieces: Ints, edge_pieces: Ints, mean: float, settings: ExampleSettings
) -> NDArray[np.float64]:
    """How many words to cover so that the asked share of the *pieces* is covered.

    The first and the last word of a row can be covered from one side only, so they are covered less often
    than the others; and they differ in size, the last having the full stop. Both would move the share.
    """
    share = settings.mask_share
    if settings.masking == "token":
        return share * num_words.astype(np.float64)
    # By how much an edge is covered less often: it is when the least of the slacks is 0, whose range is what
    # the spans and the words between them leave of the row.
    rarer = 1 - num_words / mean / (num_words * (1 - share - share / mean) + 2)
    is_long = num_words >= 4
    words = np.where(is_long, num_words - 2 * rarer, num_words)
    pieces = np.where(is_long, num_pieces - rarer * edge_pieces, num_pieces)
    wanted: NDArray[np.float64] = share * num_pieces * words / np.maximum(pieces, 1)
    return wanted


def _accumulate(row: Ints, length: Ints, num_rows: int) -> tuple[Ints, Ints]:
    """Each span's rank in its row, and the words that it and those before it use."""
    count = np.bincount(row, minlength=num_rows)
    first = np.cumsum(count) - count
    running = np.concatenate([[0], np.cumsum(length)])
    return np.arange(len(row)) - first[row], running[1:] - running[first[row]]


def replace_pieces(ids: Ints, places: Ints, keys: Keys, table: PieceTable, settings: ExampleSettings) -> Ints:
    """What stands at the places: mostly [MASK], sometimes a random piece, sometimes what was there."""
    draw = uniform(derive(keys, Stream.REPLACEMENT))
    random_ids = table.ordinary[below(derive(keys, Stream.RANDOM_PIECE), len(table.ordinary))]
    random_share = settings.replace_with_mask + settings.replace_with_random
    kept = np.where(draw < random_share, random_ids, ids[places])
    return np.where(draw < settings.replace_with_mask, table.mask_id, kept)
