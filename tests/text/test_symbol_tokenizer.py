"""Vocabularies of symbols, such as phonemes: one token per word or per character."""

import json
import pickle

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from transformers import AutoTokenizer

from albert.errors import FileFormatError, InputError
from albert.text import symbol_tokenizer
from albert.text.folder import load_tokenizer, save_tokenizer
from albert.text.symbol_tokenizer import (
    SymbolOptions,
    SymbolTokenizer,
    build_symbol_vocabulary,
)
from tests.conftest import rejects

SPECIAL = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
PHONEMES = ["DH AH0 SH IH1 P", "L EH1 F T  DH AH0", "\tHH AA1 R B ER0\n"]
SINGLE = SymbolOptions(is_per_character=True)
SPACED = build_symbol_vocabulary(PHONEMES)
CHARACTERS = build_symbol_vocabulary(["ðəʃɪp lɛft", "ðə hɑɹbɚ"], options=SINGLE)
TOKENIZERS = pytest.mark.parametrize("tokenizer", [SPACED, CHARACTERS], ids=["spaced", "characters"])


def test_the_special_tokens_come_first_and_then_the_most_frequent():
    lines = SPACED.vocab_bytes.decode().splitlines()
    assert lines[:7] == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "AH0", "DH"]
    assert lines[7:] == sorted(lines[7:])
    ids = (SPACED.pad_id, SPACED.unk_id, SPACED.cls_id, SPACED.sep_id, SPACED.mask_id)
    assert ids == (0, 1, 2, 3, 4)
    assert SPACED.vocab_size == len(lines) == 5 + len({word for line in PHONEMES for word in line.split()})


def test_one_id_for_each_symbol_with_its_span():
    text = "  DH AH0\tSH xx"
    encoding = SPACED.encode(text)
    assert [text[start:end] for start, end in encoding.spans] == ["DH", "AH0", "SH", "xx"]
    assert [SPACED.token(i) for i in encoding.ids] == ["DH", "AH0", "SH", "<unk>"]
    assert SPACED.encode_ids([text, ""]) == [list(encoding.ids), []]
    assert SPACED.encode("dh").ids == (SPACED.unk_id,)  # case is part of a symbol


def test_each_character_is_a_symbol():
    text = "ðə ʃɪp"
    encoding = CHARACTERS.encode(text)
    assert [text[start:end] for start, end in encoding.spans] == list("ðəʃɪp")
    assert CHARACTERS.decode(encoding.ids) == "ðəʃɪp"


@pytest.mark.parametrize(
    ("text", "firsts"),
    [
        ("▁ ð ə ▁ ʃ ɪ p .", "▁ ▁"),  # a symbol between words
        ("▁ð ə ▁ʃ ɪ p .", "▁ð ▁ʃ"),  # a mark at the first symbol
        ("ð ə ʃ ɪ p .", "ð ə ʃ ɪ p ."),  # otherwise every symbol is a word
    ],
)
def test_words_begin_at_their_marks(text, firsts):
    tokenizer = build_symbol_vocabulary([text])
    ids = tokenizer.encode(text).ids
    assert [tokenizer.token(i) for i in ids if tokenizer.begins_word(i)] == firsts.split()


def test_special_tokens_in_a_text_are_unknown_except_masks_on_request():
    assert SPACED.encode("[CLS] <pad> DH").ids[:2] == (SPACED.unk_id, SPACED.unk_id)
    assert SPACED.encode("DH [MASK] DH", masks=True).ids[1] == SPACED.mask_id
    assert SPACED.decode([2, 5, 4, 3, 0]) == "AH0 [MASK]"
    assert b"[SEP]" not in build_symbol_vocabulary(["a [SEP] b"]).vocab_bytes.split(b"[MASK]")[1]


SYMBOL = st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1, max_size=4)


@given(st.lists(SYMBOL, min_size=1))
@settings(deadline=None)
def test_symbols_are_decoded(symbols):
    symbols = [symbol for symbol in symbols if symbol not in SPECIAL] or ["a"]
    tokenizer = build_symbol_vocabulary([" ".join(symbols)])
    assert tokenizer.decode(tokenizer.encode(" ".join(symbols)).ids) == " ".join(symbols)
    assert tokenizer.unk_id not in tokenizer.encode(" ".join(symbols)).ids


