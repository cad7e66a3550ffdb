"""Tokenizer folders are read and written as transformers does, and give its ids."""

import json
import re
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from albert.errors import FileFormatError, SettingsError
from albert.settings import build_settings
from albert.text.folder import load_tokenizer, save_tokenizer
from albert.text.normalize import Normalization
from albert.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert.text.train_vocabulary import VocabularySettings, train_sentencepiece
from albert.text.wordpiece_tokenizer import WordPieceOptions, WordPieceTokenizer
from tests.conftest import rejects
from tests.text.conftest import LINES, VOCAB

# transformers cannot split a piece again after the search. In its file the pieces that end in a digit and a
# comma are disabled, which gives the same ids unless such a piece does not start a word.
COMMON = [line for line in LINES if not re.search(r"\b\d\d?,", line)]


def open_with_transformers(folder: Path, *, model_type: str):
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    return AutoTokenizer.from_pretrained(folder)


def test_a_saved_tokenizer_is_loaded_unchanged(tmp_path, model_bytes, vocab_bytes):
    cased = Normalization(do_lower_case=False, keep_accents=True)
    tokenizers = [
        SentencePieceTokenizer(model_bytes),
        SentencePieceTokenizer(model_bytes, options=cased),
        WordPieceTokenizer(vocab_bytes),
        WordPieceTokenizer(vocab_bytes, options=WordPieceOptions(do_lower_case=False, strip_accents=True)),
    ]
    for tokenizer in tokenizers:  # into one folder: files of another tokenizer are removed
        save_tokenizer(tokenizer, tmp_path, model_max_length=128)
        for path in (tmp_path, tmp_path / tokenizer.vocab_name):  # the options are in another file
            loaded = load_tokenizer(path)
            assert type(loaded) is type(tokenizer)
            assert loaded.fingerprint == tokenizer.fingerprint
            assert loaded.vocab_bytes == tokenizer.vocab_bytes
            assert loaded.encode("The Café, 1990") == tokenizer.encode("The Café, 1990")
        assert json.loads((tmp_path / "tokenizer_config.json").read_text())["model_max_length"] == 128
    assert len({each.fingerprint for each in tokenizers}) == len(tokenizers)


def check_ids(theirs, tokenizer, texts):
    for text in texts:
        ids = list(tokenizer.encode(text, masks=True).ids)
        assert theirs(text, add_special_tokens=False)["input_ids"] == ids


@pytest.mark.parametrize("rules", [Normalization(), Normalization(do_lower_case=False, keep_accents=True)])
def test_transformers_gives_our_ids_from_a_sentencepiece_folder(tmp_path, model_bytes, rules):
    tokenizer = SentencePieceTokenizer(model_bytes, options=rules)
    save_tokenizer(tokenizer, tmp_path)
    theirs = open_with_transformers(tmp_path, model_type="albert")
    assert theirs.model_max_length == 512
    assert theirs.vocab_size == tokenizer.vocab_size
    odd = [' "well', "in 1990,1985, (1990,)", "\ufeff\tthe  ship ", "a\x1cship", "1\ufe0f\u20e3 ❤\ufe0f ship"]
    check_ids(theirs, tokenizer, [*COMMON, "the [MASK] ship", *odd])
    check_sequences(theirs, tokenizer)


@pytest.mark.parametrize("keep_accents", [False, True])
def test_transformers_gives_our_ids_in_other_scripts(tmp_path, keep_accents):
    """The default steps of transformers drop vowel signs and join no syllables: tokenizer.json has ours."""
    lines = ["안녕하세요 세계", "हिन्दी पढ़ना", "ทุกวัน ไม่", "がぎぐ パン 10～20", "мой ёж", "ΟΔΟΣ ΣΟΦΙΑΣ σοφίας"]
    lines.append("❤\ufe0f ship")
    rules = {"keep_accents": keep_accents}
    settings = build_settings(VocabularySettings, values={"size": 72, "normalization": rules})
    tokenizer = train_sentencepiece(iter(lines * 50), settings=settings)
    save_tokenizer(tokenizer, tmp_path)
    theirs = open_with_transformers(tmp_path, model_type="albert")
    check_ids(theirs, tokenizer, lines)
    assert not [line for line in lines if tokenizer.unk_id in tokenizer.encode(line).ids]


def test_transformers_gives_our_ids_from_a_wordpiece_folder(tmp_path, vocab_bytes):
    tokenizer = WordPieceTokenizer(vocab_bytes, options=WordPieceOptions(do_lower_case=False))
    save_tokenizer(tokenizer, tmp_path)
    for model_type in ("albert", "bert"):
        theirs = open_with_transformers(tmp_path, model_type=model_type)
        check_ids(theirs, tokenizer, [*LINES, "the [MASK] ship", "Nobody nobody 中国"])
        check_sequences(theirs, tokenizer)


