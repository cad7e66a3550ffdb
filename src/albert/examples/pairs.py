"""Find pairs of segments in a corpus: sentence order (SOP), next sentence (NSP), or plain.

An example begins at the sentence that holds a given token of the corpus. Its window is a range of sentences
of one document, found by arithmetic on the offsets of the corpus, and split at a random sentence.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from albert.data.corpus import Corpus
from albert.examples.randomness import Ints, Keys, Stream, below, derive, uniform
from albert.examples.settings import ExampleSettings

_TRIES = 8  # to find another document, with a segment of the right length
_NOT_FOUND = np.iinfo(np.int64).max
_LAST_RESORT = 1 << 40


class Ranges(NamedTuple):
    """Runs of tokens: those of `part` from `start` up to `end`."""

    part: Ints
    start: Ints
    end: Ints

    @property
    def length(self) -> Ints:
        return self.end - self.start

    def take(self, index: Ints) -> "Ranges":
        return Ranges(*(column[index] for column in self))

    def choose(self, other: "Ranges", where: NDArray[np.bool_]) -> "Ranges":
        """Take the other's runs where the condition holds, these elsewhere."""
        return Ranges(*(np.where(where, theirs, mine) for mine, theirs in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Pairs:
    """First and second segment in the order in which the model reads them, and their labels."""

    first: Ranges
    second: Ranges
    label: Ints  # 1 for a swapped pair (sop) or a random second segment (nsp)
    is_valid: NDArray[np.bool_]  # false for a single sentence where the objective needs two: it is dropped


def build_pairs(corpus: Corpus, positions: Ints, keys: Keys, settings: ExampleSettings) -> Pairs:
    """Split windows around the given tokens at a random sentence, cut them to length, swap or replace."""
    # How many tokens both segments may have together; 10% of the examples are short on purpose.
    is_short = uniform(derive(keys, Stream.SHORT)) < settings.short_share
    short = 2 + below(derive(keys, Stream.SHORT_LENGTH), settings.target_tokens - 1)
    targets = np.where(is_short, short, settings.target_tokens)
    # Single sentences: a window of one, which takes in its neighbor.
    wanted = np.ones_like(targets) if settings.unit == "sentences" else targets
    is_backward = uniform(derive(keys, Stream.DIRECTION)) < 0.5
    is_single = settings.unit == "texts"
    windows = grow_windows(
        corpus, positions, targets=wanted, is_backward=is_backward, min_sentences=1 if is_single else 2
    )
    border = windows.start + 1 + below(derive(keys, Stream.SPLIT), windows.num_sentences - 1)
    if is_single:
        border, targets = windows.end, np.full_like(targets, settings.target_tokens)  # whole sentences
    starts, middles, ends = (
        token_offsets(corpus, windows.part, sentences) for sentences in (windows.start, border, windows.end)
    )
    first, second = Ranges(windows.part, starts, middles), Ranges(windows.part, middles, ends)
    is_valid = (windows.num_sentences >= 2) | (settings.objective == "none")
    is_chosen = uniform(derive(keys, Stream.SWAP)) < 0.5
    if settings.objective == "nsp":
        available = np.ones_like(targets) if settings.unit == "sentences" else targets - first.length
        other, is_found = _draw_other_document(
            corpus, windows, keys, wanted, is_backward, available=available, true=second.length
        )
        is_chosen &= is_found
        second = second.choose(other, is_chosen)
    first, second = _truncate(first, second, targets, keys)
    if settings.objective == "sop":
        first, second = first.choose(second, is_chosen), second.choose(first, is_chosen)
    label = np.zeros(len(keys), np.int64) if settings.objective == "none" else is_chosen.astype(np.int64)
    return Pairs(first, second, label, is_valid)


@dataclass(frozen=True)
class Windows:
    """For each example: its part of the corpus, its document's sentences, and those of its window."""

    part: Ints
    document_start: Ints
    document_end: Ints
    start: Ints
    end: Ints

    @property
    def num_sentences(self) -> Ints:
        return self.end - self.start


def grow_windows(
    corpus: Corpus,
    positions: Ints,
    *,
    targets: Ints,
    is_backward: NDArray[np.bool_],
    min_sentences: int = 2,
) -> Windows:
    """Take sentences from the one that holds a token on, or back from it, up to `targets` tokens.

    Where the document ends before that, the window takes in sentences on its other side; a window of one
    sentence takes in a neighbor. Half of the windows grow backwards, so that neither their first sentence nor
    their last is always the one that was found by a token: such sentences are longer than others, which would
    give the order away.
    """
    parts = np.searchsorted(corpus.starts, positions, side="right") - 1
    low, high, start, end = np.empty((4, len(positions)), dtype=np.int64)
    for number in np.unique(parts):
        here = parts == number
        part = corpus.parts[number]
        starts = part.sentence_starts
        sentence = np.searchsorted(starts, positions[here] - corpus.starts[number], side="right") - 1
        document = np.searchsorted(part.document_starts, sentence, side="right") - 1
        low[here], high[here] = part.document_starts[document], part.document_starts[document + 1]
        target, backward = targets[here], is_backward[here]
        first = np.where(backward, np.maximum(_grow_back(starts, sentence + 1, target), low[here]), sentence)
        last = np.where(backward, sentence + 1, np.minimum(_grow_on(starts, sentence, target), high[here]))
        # What the document's border cut off is made up for on the other side.
        more = np.minimum(np.maximum(_grow_on(starts, first, target), last), high[here])
        end[here] = np.where(backward, more, last)
        more = np.maximum(np.minimum(_grow_back(starts, last, target), first), low[here])
        start[here] = np.where(backward, first, more)
        corpus.release(number)
    # A sentence alone takes in its neighbor on the side it grows to; at a document's end, the other.
    is_alone = end - start < min_sentences
    start = np.where(is_alone & is_backward, np.maximum(end - 2, low), start)
    end = np.where(is_alone, np.minimum(start + 2, high), end)
    start = np.where(is_alone, np.maximum(end - 2, low), start)
    return Windows(parts, low, high, start, end)


def _grow_on(starts: NDArray[np.int32], first: Ints, targets: Ints) -> Ints:
    return np.searchsorted(starts, starts[first] + targets, side="left")


def _grow_back(starts: NDArray[np.int32], end: Ints, targets: Ints) -> Ints:
    return np.searchsorted(starts, starts[end] - targets, side="right") - 1


def token_offsets(corpus: Corpus, parts: Ints, sentences: Ints) -> Ints:
    """Return where these sentences begin among the tokens of their part."""
    offsets = np.empty(len(parts), dtype=np.int64)
    for number in np.unique(parts):
        here = parts == number
        offsets[here] = corpus.parts[number].sentence_starts[sentences[here]]
        corpus.release(number)
    return offsets


def _draw_other_document(
    corpus: Corpus,
    windows: Windows,
    keys: Keys,
    wanted: Ints,
    is_backward: NDArray[np.bool_],
    *,
    available: Ints,
    true: Ints,
) -> tuple[Ranges, NDArray[np.bool_]]:
    """Draw the end of another document's window, as long as the true second segment; and whether one exists.

    Nothing but their content may tell random segments from true ones. So their windows grow as the true ones
    did, and a pair that is full stays full, a short one as short: `true` are the tokens of the true segment,
    `available` those that a full pair has left for it. Of those tried, the nearest to that length is taken.
    """
    is_full = true >= available
    targets = np.maximum(np.minimum(true, available), 1)
    own_start, own_end = (
        corpus.starts[windows.part] + token_offsets(corpus, windows.part, sentences)
        for sentences in (windows.document_start, windows.document_end)
    )
    num_others = corpus.num_tokens - (own_end - own_start)
    chosen = Ranges(*(np.zeros(len(keys), np.int64) for _ in range(3)))
    misses = np.full(len(keys), _NOT_FOUND)
    for attempt in range(_TRIES):
        left = np.flatnonzero(misses > 0)
        if not len(left):
            break
        draw = derive(derive(keys[left], Stream.OTHER_DOCUMENT), attempt)
        # Of all tokens but the own document's: beside a long one, eight tries would often find no other.
        positions = below(draw, num_others[left])
        positions += np.where(positions >= own_start[left], (own_end - own_start)[left], 0)
        other = grow_windows(corpus, positions, targets=wanted[left], is_backward=is_backward[left])
        start = _split_off_ends(corpus, other, targets=targets[left], is_full=is_full[left])
        offsets = (token_offsets(corpus, other.part, sentences) for sentences in (start, other.end))
        candidate = Ranges(other.part, *offsets)
        is_other = (other.part != windows.part[left]) | (other.document_start != windows.document_start[left])
        excess = candidate.length - targets[left]
        miss = np.where(is_full[left] & (excess > 0), 0, np.abs(excess))
        miss += np.where(other.num_sentences < 2, _LAST_RESORT, 0)  # all of a document: no second segment
        is_better = is_other & (miss < misses[left])
        for mine, theirs in zip((*chosen, misses), (*candidate, miss), strict=True):
            mine[left[is_better]] = theirs[is_better]
    return chosen, misses < _NOT_FOUND


def _split_off_ends(corpus: Corpus, windows: Windows, *, targets: Ints, is_full: NDArray[np.bool_]) -> Ints:
    """Find the first sentences of segments that end where the windows do and hold `targets` tokens.

    Where `is_full`, a segment has its target or more; elsewhere it is as near to it as whole sentences come.
    """
    first = windows.end - 1
    for number in np.unique(windows.part):
        here = windows.part == number
        starts = corpus.parts[number].sentence_starts
        end, target = windows.end[here], targets[here]
        low = windows.document_start[here] + 1
        most = np.minimum(np.maximum(_grow_back(starts, end, target), low), end - 1)
        less = np.minimum(most + 1, end - 1)
        is_more_nearer = starts[end] - starts[most] - target <= target - (starts[end] - starts[less])
        first[here] = np.where(is_full[here] | is_more_nearer, most, less)
        corpus.release(number)
    return first


def _truncate(first: Ranges, second: Ranges, targets: Ints, keys: Keys) -> tuple[Ranges, Ranges]:
    """Cut what is too much from the longer side until they are equal, then from both; at a random end."""
    excess = np.maximum(first.length + second.length - targets, 0)
    difference = first.length - second.length
    from_longer = np.minimum(excess, np.abs(difference))
    coin = (derive(keys, Stream.CUT_FIRST) & np.uint64(1)).astype(np.int64)
    of_first = np.where(difference > 0, from_longer, 0) + (excess - from_longer + coin) // 2
    return (
        _cut_at_random_end(first, of_first, derive(keys, Stream.CUT_FIRST)),
        _cut_at_random_end(second, excess - of_first, derive(keys, Stream.CUT_SECOND)),
    )


def _cut_at_random_end(ranges: Ranges, count: Ints, keys: Keys) -> Ranges:
    at_front = np.where(uniform(keys) < 0.5, count, 0)
    return Ranges(ranges.part, ranges.start + at_front, ranges.end - (count - at_front))
