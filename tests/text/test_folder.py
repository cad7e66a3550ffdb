import json
import re
from pathlib import Path

import pytest
from tokenizers.implementations.sentencepiece_unigram import SentencePieceUnigramTokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from albert.errors import FileFormatError, SettingsError
from albert.settings import build_settings
from albert.text.folder import load_tokenizer, save_tokenizer
from albert.text.normalize import Normalization
from albert.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert.text.train_vocabulary import VocabularySettings, train_sentencepiece
from albert.text.wordpiece_tokenizer import WordPieceOptions, WordPieceTokenizer
from tests.text.conftest import LINES, VOCAB

# transformers cannot cut a piece again after the search. In its file the pieces that end in a digit and a
# comma are out of use, which comes to the same unless such a piece is not the start of a word.
COMMON = [line for line in LINES if not re.search(r"\b\d\d?,", line)]


def open_with_transformers(folder: Path, *, model_type: str):
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    return AutoTokenizer.from_pretrained(folder)


def test_what_is_saved_loads_equal(tmp_path, model_bytes, vocab_bytes):
    tokenizers = [
        SentencePieceTokenizer(model_bytes),
        SentencePieceTokenizer(model_bytes, options=Normalization(do_lower_case=False, keep_accents=True)),
        WordPieceTokenizer(vocab_bytes),
        WordPieceTokenizer(vocab_bytes, options=WordPieceOptions(do_lower_case=False, strip_accents=True)),
    ]
    for tokenizer in tokenizers:  # into one folder: what another kind left there is gone
        save_tokenizer(tokenizer, tmp_path, model_max_length=128)
        loaded = load_tokenizer(tmp_path)
        assert type(loaded) is type(tokenizer)
        assert loaded.fingerprint == tokenizer.fingerprint
        assert loaded.vocab_bytes == tokenizer.vocab_bytes
        assert loaded.encode("The Café, 1990") == tokenizer.encode("The Café, 1990")
        assert json.loads((tmp_path / "tokenizer_config.json").read_text())["model_max_length"] == 128
    assert len({each.fingerprint for each in tokenizers}) == len(tokenizers)


@pytest.mark.parametrize("rules", [Normalization(), Normalization(do_lower_case=False, keep_accents=True)])
def test_transformers_gives_our_ids_from_a_sentencetoken_folder(tmp_path, model_bytes, rules):
    tokenizer = SentencePieceTokenizer(model_bytes, options=rules)
    save_tokenizer(tokenizer, tmp_path)
    theirs = open_with_transformers(tmp_path, model_type="albert")
    assert theirs.model_max_length == 512
    assert theirs.vocab_size == tokenizer.vocab_size
    odd = [' "well', "in 1990,1985, (1990,)", "\ufeff\tthe  ship ", "a\x1cship", "1\ufe0f\u20e3 ❤\ufe0f ship"]
    for text in [*COMMON, "the [MASK] ship", *odd]:
        assert theirs(text, add_special_tokens=False)["input_ids"] == list(
            tokenizer.encode(text, masks=True).ids
        )
    _check_frames(theirs, tokenizer)


@pytest.mark.parametrize("keep_accents", [False, True])
def test_transformers_gives_our_ids_in_other_scripts(tmp_path, keep_accents):
    """Their own steps drop vowel signs, and join no syllables: ours have to stand in tokenizer.json."""
    lines = ["안녕하세요 세계", "हिन्दी पढ़ना", "ทุกวัน ไม่", "がぎぐ パン 10～20", "мой ёж", "ΟΔΟΣ ΣΟΦΙΑΣ σοφίας"]
    lines.append("❤\ufe0f ship")
    rules = {"keep_accents": keep_accents}
    settings = build_settings(VocabularySettings, values={"size": 72, "normalization": rules})
    tokenizer = train_sentencepiece(iter(lines * 50), settings=settings)
    save_tokenizer(tokenizer, tmp_path)
    theirs = open_with_transformers(tmp_path, model_type="albert")
    for text in lines:
        ids = list(tokenizer.encode(text).ids)
        assert theirs(text, add_special_tokens=False)["input_ids"] == ids
        assert tokenizer.unk_id not in ids


def test_transformers_gives_our_ids_from_a_wordtoken_folder(tmp_path, vocab_bytes):
    tokenizer = WordPieceTokenizer(vocab_bytes, options=WordPieceOptions(do_lower_case=False))
    save_tokenizer(tokenizer, tmp_path)
    for model_type in ("albert", "bert"):
        theirs = open_with_transformers(tmp_path, model_type=model_type)
        for text in [*LINES, "the [MASK] ship", "Nobody nobody 中国"]:
            ids = list(tokenizer.encode(text, masks=True).ids)
            assert theirs(text, add_special_tokens=False)["input_ids"] == ids
        _check_frames(theirs, tokenizer)


