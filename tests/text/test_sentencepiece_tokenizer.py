"""SentencePiece tokenization gives the ids of the library and of the published code, with offsets."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor

from albert.errors import FileFormatError
from albert.text.normalize import normalize_text
from albert.text.sentencepiece_tokenizer import SentencePieceTokenizer
from tests.conftest import rejects
from tests.text.conftest import LINES, published_ids, train_model
from tests.text.test_normalize import UNICODE

VISIBLE = st.text(string.ascii_letters + string.digits + string.punctuation + " \t\u00a0éÜßñﬁ½€£–’“")
NEAR = st.lists(st.sampled_from([*" ,.\"('19", "1990,", "1985,", "the", "ship", "``"])).map("".join)


@given(UNICODE | VISIBLE | NEAR)
@example("in 1990, 1985,1990, (1990,)")
@example("\u1112\u1161\u11ab \ufeffa\x01b ▁x▁")
def test_ids_are_those_of_sentencepiece(tokenizer, processor, text):
    expected = published_ids(processor, text)
    assert list(tokenizer.encode(text).ids) == expected
    assert tokenizer.encode_ids([text]) == [expected]


def test_many_texts_are_encoded_as_one_by_one(tokenizer):
    assert tokenizer.encode_batch(LINES) == [tokenizer.encode(line) for line in LINES]
    assert tokenizer.encode_ids(LINES) == [list(tokenizer.encode(line).ids) for line in LINES]


def test_a_comma_after_a_digit_is_its_own_token(tokenizer, processor):
    assert "▁1990," in processor.encode("in 1990, x", out_type=str)
    encoding = tokenizer.encode("in 1990, x")
    tokens = [tokenizer.token(i) for i in encoding.ids]
    assert tokens[tokens.index(",") - 1][-1] == "0"
    assert not any(token[-2:-1].isdigit() for token in tokens if token[-1] == ",")
    assert encoding.spans[tokens.index(",")] == (7, 8)


@given(UNICODE)
def test_spans_are_monotone_and_inside_the_text(tokenizer, text):
    spans = tokenizer.encode(text).spans
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert [start for start, _ in spans] == sorted(start for start, _ in spans)
    assert [end for _, end in spans] == sorted(end for _, end in spans)


@given(VISIBLE)
def test_spans_recover_the_raw_text(tokenizer, processor, text):
    encoding = tokenizer.encode(text)
    covered = {i for start, end in encoding.spans for i in range(start, end)}
    assert all(char.isspace() == (i not in covered) for i, char in enumerate(text))
    for token_id, (start, end) in zip(encoding.ids, encoding.spans, strict=True):
        letters = tokenizer.token(token_id).removeprefix("▁")
        source = processor.normalize(normalize_text(text[start:end])).removeprefix("▁")
        if token_id == tokenizer.unk_id:
            assert source
        elif text[start:end].isascii():
            assert source == letters
        else:  # a ligature may be split between two tokens: both have it as their span
            assert letters in source


def test_a_lone_word_start_has_an_empty_span(tokenizer):
    encoding = tokenizer.encode(' the  "ship')
    tokens = [tokenizer.token(i) for i in encoding.ids]
    assert encoding.spans[tokens.index("▁")] == (6, 6)
    assert encoding.spans[tokens.index('"')] == (6, 7)


def test_decoding_gives_the_normalized_text(tokenizer):
    for line in LINES:
        assert tokenizer.decode(tokenizer.encode(line).ids) == normalize_text(line)
    sequence = tokenizer.build_sequence(tokenizer.encode("the ship"), tokenizer.encode("left"))
    assert tokenizer.decode([*sequence.ids, tokenizer.pad_id]) == "the ship left"


def test_published_vocabulary_on_real_lines(published_path, real_lines):
    processor = SentencePieceProcessor(model_proto=published_path.read_bytes())
    tokenizer = SentencePieceTokenizer(published_path.read_bytes())
    expected = [published_ids(processor, line) for line in real_lines]
    assert tokenizer.vocab_size == 30_000
    assert tokenizer.encode_ids(real_lines) == expected
    for line, ids, encoding in zip(real_lines, expected, tokenizer.encode_batch(real_lines), strict=True):
        assert list(encoding.ids) == ids
        # SentencePiece takes the byte-order mark at the head of the file for a space.
        visible = "".join(line.replace("\ufeff", " ").split())
        assert "".join(line[start:end] for start, end in encoding.spans) == visible


@pytest.mark.parametrize(
    ("damage", "value"),
    [
        (lambda model: b"not a model", "SentencePiece"),
        (lambda model: train_model(LINES, control_symbols=["[CLS]", "[SEP]"]), "[MASK]"),
        (lambda model: train_model(LINES, pad_id=-1), "<pad>"),
        (lambda model: train_model(LINES, model_type="bpe", vocab_size=100), "unigram"),
    ],
)
def test_other_files_are_rejected(model_bytes, damage, value):
    with rejects(FileFormatError, "my/spiece.model: ", value):
        SentencePieceTokenizer(damage(model_bytes), source="my/spiece.model")


@pytest.mark.parametrize(
    ("tokens", "begins"),
    [(["▁ship", ".", "7", "中", "の", "ไ", "ា", "က"], True), (["ship", "é", "ि", "क", "한"], False)],
)
def test_where_words_begin(tokenizer, monkeypatch, tokens, begins):
    """In scripts without spaces: everywhere. A vowel sign is part of its word, and Korean has spaces."""
    monkeypatch.setattr(tokenizer, "_tokens", tokens)
    assert [tokenizer.begins_word(number) for number in range(len(tokens))] == [begins] * len(tokens)


def test_a_full_stop_after_a_mask_is_tokenized_as_after_a_word(tokenizer):
    """In pretraining there is no lone word start between the two."""
    word = tokenizer.encode("the ship.")
    masked = tokenizer.encode("the [MASK].", masks=True)
    assert tokenizer.token(word.ids[-1]) == tokenizer.token(masked.ids[-1]) == "."
    assert masked.ids == (*tokenizer.encode("the").ids, tokenizer.mask_id, word.ids[-1])
    assert masked.spans[-2:] == ((4, 10), (10, 11))
    assert tokenizer.encode("the [MASK] .", masks=True).ids == (
        *tokenizer.encode("the").ids, tokenizer.mask_id, *tokenizer.encode(".").ids
    )  # fmt: skip


def test_an_apostrophe_after_a_mask_is_tokenized_as_after_a_word():
    """`▁'` is a token where quotations are frequent; after a word it is `'`."""
    lines = ["the king's son and the 'old' ship's mate", "a 'new' man's hat in the 'big' inn's hall"]
    tokenizer = SentencePieceTokenizer(train_model(lines * 50, vocab_size=60))
    index = tokenizer.encode("king's").spans.index((4, 5))
    inner_id, first_id = tokenizer.encode("king's").ids[index], tokenizer.encode("'").ids[0]
    assert (tokenizer.token(inner_id), tokenizer.token(first_id)) == ("'", "▁'")
    masked = tokenizer.encode("[MASK]'s", masks=True)
    assert masked.ids[:2] == (tokenizer.mask_id, inner_id)
    assert masked.spans[:2] == ((0, 6), (6, 7))
    assert tokenizer.encode("[MASK] 's", masks=True).ids[:2] == (tokenizer.mask_id, first_id)
    # A letter there may be a word of its own.
    assert tokenizer.encode("[MASK]the", masks=True).ids[1:] == tokenizer.encode("the").ids
