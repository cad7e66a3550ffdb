"""What is held out: whole documents at the end, and never a sentence of both sides."""

import itertools
import pickle

import numpy as np
import pytest

from albert.data.corpus import hold_out, narrow
from albert.errors import InputError
from tests.examples.conftest import NUM_ORDINARY, corpus, tokenizer, write_corpus

__all__ = ["corpus", "tokenizer"]


def pieces(of):
    return np.concatenate([part.pieces for part in of.parts]).tolist()


def documents(of):
    """Documents of sentences of pieces."""
    found = []
    for part in of.parts:
        for first, last in zip(part.document_starts[:-1], part.document_starts[1:], strict=True):
            starts = part.sentence_starts[first : last + 1]
            found.append([part.pieces[a:b].tolist() for a, b in itertools.pairwise(starts)])
    return found


def test_the_last_documents_are_held_out_whole(corpus):
    split = hold_out(corpus, share=0.02, max_pieces=10**6)
    assert documents(split.train) + documents(split.held_out) == documents(corpus)
    assert split.train.num_documents + split.held_out.num_documents == corpus.num_documents
    assert 0.02 <= split.held_out.num_pieces / corpus.num_pieces < 0.06


def test_a_large_corpus_gives_no_more_than_it_must(corpus):
    assert hold_out(corpus, share=0.4, max_pieces=2000).held_out.num_pieces < 6000


def test_one_long_document_is_cut_between_two_sentences(tokenizer, tmp_path):
    sentences = [[5 + (i * 7 + j) % NUM_ORDINARY for j in range(10)] for i in range(1000)]
    book = write_corpus(tmp_path, [sentences], tokenizer)
    split = hold_out(book, share=0.01, max_pieces=10**6)
    assert documents(split.train) == [sentences[:990]]
    assert documents(split.held_out) == [sentences[990:]]


def test_a_part_of_a_corpus_survives_the_way_to_another_process(corpus):
    part = narrow(corpus, 1000, 5000)
    again = pickle.loads(pickle.dumps(part))
    assert pieces(again) == pieces(part)
    assert again.num_pieces == part.num_pieces == int(part.starts[-1])
    assert len(pickle.dumps(part)) < 1000  # the folder and the range, not the pieces


def test_too_little_to_hold_some_out(tokenizer, tmp_path):
    tiny = write_corpus(tmp_path, [[[6, 7, 8]]], tokenizer)
    with pytest.raises(InputError, match="1 sentences in 1 documents are too few to hold some out"):
        hold_out(tiny, share=0.01, max_pieces=100)


def test_next_sentences_need_two_documents_to_be_asked_about(tokenizer, tmp_path):
    (tmp_path / "two").mkdir()
    books = [[[5 + (b * 31 + i + j) % NUM_ORDINARY for j in range(10)] for i in range(300)] for b in range(5)]
    corpus = write_corpus(tmp_path / "two", books, tokenizer, per_shard=1)
    split = hold_out(corpus, share=0.01, max_pieces=10**6, min_documents=2)
    assert documents(split.held_out) == books[3:]
    assert documents(split.train) == books[:3]
