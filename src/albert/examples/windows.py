"""Where examples lie: example numbers come in, ranges of sentences inside one document go out.

Example i begins at the sentence that holds piece i·target + a jitter of the epoch: arithmetic on offsets that
the corpus has anyway, so nothing is written down and memory does not grow with the corpus.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.corpus.corpus import Corpus

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
        """Sentences in each window."""
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
    """Take sentences from the anchor on, or back from it, up to `targets` pieces or the document's end.

    A window of one sentence takes in a neighbour; only where its document has none does it stay alone. Half
    of the windows grow backwards, so that neither their first sentence nor their last is the one that
    was found by a piece: such sentences are longer than others, which would betray the order.
    """
    start, end = anchors.sentence.copy(), anchors.sentence + 1
    for number in np.unique(anchors.part):
        here = anchors.part == number
        starts = corpus.parts[number].sentence_starts
        sentence, target = anchors.sentence[here], targets[here]
        forward = np.searchsorted(starts, starts[sentence] + target, side="left")
        backward = np.searchsorted(starts, starts[sentence + 1] - target, side="right") - 1
        end[here] = np.where(is_backward[here], sentence + 1, forward)
        start[here] = np.where(is_backward[here], backward, sentence)
        corpus.let_go(number)
    start = np.maximum(start, anchors.document_start)
    end = np.minimum(np.maximum(end, start + 1), anchors.document_end)
    # A sentence alone takes in its neighbour on the side it grows to; at a document's end, the other.
    is_alone = end - start < 2
    start = np.where(is_alone & is_backward, np.maximum(end - 2, anchors.document_start), start)
    end = np.where(is_alone, np.minimum(start + 2, anchors.document_end), end)
    start = np.where(is_alone, np.maximum(end - 2, anchors.document_start), start)
    return Windows(anchors.part, anchors.document_start, anchors.document_end, start, end)


def piece_offsets(corpus: Corpus, parts: Ints, sentences: Ints) -> Ints:
    """Where these sentences begin among the pieces of their part."""
    offsets = np.empty(len(parts), dtype=np.int64)
    for number in np.unique(parts):
        here = parts == number
        offsets[here] = corpus.parts[number].sentence_starts[sentences[here]]
        corpus.let_go(number)
    return offsets