@TOKENIZERS
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
@settings(deadline=None)
def test_tokenizers_gives_the_same_ids_and_spans_for_any_text(tokenizer, text):
    assume(not any(token in text for token in SPECIAL))  # `tokenizers` recognizes them in text
    theirs = Backend.from_str(tokenizer.to_tokenizer_json()).encode(text, add_special_tokens=False)
    assert tokenizer.encode(text).ids == tuple(theirs.ids)
    assert tokenizer.encode(text).spans == tuple(theirs.offsets)


@TOKENIZERS
@pytest.mark.parametrize("config", [None, {"model_type": "albert"}])
def test_transformers_opens_the_folder_with_the_same_ids(tokenizer, config, tmp_path):
    save_tokenizer(tokenizer, tmp_path)
    if config:
        (tmp_path / "config.json").write_text(json.dumps(config))
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    for text in [*PHONEMES, "ðə ʃɪp", "zz [MASK] DH"]:
        ours = tokenizer.encode(text, masks=True)
        assert theirs(text, add_special_tokens=False)["input_ids"] == list(ours.ids)
        sequence = tokenizer.build_sequence(ours, ours)
        assert theirs(text, text)["input_ids"] == list(sequence.ids)
        assert theirs(text, text)["token_type_ids"] == list(sequence.segments)
    special = (theirs.pad_token_id, theirs.unk_token_id, theirs.cls_token_id, theirs.sep_token_id)
    assert (*special, theirs.mask_token_id) == (0, 1, 2, 3, 4)
    theirs.save_pretrained(tmp_path / "theirs")
    assert not (tmp_path / "theirs" / "symbols.txt").exists()
    assert load_tokenizer(tmp_path / "theirs").fingerprint == tokenizer.fingerprint


@TOKENIZERS
def test_it_is_loaded_and_pickled_unchanged(tokenizer, tmp_path):
    save_tokenizer(tokenizer, tmp_path)
    for copy in (load_tokenizer(tmp_path), pickle.loads(pickle.dumps(tokenizer))):
        assert isinstance(copy, SymbolTokenizer)
        assert (copy.fingerprint, copy.options) == (tokenizer.fingerprint, tokenizer.options)
        assert copy.encode_batch(PHONEMES) == tokenizer.encode_batch(PHONEMES)
    assert load_tokenizer(tmp_path / "symbols.txt").vocab_bytes == tokenizer.vocab_bytes


def test_rare_symbols_and_a_largest_size():
    assert build_symbol_vocabulary(["a b b c c c"], min_count=2).vocab_bytes.split()[5:] == [b"c", b"b"]
    assert build_symbol_vocabulary(["a b b c c c"], max_size=6).vocab_bytes.split()[5:] == [b"c"]


@pytest.mark.parametrize(
    ("texts", "changes", "value"),
    [
        ([], {}, "0 symbols"),
        (["a b"], {"min_count": 2}, "2 symbols"),
        (["a"], {"max_size": 5}, "--size 5"),
        ((f"{i}" for i in range(2000)), {}, "1,000"),
    ],
)
def test_texts_without_a_vocabulary_are_rejected(texts, changes, value, monkeypatch):
    monkeypatch.setattr(symbol_tokenizer, "MAX_DISTINCT", 1000)
    with rejects(InputError, value):
        build_symbol_vocabulary(texts, **changes)


@pytest.mark.parametrize(
    ("lines", "options", "values"),
    [
        ("a b c", SymbolOptions(), ("<pad>, <unk>",)),
        ("<pad> <unk> [CLS] [SEP] [MASK] ab", SINGLE, ("line 6", "'ab'")),
        ("<pad> <unk> [CLS] [SEP] [MASK] a\u3000b", SymbolOptions(), ("line 6",)),
        ("<pad> <unk> [CLS] [SEP] [MASK] a a", SymbolOptions(), ("line 7", "'a'", "line 6")),
        ("<pad> <unk> [CLS] [SEP] [MASK]  a", SymbolOptions(), ("line 6", "''")),
    ],
)
def test_a_damaged_vocabulary_is_rejected(lines, options, values):
    with rejects(FileFormatError, "my.txt", *values):
        SymbolTokenizer(lines.replace(" ", "\n").encode(), options=options, source="my.txt")
