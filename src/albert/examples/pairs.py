"""Find pairs of segments in a corpus for sentence order (SOP), next sentence (NSP), or no objective.

The window of an example is a range of sentences of one document around a given token of the corpus. It is
found by arithmetic on the offsets of the corpus, and split at a random sentence.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from albert.data.corpus import Corpus
from albert.examples.randomness import Ints, Keys, Stream, below, derive, uniform
from albert.examples.settings import ExampleSettings

_TRIES = 8  # to find another document with a segment of the right length
_NOT_FOUND = np.iinfo(np.int64).max
_LAST_RESORT = 1 << 40


class Ranges(NamedTuple):
    """Ranges of tokens [start, end) in parts of the corpus."""

    part: Ints
    start: Ints
    end: Ints

    @property
    def length(self) -> Ints:
        return self.end - self.start

    def take(self, index: Ints) -> "Ranges":
        return Ranges(*(column[index] for column in self))

    def choose(self, other: "Ranges", where: NDArray[np.bool_]) -> "Ranges":
        """Take the other ranges where the condition is true, and these elsewhere."""
        return Ranges(*(np.where(where, theirs, mine) for mine, theirs in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Pairs:
    """The first and the second segment in the order of the input, and their labels."""

    first: Ranges
    second: Ranges
    label: Ints  # 1 for a swapped pair (sop) or a random second segment (nsp)
    is_valid: NDArray[np.bool_]  # false for a single sentence if the objective needs two


def build_pairs(corpus: Corpus, positions: Ints, keys: Keys, settings: ExampleSettings) -> Pairs:
    """Split windows around the given tokens at a random sentence, cut them to length, swap or replace."""
    # The maximum number of tokens of both segments; by default 10% of the examples are shorter on purpose.
    is_short = uniform(derive(keys, Stream.SHORT)) < settings.short_share
    short = 2 + below(derive(keys, Stream.SHORT_LENGTH), settings.target_tokens - 1)
    targets = np.where(is_short, short, settings.target_tokens)
    # For single sentences, a window of one, which is extended by a neighbor.
    wanted = np.ones_like(targets) if settings.unit == "sentences" else targets
    is_backward = uniform(derive(keys, Stream.DIRECTION)) < 0.5
    is_single = settings.unit == "texts"
    windows = grow_windows(
        corpus, positions, targets=wanted, is_backward=is_backward, min_sentences=1 if is_single else 2
    )
    split = windows.start + 1 + below(derive(keys, Stream.SPLIT), windows.num_sentences - 1)
    if is_single:
        split, targets = windows.end, np.full_like(targets, settings.target_tokens)  # whole sentences
    starts, middles, ends = (
        token_offsets(corpus, windows.part, sentences) for sentences in (windows.start, split, windows.end)
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
    """The part of the corpus, the sentences of the document and those of the window of each example."""

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
    """Grow windows from the sentence with a given token, forward or backward, up to `targets` tokens.

    If the document ends before that, the window grows on the other side; a single sentence is extended by a
    neighbor. Half of the windows grow backward, so that neither the first nor the last sentence always has
    the token: such sentences are longer than average, which would reveal the order.
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
        last = np.where(backward, sentence + 1, np.minimum(_grow_ahead(starts, sentence, target), high[here]))
        # Extend windows that end at a document boundary on the other side.
        more = np.minimum(np.maximum(_grow_ahead(starts, first, target), last), high[here])
        end[here] = np.where(backward, more, last)
        more = np.maximum(np.minimum(_grow_back(starts, last, target), first), low[here])
        start[here] = np.where(backward, first, more)
        corpus.release(number)
    # Extend single sentences by the neighbor in their direction, or by the other at a document boundary.
    is_alone = end - start < min_sentences
    start = np.where(is_alone & is_backward, np.maximum(end - 2, low), start)
    end = np.where(is_alone, np.minimum(start + 2, high), end)
    start = np.where(is_alone, np.maximum(end - 2, low), start)
    return Windows(parts, low, high, start, end)


def _grow_ahead(starts: NDArray[np.int32], first: Ints, targets: Ints) -> Ints:
    return np.searchsorted(starts, starts[first] + targets, side="left")


def _grow_back(starts: NDArray[np.int32], end: Ints, targets: Ints) -> Ints:
    return np.searchsorted(starts, starts[end] - targets, side="right") - 1


def token_offsets(corpus: Corpus, parts: Ints, sentences: Ints) -> Ints:
    """Return the token offsets of sentences in their parts."""
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
    """Draw a segment of another document, as long as the true second segment, and whether one exists.

    Random segments must differ from true ones only in content. So they are the ends of windows that grow in
    the same way, and full pairs stay full and short pairs as short: `true` is the length of the true segment,
    `available` what a full pair has left for it. Of several tries, the one nearest to that length is taken.
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
        # Draw from the tokens of other documents, because beside a long document eight tries often find none.
        positions = below(draw, num_others[left])
        positions += np.where(positions >= own_start[left], (own_end - own_start)[left], 0)
        other = grow_windows(corpus, positions, targets=wanted[left], is_backward=is_backward[left])
        start = _split_off_ends(corpus, other, targets=targets[left], is_full=is_full[left])
        offsets = (token_offsets(corpus, other.part, sentences) for sentences in (start, other.end))
        candidate = Ranges(other.part, *offsets)
        is_other = (other.part != windows.part[left]) | (other.document_start != windows.document_start[left])
        excess = candidate.length - targets[left]
        miss = np.where(is_full[left] & (excess > 0), 0, np.abs(excess))
        miss += np.where(other.num_sentences < 2, _LAST_RESORT, 0)  # a single sentence has no second segment
        is_better = is_other & (miss < misses[left])
        for mine, theirs in zip((*chosen, misses), (*candidate, miss), strict=True):
            mine[left[is_better]] = theirs[is_better]
    return chosen, misses < _NOT_FOUND


def _split_off_ends(corpus: Corpus, windows: Windows, *, targets: Ints, is_full: NDArray[np.bool_]) -> Ints:
    """Find the first sentences of segments of `targets` tokens at the ends of windows.

    A segment has at least its target where `is_full`, and elsewhere as near to it as whole sentences allow.
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
    """Cut the excess from the longer segment until both are equal, then from both, each at a random end."""
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
