"""A corpus comes in; one to train on and one to be asked about, with no sentence in both, go out."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.corpus.corpus import Corpus, narrow
from albert.errors import InputError


@dataclass(frozen=True)
class SplitCorpus:
    """The beginning of a corpus, and its end."""

    train: Corpus
    held_out: Corpus


def hold_out(corpus: Corpus, *, share: float, max_pieces: int) -> SplitCorpus:
    """Keep the last documents for evaluation: `share` of the pieces, but at most about `max_pieces`.

    Whole documents, so that no sentence is asked about whose neighbours were learned; where the last one is
    more than three times too long, only its end. A corpus with nothing left to train on is refused.
    """
    wanted = max(1, min(round(share * corpus.num_pieces), max_pieces))
    counts = [len(part.sentence_starts) - 1 for part in corpus.parts]
    ends, documents, first = _list_tail(corpus, counts, num_pieces=3 * wanted)
    by_sentence = int(np.searchsorted(ends, corpus.num_pieces - wanted, side="right"))
    by_document = int(documents[np.searchsorted(documents, by_sentence, side="right") - 1])
    is_near = by_document > 0 and corpus.num_pieces - ends[by_document - 1] <= 3 * wanted
    cut = first + (by_document if is_near else by_sentence)
    if not 0 < cut < sum(counts):
        raise InputError(
            f"{corpus.folder}: {sum(counts)} sentences are too few to hold some out; prepare more text, or "
            "give a prepared corpus to evaluate on as held_out.data"
        )
    return SplitCorpus(narrow(corpus, 0, cut), narrow(corpus, cut, sum(counts)))


def _list_tail(
    corpus: Corpus, counts: list[int], *, num_pieces: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Of the last parts that hold more than `num_pieces`: where each sentence ends, in pieces, at which
    sentence each document begins, and the number of sentences before; memory for these alone.
    """
    first_part = int(np.searchsorted(corpus.starts, corpus.num_pieces - num_pieces, side="left")) - 1
    ends, documents, num_sentences = [], [], 0
    for number in range(max(0, first_part), len(corpus.parts)):
        part = corpus.parts[number]
        ends.append(part.sentence_starts[1:].astype(np.int64) + corpus.starts[number])
        documents.append(part.document_starts[:-1].astype(np.int64) + num_sentences)
        num_sentences += counts[number]
    return np.concatenate(ends), np.concatenate(documents), sum(counts) - num_sentences
