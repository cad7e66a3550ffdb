"""Windows: ranges of sentences inside one document, by example number.

Example i begins at the sentence that holds piece i·target + a jitter of the epoch: arithmetic on offsets that
the corpus has anyway, so nothing is written down and memory does not grow with the corpus.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.data.corpus import Corpus

Ints = NDArray[np.int64]


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


@dataclass(frozen=True)
class Anchors:
    """Sentences found by the pieces they hold, with the borders of their documents."""

    part: Ints
    sentence: Ints
    document_start: Ints
    document_end: Ints


def find_anchors(corpus: Corpus, positions: Ints) -> Anchors:
    """The sentence that holds each piece; positions count through the whole corpus."""
    parts = np.searchsorted(corpus.starts, positions, side="right") - 1
    found = np.empty((3, len(positions)), dtype=np.int64)
    for number in np.unique(parts):
        here = parts == number
        part = corpus.parts[number]
        local = positions[here] - corpus.starts[number]
        sentence = np.searchsorted(part.sentence_starts, local, side="right") - 1
        document = np.searchsorted(part.document_starts, sentence, side="right") - 1
        found[0, here] = sentence
        found[1, here] = part.document_starts[document]
        found[2, here] = part.document_starts[document + 1]
        corpus.let_go(number)
    return Anchors(parts, *found)


def grow_windows(
    corpus: Corpus, anchors: Anchors, *, targets: Ints, is_backward: NDArray[np.bool_]
) -> Windows:
    """Take sentences from the anchor on, or back from it, up to `targets` pieces.

    Where the document ends before that, the window takes in sentences on its other side: of a document that
    is shorter than the target it is all. A window of one sentence takes in a neighbour; only where its
    document has none does it stay alone. Half of the windows grow backwards, so that neither their first
    sentence nor their last is the one that was found by a piece: such sentences are longer than others, which
    would betray the order.
    """
    start, end = anchors.sentence.copy(), anchors.sentence + 1
    for number in np.unique(anchors.part):
        here = anchors.part == number
        starts = corpus.parts[number].sentence_starts
        low, high, target = anchors.document_start[here], anchors.document_end[here], targets[here]
        sentence, backward = anchors.sentence[here], is_backward[here]
        first = np.where(backward, np.maximum(_grow_back(starts, sentence + 1, target), low), sentence)
        last = np.where(backward, sentence + 1, np.minimum(_grow_on(starts, sentence, target), high))
        # What the document's border cut off is made up for on the other side.
        end[here] = np.where(
            backward, np.minimum(np.maximum(_grow_on(starts, first, target), last), high), last
        )
        start[here] = np.where(
            backward, first, np.maximum(np.minimum(_grow_back(starts, last, target), first), low)
        )
        corpus.let_go(number)
    # A sentence alone takes in its neighbour on the side it grows to; at a document's end, the other.
    is_alone = end - start < 2
    start = np.where(is_alone & is_backward, np.maximum(end - 2, anchors.document_start), start)
    end = np.where(is_alone, np.minimum(start + 2, anchors.document_end), end)
    start = np.where(is_alone, np.maximum(end - 2, anchors.document_start), start)
    return Windows(anchors.part, anchors.document_start, anchors.document_end, start, end)


def split_off_ends(corpus: Corpus, windows: Windows, *, targets: Ints, is_full: NDArray[np.bool_]) -> Ints:
    """The first sentences of segments that end where the windows do and hold `targets` pieces.

    None begins a document, but where that is a single sentence. Where `is_full`, a segment has its target or
    more, if its document has it; elsewhere it is as near to it as whole sentences come.
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
        corpus.let_go(number)
    return first


def _grow_on(starts: Ints, first: Ints, targets: Ints) -> Ints:
    """The end of windows that begin with these sentences and hold their targets."""
    return np.searchsorted(starts, starts[first] + targets, side="left")


def _grow_back(starts: Ints, end: Ints, targets: Ints) -> Ints:
    """The first sentence of windows that end before these and hold their targets."""
    return np.searchsorted(starts, starts[end] - targets, side="right") - 1


def locate_documents(corpus: Corpus, windows: Windows) -> tuple[Ints, Ints]:
    """Where the documents of windows begin and end; pieces are counted through the whole corpus."""
    before = np.asarray(corpus.starts)[windows.part]
    borders = (windows.document_start, windows.document_end)
    start, end = (before + piece_offsets(corpus, windows.part, sentences) for sentences in borders)
    return start, end


def piece_offsets(corpus: Corpus, parts: Ints, sentences: Ints) -> Ints:
    """Where these sentences begin among the pieces of their part."""
    offsets = np.empty(len(parts), dtype=np.int64)
    for number in np.unique(parts):
        here = parts == number
        offsets[here] = corpus.parts[number].sentence_starts[sentences[here]]
        corpus.let_go(number)
    return offsets