def _check_frames(theirs, tokenizer):
    first, second = "the ship left", "nobody waved"
    one = tokenizer.build_sequence(tokenizer.encode(first))
    two = tokenizer.build_sequence(tokenizer.encode(first), tokenizer.encode(second))
    assert theirs(first)["input_ids"] == list(one.ids)
    assert theirs(first, second)["input_ids"] == list(two.ids)
    assert theirs(first, second)["token_type_ids"] == list(two.segments)
    special = (theirs.pad_token_id, theirs.unk_token_id, theirs.cls_token_id, theirs.sep_token_id)
    assert special == (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id)
    assert theirs.mask_token_id == tokenizer.mask_id


def test_what_transformers_saves_without_a_vocabulary_file_opens_equal(tmp_path, tokenizer, wordpiece):
    for kind, ours in (("albert", tokenizer), ("bert", wordpiece)):
        save_tokenizer(ours, tmp_path / kind)
        # From the vocabulary file alone, transformers makes a tokenizer.json of its own, by its class.
        (tmp_path / kind / "tokenizer.json").unlink()
        config = json.loads((tmp_path / kind / "tokenizer_config.json").read_text())
        config["tokenizer_class"] = {"albert": "AlbertTokenizer", "bert": "BertTokenizer"}[kind]
        (tmp_path / kind / "tokenizer_config.json").write_text(json.dumps(config))
        open_with_transformers(tmp_path / kind, model_type=kind).save_pretrained(tmp_path / "saved" / kind)
        assert not (tmp_path / "saved" / kind / ours.vocab_name).exists()
        opened = load_tokenizer(tmp_path / "saved" / kind)
        assert opened.encode_batch(LINES) == ours.encode_batch(LINES)


@pytest.mark.parametrize("has_vocabulary", [True, False])
def test_tokens_that_were_added_behind_the_vocabulary_are_rejected(tmp_path, tokenizer, has_vocabulary):
    """Cut into pieces they would be other ids than `transformers` gives them."""
    save_tokenizer(tokenizer, tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    theirs.add_tokens(["<e1>"])
    theirs.save_pretrained(tmp_path / "added")
    if has_vocabulary:
        (tmp_path / "added" / tokenizer.vocab_name).write_bytes(tokenizer.vocab_bytes)
    with pytest.raises(FileFormatError, match=rf"adds the token '<e1>' \(id {tokenizer.vocab_size}\)"):
        load_tokenizer(tmp_path / "added")


def save_marked(wordpiece: WordPieceTokenizer, folder: Path, **config: object) -> None:
    """A folder whose vocabulary has the piece [E1] and whose config is changed."""
    vocab_bytes = wordpiece.vocab_bytes + b"[E1]\n[\n]\nE\n##1\n"
    save_tokenizer(WordPieceTokenizer(vocab_bytes, options=WordPieceOptions(do_lower_case=False)), folder)
    change_config(folder, **config)


def change_config(folder: Path, **changes: object) -> None:
    """Set options of `tokenizer_config.json`; those of None are taken out."""
    path = folder / "tokenizer_config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def change_json(folder: Path, key: str, **changes: object) -> None:
    """Set values in one part of `tokenizer.json`."""
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, key: {**content[key], **changes}}))


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
def test_a_marker_that_we_would_cut_is_rejected(tmp_path, wordpiece, has_vocabulary, config):
    """`transformers` gives it the one id that it has in the vocabulary; we would give its letters."""
    save_marked(wordpiece, tmp_path, **config)
    if not has_vocabulary:
        (tmp_path / "vocab.txt").unlink()
    with pytest.raises(FileFormatError, match=r"adds the token '\[E[12]\]'"):
        load_tokenizer(tmp_path)


