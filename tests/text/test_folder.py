import json
import re
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from albert.errors import FileFormatError, SettingsError
from albert.settings import build_settings
from albert.text.folder import load_tokenizer, save_tokenizer
from albert.text.normalise import Normalisation
from albert.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert.text.train_vocabulary import VocabularySettings, train_sentencepiece
from albert.text.wordpiece_tokenizer import WordPieceOptions, WordPieceTokenizer
from tests.text.conftest import LINES

# transformers cannot cut a piece again after the search. In its file the pieces that end in a digit and a
# comma are out of use, which comes to the same unless such a piece is not the start of a word.
COMMON = [line for line in LINES if not re.search(r"\b\d\d?,", line)]


def open_with_transformers(folder: Path, *, model_type: str):
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    return AutoTokenizer.from_pretrained(folder)


def test_what_is_saved_loads_equal(tmp_path, model_bytes, vocab_bytes):
    tokenizers = [
        SentencePieceTokenizer(model_bytes),
        SentencePieceTokenizer(model_bytes, rules=Normalisation(do_lower_case=False, keep_accents=True)),
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


@pytest.mark.parametrize("rules", [Normalisation(), Normalisation(do_lower_case=False, keep_accents=True)])
def test_transformers_gives_our_ids_from_a_sentencepiece_folder(tmp_path, model_bytes, rules):
    tokenizer = SentencePieceTokenizer(model_bytes, rules=rules)
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
    settings = build_settings(VocabularySettings, values={"size": 72, "normalisation": rules})
    tokenizer = train_sentencepiece(iter(lines * 50), settings=settings)
    save_tokenizer(tokenizer, tmp_path)
    theirs = open_with_transformers(tmp_path, model_type="albert")
    for text in lines:
        ids = list(tokenizer.encode(text).ids)
        assert theirs(text, add_special_tokens=False)["input_ids"] == ids
        assert tokenizer.unk_id not in ids


def test_transformers_gives_our_ids_from_a_wordpiece_folder(tmp_path, vocab_bytes):
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
def test_tokens_that_were_added_behind_the_vocabulary_are_refused(tmp_path, tokenizer, has_vocabulary):
    """Cut into pieces they would be other ids than `transformers` gives them."""
    save_tokenizer(tokenizer, tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    theirs.add_tokens(["<e1>"])
    theirs.save_pretrained(tmp_path / "added")
    if has_vocabulary:
        (tmp_path / "added" / tokenizer.vocab_name).write_bytes(tokenizer.vocab_bytes)
    with pytest.raises(FileFormatError, match=rf"adds the token '<e1>' \(id {tokenizer.vocab_size}\) behind"):
        load_tokenizer(tmp_path / "added")


def test_our_own_tokenizer_json_is_enough(tmp_path, tokenizer, wordpiece):
    for ours in (tokenizer, wordpiece):
        save_tokenizer(ours, tmp_path)
        (tmp_path / ours.vocab_name).unlink()
        assert load_tokenizer(tmp_path).encode_batch(COMMON) == ours.encode_batch(COMMON)


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
        ({"spiece.model": ""}, "spiece.model: empty"),
        ({"tokenizer.json": "{"}, "line 1 is not valid JSON"),
        ({"tokenizer.json": "[]"}, "holds a list, not an object"),
        ({"tokenizer.json": '{"model": {"type": "BPE"}}'}, "holds a BPE model"),
        (
            {"tokenizer.json": '{"model": {"type": "Unigram", "vocab": [["a", 0]]}}'},
            "not a whole Unigram tokenizer",
        ),
        (
            {
                "tokenizer.json": '{"model": {"type": "WordPiece", "vocab": {"a": 3}},'
                ' "normalizer": {"type": "BertNormalizer"}}'
            },
            "the ids of its vocabulary are not 0, 1, 2",
        ),
    ],
)
def test_a_folder_without_a_tokenizer_is_refused_in_one_line(tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(FileFormatError, match=message) as caught:
        load_tokenizer(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_option_of_the_wrong_type_is_refused_by_name(tmp_path, model_bytes):
    (tmp_path / "spiece.model").write_bytes(model_bytes)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": "yes"}')
    with pytest.raises(SettingsError, match=r"tokenizer_config.json: do_lower_case is 'yes'"):
        load_tokenizer(tmp_path)


def test_a_file_that_is_no_vocabulary_is_refused(tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"x")
    with pytest.raises(FileFormatError, match=r"ends in .model \(SentencePiece\) or .txt \(WordPiece\)"):
        load_tokenizer(tmp_path / "weights.bin")


def test_a_vocabulary_named_by_its_file_has_the_options_beside_it(tmp_path, model_bytes):
    cased = SentencePieceTokenizer(model_bytes, rules=Normalisation(do_lower_case=False, keep_accents=True))
    save_tokenizer(cased, tmp_path)
    assert load_tokenizer(tmp_path / "spiece.model").fingerprint == cased.fingerprint
    (tmp_path / "spiece.model").unlink()
    (tmp_path / "tokenizer_config.json").unlink()
    # Alone, a tokenizer.json tells by its steps what is done to case and accents.
    assert load_tokenizer(tmp_path).rules == cased.rules
