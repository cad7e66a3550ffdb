"""A model folder comes in, its tokenizer goes out; a tokenizer comes in, the files of a folder go out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from albert.errors import FileFormatError
from albert.files import atomic_path, read_json, write_json, write_text
from albert.settings import build_settings
from albert.text.normalise import Normalisation
from albert.text.sentencepiece_model import rebuild_model
from albert.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert.text.symbol_tokenizer import SymbolOptions, SymbolTokenizer
from albert.text.tokenizer import Tokenizer
from albert.text.wordpiece_tokenizer import WordPieceOptions, WordPieceTokenizer

VOCABULARY_NAMES = (
    SentencePieceTokenizer.vocab_name, WordPieceTokenizer.vocab_name, SymbolTokenizer.vocab_name,
)  # fmt: skip
_JSON_NAME = "tokenizer.json"
ADDED_NAME = "added_tokens.json"
_CONFIG_NAME = "tokenizer_config.json"
# One of these makes a tokenizer; with its options, these are all that `save_tokenizer` may write.
VOCABULARY_FILES = (*VOCABULARY_NAMES, _JSON_NAME)
TOKENIZER_FILES = (*VOCABULARY_FILES, _CONFIG_NAME)


def load_tokenizer(path: Path) -> Tokenizer:
    """Open the tokenizer of a folder, or a vocabulary file itself (`*.model` or `*.txt`).

    In a folder, `spiece.model` goes before `vocab.txt`, that before `symbols.txt` and that before
    `tokenizer.json`; the options are those of the `tokenizer_config.json` beside it, or the published ones.
    """
    path = Path(path)
    config_path = (path.parent if path.is_file() else path) / _CONFIG_NAME
    config = _read_object(config_path) if config_path.exists() else {}
    if path.is_file():
        return _open_vocab(path, config=config)
    for name in VOCABULARY_NAMES:
        if (path / name).exists():
            return _refuse_added(_open_vocab(path / name, config=config), path)
    if (path / _JSON_NAME).exists():
        return _refuse_added(_open_json(path / _JSON_NAME, config=config), path)
    raise FileFormatError(
        f"{path}: has no {', '.join(VOCABULARY_NAMES)} or {_JSON_NAME}; "
        "give the folder of a model or of a vocabulary, or a vocabulary file"
    )


def _refuse_added(tokenizer: Tokenizer, folder: Path) -> Tokenizer:
    """Refuse tokens added behind the vocabulary: cut into pieces, they would mean something else."""
    added: list[tuple[Any, Any]] = []
    if (folder / ADDED_NAME).exists():
        added += _read_object(folder / ADDED_NAME).items()
    if (folder / _JSON_NAME).exists():
        listed = _read_object(folder / _JSON_NAME).get("added_tokens") or []
        for each in listed if isinstance(listed, list) else [listed]:
            token = each if isinstance(each, dict) else {}
            added.append((token.get("content"), token.get("id")))
    for content, number in added:
        if not isinstance(content, str) or not isinstance(number, int):
            raise FileFormatError(
                f"{folder}: adds the token {content!r} with the id {number!r}, and a token is a text with a "
                f"whole number; mend {_JSON_NAME} and {ADDED_NAME}, or fetch them again"
            )
        if number >= tokenizer.vocab_size:
            raise FileFormatError(
                f"{folder}: adds the token {content!r} (id {number}) behind a vocabulary of "
                f"{tokenizer.vocab_size:,} pieces, which is not read; put it into the vocabulary itself"
            )
    return tokenizer


def has_tokenizer(folder: Path) -> bool:
    """Whether `load_tokenizer` would find a vocabulary in the folder."""
    return any((Path(folder) / name).exists() for name in (*VOCABULARY_NAMES, _JSON_NAME))


def save_tokenizer(tokenizer: Tokenizer, folder: Path, *, model_max_length: int = 512) -> None:
    """Write the vocabulary as it was read, and the two files by which `transformers` opens it."""
    folder = Path(folder)
    with atomic_path(folder / tokenizer.vocab_name) as aside:
        aside.write_bytes(tokenizer.vocab_bytes)
    for name in VOCABULARY_NAMES:
        if name != tokenizer.vocab_name:  # another tokenizer's, which would be opened instead
            (folder / name).unlink(missing_ok=True)
    write_text(folder / _JSON_NAME, tokenizer.to_tokenizer_json())
    special = tokenizer.special_tokens
    config = {
        **tokenizer.to_tokenizer_config(),
        "pad_token": special.pad,
        "unk_token": special.unk,
        "cls_token": special.cls,
        "sep_token": special.sep,
        "mask_token": special.mask,
        "model_max_length": model_max_length,
        # Said outright: the names that a class has by itself may leave the segments out.
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    write_json(folder / _CONFIG_NAME, config)


def _open_vocab(path: Path, *, config: Mapping[str, Any]) -> Tokenizer:
    try:
        vocab_bytes = path.read_bytes()
    except OSError as error:
        raise FileFormatError(f"{path}: {error.strerror or error}; check the path") from error
    if path.suffix == ".model":
        return _build_sentencepiece(vocab_bytes, config=config, source=path)
    if path.name == SymbolTokenizer.vocab_name:
        return _build_symbols(vocab_bytes, config=config, source=path)
    if path.suffix == ".txt":
        return _build_wordpiece(vocab_bytes, config=config, source=path)
    raise FileFormatError(f"{path}: a vocabulary's name ends in .model (SentencePiece) or .txt (WordPiece)")


def _open_json(path: Path, *, config: Mapping[str, Any]) -> Tokenizer:
    """Open what `transformers` 5 saves, which is no more than `tokenizer.json` and its config."""
    content = _read_object(path)
    model = _get_section(content, "model", path)
    if model.get("type") == "Unigram":
        vocab_bytes = rebuild_model(content, source=str(path))
        config = {**_read_unigram_rules(_get_section(content, "normalizer", path)), **config}
        return _build_sentencepiece(vocab_bytes, config=config, source=path)
    if model.get("type") == "WordLevel":
        found = {"is_per_character": _get_section(content, "pre_tokenizer", path).get("type") == "Sequence"}
        vocab_bytes = _join_vocab(model.get("vocab"), path)
        return _build_symbols(vocab_bytes, config={**found, **config}, source=path)
    normalizer = _get_section(content, "normalizer", path)
    if model.get("type") != "WordPiece" or normalizer.get("type") != "BertNormalizer":
        raise FileFormatError(
            f"{path}: holds a {model.get('type')} model with a {normalizer.get('type')} normalizer; "
            "albert opens Unigram, WordLevel, and WordPiece with BERT's: add spiece.model or vocab.txt"
        )
    found = {
        "do_lower_case": normalizer.get("lowercase"),
        "strip_accents": normalizer.get("strip_accents"),
        "tokenize_chinese_chars": normalizer.get("handle_chinese_chars"),
    }
    return _build_wordpiece(_join_vocab(model.get("vocab"), path), config={**found, **config}, source=path)


def _get_section(content: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
    """A part of `tokenizer.json`, which may be missing but is an object if it is there."""
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise FileFormatError(f"{path}: {key} is a {type(value).__name__}, not an object; fetch it again")
    return value


def _read_unigram_rules(normalizer: Mapping[str, Any]) -> dict[str, bool]:
    """What the steps of a normalizer say of case and accents, if they say anything."""
    # What the steps are was checked when the pieces were read.
    steps = {str(step.get("type")) for step in normalizer.get("normalizers") or [normalizer]}
    if not steps & {"Lowercase", "StripAccents", "NFKD", "Precompiled"}:
        return {}
    return {"do_lower_case": "Lowercase" in steps, "keep_accents": "NFKD" not in steps}


def _join_vocab(vocab: Any, path: Path) -> bytes:
    is_numbered = isinstance(vocab, dict) and all(isinstance(number, int) for number in vocab.values())
    if not is_numbered or sorted(vocab.values()) != list(range(len(vocab))):
        raise FileFormatError(f"{path}: the ids of its vocabulary are not 0, 1, 2, …; add vocab.txt")
    pieces = sorted(vocab, key=vocab.__getitem__)
    try:
        return "".join(f"{piece}\n" for piece in pieces).encode()
    except UnicodeEncodeError as error:
        raise FileFormatError(f"{path}: a piece holds half a character; add vocab.txt") from error


def _build_sentencepiece(vocab_bytes: bytes, *, config: Mapping[str, Any], source: Path) -> Tokenizer:
    values = {key: config[key] for key in Normalisation.model_fields if config.get(key) is not None}
    rules = build_settings(Normalisation, values=values, source=str(source.parent / _CONFIG_NAME))
    return SentencePieceTokenizer(vocab_bytes, rules=rules, source=str(source))


def _build_wordpiece(vocab_bytes: bytes, *, config: Mapping[str, Any], source: Path) -> Tokenizer:
    values = {key: config[key] for key in WordPieceOptions.model_fields if config.get(key) is not None}
    options = build_settings(WordPieceOptions, values=values, source=str(source.parent / _CONFIG_NAME))
    return WordPieceTokenizer(vocab_bytes, options=options, source=str(source))


def _build_symbols(vocab_bytes: bytes, *, config: Mapping[str, Any], source: Path) -> Tokenizer:
    values = {key: config[key] for key in SymbolOptions.model_fields if config.get(key) is not None}
    options = build_settings(SymbolOptions, values=values, source=str(source.parent / _CONFIG_NAME))
    return SymbolTokenizer(vocab_bytes, options=options, source=str(source))


def _read_object(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise FileFormatError(f"{path}: holds a {type(value).__name__}, not an object; fetch it again")
    return value