def check_sequences(theirs, tokenizer):
    first, second = "the ship left", "nobody waved"
    one = tokenizer.build_sequence(tokenizer.encode(first))
    two = tokenizer.build_sequence(tokenizer.encode(first), tokenizer.encode(second))
    assert theirs(first)["input_ids"] == list(one.ids)
    assert theirs(first, second)["input_ids"] == list(two.ids)
    assert theirs(first, second)["token_type_ids"] == list(two.segments)
    special = (theirs.pad_token_id, theirs.unk_token_id, theirs.cls_token_id, theirs.sep_token_id)
    assert special == (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id)
    assert theirs.mask_token_id == tokenizer.mask_id


def test_folders_of_transformers_without_a_vocabulary_file_are_read(tmp_path, tokenizer, wordpiece):
    for model_type, ours in (("albert", tokenizer), ("bert", wordpiece)):
        folder, saved = tmp_path / model_type, tmp_path / "saved" / model_type
        save_tokenizer(ours, folder)
        # From the vocabulary file alone, transformers makes its own tokenizer.json, by its class.
        (folder / "tokenizer.json").unlink()
        change_config(folder, tokenizer_class=f"{model_type.capitalize()}Tokenizer")
        open_with_transformers(folder, model_type=model_type).save_pretrained(saved)
        assert not (saved / ours.vocab_name).exists()
        assert load_tokenizer(saved).encode_batch(LINES) == ours.encode_batch(LINES)


