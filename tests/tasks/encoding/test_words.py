"""Word labels to pieces and back: every word has one piece in one window, whatever the words are."""

from itertools import pairwise

import pytest
from albert.tasks.encoding.words import iter_encoded_words
from albert.tasks.examples import TokenExample
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.text.sentencepiece_tokenizer import SentencePieceTokenizer

words = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("theship1,.\u0301\u200b éﬁ½`文 \t🚢"),
    max_size=12,
)


def encode(tokenizer, words_of_text, *, labels=None, max_length: int = 512, stride: int | None = None):
    example = TokenExample("x", tuple(words_of_text), labels)
    (encoded,) = iter_encoded_words([example], tokenizer=tokenizer, max_length=max_length, stride=stride)
    return encoded


@settings(deadline=None)
@given(st.lists(words, min_size=1, max_size=40), st.integers(4, 24), st.data())
def test_labels_go_to_pieces_and_come_back(tokenizer, words_of_text, max_length, data):
    labels = tuple(
        data.draw(st.lists(st.integers(0, 8), min_size=len(words_of_text), max_size=len(words_of_text)))
    )
    stride = data.draw(st.none() | st.integers(1, max_length))
    encoded = encode(tokenizer, words_of_text, labels=labels, max_length=max_length, stride=stride)
    for window in encoded.windows:
        assert len(window.sequence.ids) <= max_length
        assert all(1 <= position < len(window.sequence.ids) - 1 for position in window.positions)
        assert [window.sequence.ids[position] for position in window.positions] == [
            encoded.pieces[encoded.firsts[word]] for word in window.words
        ]
    assert encoded.join([window.labels for window in encoded.windows]) == list(labels)
    assert encoded.join([window.words for window in encoded.windows]) == list(range(len(labels)))


@settings(deadline=None)
@given(st.lists(words, min_size=1, max_size=20))
def test_pieces_are_those_of_the_words_with_spaces_between(tokenizer, words_of_text):
    encoded = encode(tokenizer, words_of_text)
    pieces = [piece for piece in encoded.pieces if piece != tokenizer.unk_id]
    whole = [
        piece for piece in tokenizer.encode_ids([" ".join(words_of_text)])[0] if piece != tokenizer.unk_id
    ]
    assert pieces == whole


def test_the_first_piece_of_a_word_carries_its_label(wordpiece):
    encoded = encode(wordpiece, ["unwantable", "ships", "walked"], labels=(3, 4, 5))
    (window,) = encoded.windows
    spelled = [wordpiece.token(piece) for piece in window.sequence.ids]
    assert spelled == ["[CLS]", "unwant", "##able", "ship", "##s", "walk", "##ed", "[SEP]"]
    assert window.positions == (1, 3, 5)
    assert window.labels == (3, 4, 5)


def test_words_without_pieces_are_unknown_pieces(tokenizer):
    encoded = encode(tokenizer, ["", "the", "\u0301", " ", "ship", ""], labels=(0, 1, 2, 3, 4, 5))
    firsts = [encoded.pieces[first] for first in encoded.firsts]
    assert [firsts[place] for place in (0, 2, 3, 5)] == [tokenizer.unk_id] * 4
    assert tokenizer.unk_id not in (firsts[1], firsts[4])
    (window,) = encoded.windows
    assert window.labels == (0, 1, 2, 3, 4, 5)


def test_long_texts_overlap_and_a_word_is_answered_where_it_has_most_context(tokenizer):
    encoded = encode(tokenizer, ["the", "ship"] * 500, max_length=66)
    windows = encoded.windows
    for before, after in pairwise(windows):
        assert after.slide.first - before.slide.first == 32
        assert before.words.stop == after.words.start
    for window in windows[1:-1]:
        edge = min(window.positions[0] - 1, 64 - window.positions[-1])
        assert edge >= 15
    assert sum(len(window.words) for window in windows) == 1000


@pytest.mark.parametrize("word", ["x" * 100_000, "theship" * 15_000])
def test_a_word_of_100_000_characters_is_one_word(tokenizer, word):
    encoded = encode(tokenizer, ["the", word, "ship"], labels=(1, 2, 3))
    assert encoded.join([window.labels for window in encoded.windows]) == [1, 2, 3]


def test_a_long_word_of_known_pieces_takes_many_windows(tokenizer):
    encoded = encode(tokenizer, ["the", "theship" * 15_000, "ship"])
    # WordPiece takes a word of that length for one that it does not know.
    assert (len(encoded.windows) > 10) is isinstance(tokenizer, SentencePieceTokenizer)


def test_no_words_are_no_answers(tokenizer):
    encoded = encode(tokenizer, [])
    (window,) = encoded.windows
    assert window.sequence.ids == (tokenizer.cls_id, tokenizer.sep_id)
    assert encoded.join([[]]) == []