def test_added_tokens_that_are_cut_whole_or_are_no_text_are_welcome(tmp_path, tokenizer, wordpiece):
    """As in published folders: the special ones in any of their spellings, and ALBERT's own signs."""
    for ours in (tokenizer, wordpiece):
        save_tokenizer(ours, tmp_path)
        special = [ours.token(number) for number in sorted(ours.special_ids)]
        flags = {"lstrip": True, "normalized": True, "__type": "AddedToken"}
        signs = ["(", "-", '"']
        change_config(
            tmp_path,
            additional_special_tokens=[*special, *signs],
            added_tokens_decoder={
                str(number): {"content": ours.token(number), **flags} for number in ours.special_ids
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
def test_case_and_accents_are_those_of_the_steps(tmp_path, tokenizer, steps, rules, has_vocabulary):
    save_tokenizer(tokenizer, tmp_path)
    change_config(tmp_path, do_lower_case=None, keep_accents=None)
    change_json(tmp_path, "normalizer", normalizers=[{"type": step} for step in steps])
    if not has_vocabulary:
        (tmp_path / tokenizer.vocab_name).unlink()
    assert load_tokenizer(tmp_path).options == Normalization(**rules)


def test_a_cased_unigram_of_tokenizers_keeps_its_case(tmp_path):
    trained = SentencePieceUnigramTokenizer()
    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    lines = [*LINES, "Café Über"] * 10
    trained.train_from_iterator(lines, vocab_size=200, special_tokens=special, unk_token="<unk>")
    theirs = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, unk_token="<unk>")
    theirs.save_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path)
    for text in ("The Ship left", "Café Über", "Nobody knew"):
        assert ours.encode_ids([text])[0] == theirs(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("name", ["PreTrainedTokenizerFast", "TokenizersBackend"])
def test_beside_a_silent_config_of_no_class_tokenizer_json_has_the_word(tmp_path, vocab_bytes, name):
    options = WordPieceOptions(do_lower_case=False, tokenize_chinese_chars=False)
    save_tokenizer(WordPieceTokenizer(vocab_bytes, options=options), tmp_path)
    silent = {"do_lower_case": None, "strip_accents": None, "tokenize_chinese_chars": None}
    change_config(tmp_path, tokenizer_class=name, **silent)
    ours = load_tokenizer(tmp_path)
    assert ours.options == options
    theirs = open_with_transformers(tmp_path, model_type="bert")
    for text in ("Nobody Cafe café", "Nobody 中国"):
        assert theirs(text, add_special_tokens=False)["input_ids"] == list(ours.encode(text).ids)
    # A class of BERT's has its own word, whatever the file says.
    change_config(tmp_path, tokenizer_class="BertTokenizer")
    assert load_tokenizer(tmp_path).options == WordPieceOptions()


@pytest.mark.parametrize("has_vocabulary", [True, False])
@pytest.mark.parametrize(
    ("key", "changes", "value"),
    [
        ("pre_tokenizer", {"type": "WhitespaceSplit"}, "WhitespaceSplit"),
        ("model", {"continuing_subword_prefix": "@@"}, "@@"),
    ],
)
def test_a_wordtoken_cut_otherwise_is_rejected(tmp_path, wordpiece, has_vocabulary, key, changes, value):
    save_tokenizer(wordpiece, tmp_path)
    change_config(tmp_path, tokenizer_class="PreTrainedTokenizerFast", do_lower_case=None)
    change_json(tmp_path, key, **changes)
    if not has_vocabulary:
        (tmp_path / "vocab.txt").unlink()
    with pytest.raises(FileFormatError, match=f"with '{value}' is not supported"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("word_tokenizer_type", "mecab"),
        ("subword_tokenizer_type", "character"),
        ("tokenizer_class", "BertJapaneseTokenizer"),
    ],
)
def test_a_japanese_tokenizer_is_not_taken_for_berts(tmp_path, wordpiece, key, value):
    save_tokenizer(wordpiece, tmp_path)
    change_config(tmp_path, word_tokenizer_type="basic", subword_tokenizer_type="wordpiece")
    assert load_tokenizer(tmp_path).fingerprint == wordpiece.fingerprint
    change_config(tmp_path, **{key: value})
    for path in (tmp_path, tmp_path / "vocab.txt"):
        with pytest.raises(FileFormatError, match=f"tokenizer_config.json: {key} is '{value}'"):
            load_tokenizer(path)


def test_transformers_on_real_lines(tmp_path, published_path, real_lines):
    tokenizer = load_tokenizer(published_path)
    save_tokenizer(tokenizer, tmp_path)
    theirs = open_with_transformers(tmp_path, model_type="albert")
    assert theirs(real_lines, add_special_tokens=False)["input_ids"] == tokenizer.encode_ids(real_lines)


def test_a_folder_without_options_has_the_published_ones(tmp_path, model_bytes, tokenizer):
    (tmp_path / "spiece.model").write_bytes(model_bytes)
    assert load_tokenizer(tmp_path).fingerprint == tokenizer.fingerprint
    (tmp_path / "tokenizer_config.json").write_text(
        '{"do_lower_case": null, "keep_accents": false, "other": 1}'
    )
    assert load_tokenizer(tmp_path).fingerprint == tokenizer.fingerprint


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "has no spiece.model, vocab.txt, symbols.txt or tokenizer.json"),
        ({"spiece.model": ""}, "spiece.model: "),
        ({"tokenizer.json": "{"}, "line 1 is not valid JSON"),
        ({"tokenizer.json": '{"model": {"type": "BPE"}}'}, "BPE models are not supported"),
        ({"weights.bin": ""}, "has no spiece.model"),
    ],
)
def test_a_folder_without_a_tokenizer_is_rejected_in_one_line(tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(FileFormatError, match=message) as caught:
        load_tokenizer(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_option_of_the_wrong_type_is_rejected_by_name(tmp_path, model_bytes):
    (tmp_path / "spiece.model").write_bytes(model_bytes)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": "yes"}')
    with pytest.raises(SettingsError, match=r"tokenizer_config.json: do_lower_case is 'yes'"):
        load_tokenizer(tmp_path)


def test_a_vocabulary_named_by_its_file_has_the_options_beside_it(tmp_path, model_bytes):
    cased = SentencePieceTokenizer(model_bytes, options=Normalization(do_lower_case=False, keep_accents=True))
    save_tokenizer(cased, tmp_path)
    assert load_tokenizer(tmp_path / "spiece.model").fingerprint == cased.fingerprint
    (tmp_path / "spiece.model").unlink()
    (tmp_path / "tokenizer_config.json").unlink()
    # Alone, a tokenizer.json tells by its steps what is done to case and accents.
    assert load_tokenizer(tmp_path).options == cased.options
