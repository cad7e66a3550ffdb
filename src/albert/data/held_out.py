"""A corpus comes in; one to train on and one to be asked about, with no sentence in both, go out."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.data.corpus import Corpus, narrow
from albert.errors import InputError


@dataclass(frozen=True)
class SplitCorpus:
    """The beginning of a corpus, and its end."""

    train: Corpus
    held_out: Corpus


def hold_out(corpus: Corpus, *, share: float, max_pieces: int, min_documents: int = 1) -> SplitCorpus:
    """Keep the last documents for evaluation: `share` of the pieces, but at most about `max_pieces`.

    Whole documents, so that no sentence is asked about whose neighbours were learned; where the last one is
    more than three times too long, only its end, of two sentences or more. Where `min_documents` are needed
    to ask about, there are as many. A corpus with nothing left to train on is refused.
    """
    wanted = max(1, min(round(share * corpus.num_pieces), max_pieces))
    counts = [len(part.sentence_starts) - 1 for part in corpus.parts]
    ends, documents, first = _list_tail(corpus, counts, 3 * wanted, min_documents)
    by_sentence = int(np.searchsorted(ends, corpus.num_pieces - wanted, side="right"))
    by_sentence = max(0, min(by_sentence, len(ends) - 2))
    number = int(np.searchsorted(documents, by_sentence, side="right")) - 1
    by_document = int(documents[max(0, min(number, len(documents) - min_documents))])
    is_near = by_document > 0 and corpus.num_pieces - ends[by_document - 1] <= 3 * wanted
    cut = first + (by_document if is_near or min_documents > 1 else by_sentence)
    if not 0 < cut < sum(counts) or corpus.num_documents < min_documents:
        raise InputError(
            f"{corpus.name}: {sum(counts)} sentences in {corpus.num_documents} documents are too few to "
            "hold some out; prepare more text, or give a prepared corpus to evaluate on as held_out.data"
        )
    return SplitCorpus(narrow(corpus, 0, cut), narrow(corpus, cut, sum(counts)))


def keep_beginning(corpus: Corpus, part: Corpus, *, share: float) -> Corpus:
    """Of `part`, which begins where the corpus does, the first `share` of the pieces; whole sentences."""
    wanted, num_sentences = share * part.num_pieces, 0
    for number, piece in enumerate(part.parts):
        left = wanted - part.starts[number]
        if left <= len(piece.pieces):
            num_sentences += int(np.searchsorted(piece.sentence_starts[1:], left, side="right"))
            break
        num_sentences += len(piece.sentence_starts) - 1
    if not num_sentences:
        raise InputError(
            f"{corpus.name}: {share:.3g} of {part.num_pieces:,} pieces is less than a sentence; raise "
            "data_share"
        )
    return narrow(corpus, 0, num_sentences)


def _list_tail(
    corpus: Corpus, counts: list[int], num_pieces: int, num_documents: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Of the last parts that hold more than so many pieces and documents, and of no others: where each
    sentence ends, in pieces, at which sentence each document begins, and the number of sentences before.
    """
    first = len(corpus.parts)
    found = 0
    while first and (corpus.num_pieces - corpus.starts[first] <= num_pieces or found <= num_documents):
        first -= 1
        found += len(corpus.parts[first].document_starts) - 1
    ends, documents, num_sentences = [], [], 0
    for number in range(first, len(corpus.parts)):
        part = corpus.parts[number]
        ends.append(part.sentence_starts[1:].astype(np.int64) + corpus.starts[number])
        documents.append(part.document_starts[:-1].astype(np.int64) + num_sentences)
        num_sentences += counts[number]
    return np.concatenate(ends), np.concatenate(documents), sum(counts) - num_sentences