@pytest.mark.parametrize("has_vocabulary", [True, False])
def test_tokens_added_after_the_vocabulary_are_rejected(tmp_path, tokenizer, has_vocabulary):
    """transformers gives them ids of their own."""
    save_tokenizer(tokenizer, tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    theirs.add_tokens(["<e1>"])
    theirs.save_pretrained(tmp_path / "added")
    if has_vocabulary:
        (tmp_path / "added" / tokenizer.vocab_name).write_bytes(tokenizer.vocab_bytes)
    with rejects(FileFormatError, "'<e1>'", tokenizer.vocab_size):
        load_tokenizer(tmp_path / "added")


def change_config(folder: Path, **changes: object) -> None:
    """Set options of `tokenizer_config.json`; None removes one."""
    path = folder / "tokenizer_config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


@pytest.mark.parametrize("has_vocabulary", [True, False])
@pytest.mark.parametrize(
    "config",
    [
        {"additional_special_tokens": ["[E1]"]},
        {"additional_special_tokens": [{"content": "[E1]", "lstrip": True}]},
        {"extra_special_tokens": {"entity_token": "[E1]"}},
        {"extra_special_tokens": ["[E2]"]},
        {"added_tokens_decoder": {str(len(VOCAB)): {"content": "[E1]", "special": True}}},
    ],
)
def test_a_special_token_that_would_be_split_is_rejected(tmp_path, wordpiece, has_vocabulary, config):
    """transformers gives it the one id that it has in the vocabulary."""
    vocab_bytes = wordpiece.vocab_bytes + b"[E1]\n[\n]\nE\n##1\n"
    save_tokenizer(WordPieceTokenizer(vocab_bytes, options=WordPieceOptions(do_lower_case=False)), tmp_path)
    change_config(tmp_path, **config)
    if not has_vocabulary:
        (tmp_path / "vocab.txt").unlink()
    with rejects(FileFormatError, "'[E"):
        load_tokenizer(tmp_path)


def test_known_special_tokens_may_be_declared_again(tmp_path, tokenizer, wordpiece):
    """As in published folders: the special ones in any form, and ALBERT's own signs."""
    for ours in (tokenizer, wordpiece):
        save_tokenizer(ours, tmp_path)
        flags = {"lstrip": True, "normalized": True, "__type": "AddedToken"}
        special = {number: ours.token(number) for number in sorted(ours.special_ids)}
        change_config(
            tmp_path,
            additional_special_tokens=[*special.values(), "(", "-", '"'],
            added_tokens_decoder={
                str(number): {"content": text, **flags} for number, text in special.items()
            },
            mask_token={"content": "[MASK]", **flags},
            bos_token="<s>",
            extra_special_tokens=["<s>"],
        )
        assert load_tokenizer(tmp_path).fingerprint == ours.fingerprint


@pytest.mark.parametrize(
    ("steps", "rules"),
    [
        (["Nmt", "NFKC"], {"do_lower_case": False, "keep_accents": True}),
        (["Nmt", "NFKC", "Lowercase"], {"do_lower_case": True, "keep_accents": True}),
        (["NFD", "StripAccents"], {"do_lower_case": False, "keep_accents": False}),
        (["NFKD", "StripAccents", "Lowercase"], {"do_lower_case": True, "keep_accents": False}),
        ([], {"do_lower_case": False, "keep_accents": True}),
    ],
)
@pytest.mark.parametrize("has_vocabulary", [True, False])
def test_case_and_accents_follow_the_normalizer(tmp_path, tokenizer, steps, rules, has_vocabulary):
    save_tokenizer(tokenizer, tmp_path)
    change_config(tmp_path, do_lower_case=None, keep_accents=None)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["normalizer"]["normalizers"] = [{"type": step} for step in steps]
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    if not has_vocabulary:
        (tmp_path / tokenizer.vocab_name).unlink()
    assert load_tokenizer(tmp_path).options == Normalization(**rules)


@pytest.mark.parametrize("name", ["PreTrainedTokenizerFast", "TokenizersBackend"])
def test_without_options_in_the_config_those_of_tokenizer_json_are_used(tmp_path, vocab_bytes, name):
    options = WordPieceOptions(do_lower_case=False, tokenize_chinese_chars=False)
    save_tokenizer(WordPieceTokenizer(vocab_bytes, options=options), tmp_path)
    removed = {"do_lower_case": None, "strip_accents": None, "tokenize_chinese_chars": None}
    change_config(tmp_path, tokenizer_class=name, **removed)
    ours = load_tokenizer(tmp_path)
    assert ours.options == options
    theirs = open_with_transformers(tmp_path, model_type="bert")
    check_ids(theirs, ours, ("Nobody Cafe café", "Nobody 中国"))
    # BERT's own class has its defaults, whatever the file says.
    change_config(tmp_path, tokenizer_class="BertTokenizer")
    assert load_tokenizer(tmp_path).options == WordPieceOptions()


@pytest.mark.parametrize(
    ("key", "changes", "value"),
    [
        ("pre_tokenizer", {"type": "WhitespaceSplit"}, "'WhitespaceSplit'"),
        ("model", {"continuing_subword_prefix": "@@"}, "'@@'"),
    ],
)
def test_other_wordpiece_rules_are_rejected(tmp_path, wordpiece, key, changes, value):
    save_tokenizer(wordpiece, tmp_path)
    change_config(tmp_path, tokenizer_class="PreTrainedTokenizerFast", do_lower_case=None)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, key: {**content[key], **changes}}))
    with rejects(FileFormatError, value):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("word_tokenizer_type", "mecab"),
        ("subword_tokenizer_type", "character"),
        ("tokenizer_class", "BertJapaneseTokenizer"),
    ],
)
def test_japanese_tokenizers_are_rejected(tmp_path, wordpiece, key, value):
    save_tokenizer(wordpiece, tmp_path)
    change_config(tmp_path, word_tokenizer_type="basic", subword_tokenizer_type="wordpiece")
    assert load_tokenizer(tmp_path).fingerprint == wordpiece.fingerprint
    change_config(tmp_path, **{key: value})
    for path in (tmp_path, tmp_path / "vocab.txt"):
        with rejects(FileFormatError, "tokenizer_config.json", key, value):
            load_tokenizer(path)


def test_a_folder_without_options_has_the_published_ones(tmp_path, model_bytes, tokenizer):
    (tmp_path / "spiece.model").write_bytes(model_bytes)
    assert load_tokenizer(tmp_path).fingerprint == tokenizer.fingerprint
    path = tmp_path / "tokenizer_config.json"
    path.write_text('{"do_lower_case": null, "keep_accents": false, "other": 1}')
    assert load_tokenizer(tmp_path).fingerprint == tokenizer.fingerprint
    path.write_text('{"do_lower_case": "yes"}')
    with rejects(SettingsError, path, "do_lower_case is 'yes'"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("files", "value"),
    [
        ({}, "spiece.model, vocab.txt, symbols.txt or tokenizer.json"),
        ({"spiece.model": ""}, "spiece.model"),
        ({"tokenizer.json": "{"}, "line 1"),
        ({"tokenizer.json": '{"model": {"type": "BPE"}}'}, "BPE"),
    ],
)
def test_a_folder_without_a_tokenizer_is_rejected(tmp_path, files, value):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with rejects(FileFormatError, tmp_path, value):
        load_tokenizer(tmp_path)
