"""WordPiece gives the ids of transformers, with offsets."""

import string
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from transformers import BertTokenizer

from albert.errors import FileFormatError
from albert.text.wordpiece_tokenizer import WordPieceOptions, WordPieceTokenizer
from tests.conftest import rejects
from tests.text.conftest import VOCAB
from tests.text.test_normalize import UNICODE

WORDS = st.lists(
    st.sampled_from([*VOCAB[5:], "Ship", "SHIPS", "Café", "walked", "中国", "x" * 101, " "])
).map(" ".join)
LATIN = st.text(string.ascii_letters + string.digits + string.punctuation + " éÜñ中国")
OPTIONS = st.builds(
    WordPieceOptions,
    do_lower_case=st.booleans(),
    strip_accents=st.none() | st.booleans(),
    tokenize_chinese_chars=st.booleans(),
)


@given(UNICODE | LATIN | WORDS, OPTIONS)
def test_ids_are_those_of_transformers(vocab_bytes, text, options):
    assume(not any(token in text for token in VOCAB[:5]))  # transformers recognizes special tokens in text
    tokenizer = WordPieceTokenizer(vocab_bytes, options=options)
    theirs = BertTokenizer(vocab={token: i for i, token in enumerate(VOCAB)}, **options.model_dump())
    expected = theirs(text, add_special_tokens=False)["input_ids"]
    assert list(tokenizer.encode(text).ids) == expected
    assert tokenizer.encode_ids([text]) == [expected]


@given(LATIN)
def test_spans_recover_the_raw_text(wordpiece, text):
    encoding = wordpiece.encode(text)
    covered = {i for start, end in encoding.spans for i in range(start, end)}
    assert all(char == " " for i, char in enumerate(text) if i not in covered)
    for token_id, (start, end) in zip(encoding.ids, encoding.spans, strict=True):
        if token_id != wordpiece.unk_id:
            bare = unicodedata.normalize("NFD", text[start:end].lower())
            bare = "".join(char for char in bare if not unicodedata.combining(char))
            assert wordpiece.token(token_id).removeprefix("##") == bare


def test_tokens_of_a_known_text(wordpiece):
    encoding = wordpiece.encode("Unwantable 中国, NOBODY Walked")
    tokens = ["unwant", "##able", "中", "国", ",", "nobody", "walk", "##ed"]
    assert [wordpiece.token(i) for i in encoding.ids] == tokens
    assert encoding.spans == ((0, 6), (6, 10), (11, 12), (12, 13), (13, 14), (15, 21), (22, 26), (26, 28))
    assert wordpiece.decode(wordpiece.encode("the ships left , nobody").ids) == "the ships left, nobody"


def test_windows_line_ends_and_blank_lines_at_the_end_are_ignored(wordpiece, vocab_bytes):
    other = WordPieceTokenizer(vocab_bytes.replace(b"\n", b"\r\n") + b"\r\n\r\n")
    assert other.vocab_size == wordpiece.vocab_size == len(VOCAB)
    assert other.encode("the ship") == wordpiece.encode("the ship")


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (b"", ()),
        (b"[PAD]\n\xff\xfe\n", ("UTF-8",)),
        (b"the\nship\n", ("[PAD]", "2 tokens")),
        (b"[PAD]\nthe\nship\nthe\n", ("line 4", "'the'", "line 2")),
    ],
)
def test_other_files_are_rejected(content, values):
    with rejects(FileFormatError, "my/vocab.txt: ", *values):
        WordPieceTokenizer(content, source="my/vocab.txt")
