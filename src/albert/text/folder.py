"""A model folder comes in, its tokenizer goes out; a tokenizer comes in, the files of a folder go out."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from albert.errors import FileFormatError
from albert.files import atomic_path, read_json, write_json, write_text
from albert.settings import build_settings
from albert.text.added_tokens import refuse_added
from albert.text.json_rules import get_section, read_rules
from albert.text.normalise import Normalisation
from albert.text.sentencepiece_model import rebuild_model
from albert.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert.text.symbol_tokenizer import SymbolOptions, SymbolTokenizer
from albert.text.tokenizer import Tokenizer
from albert.text.wordpiece_tokenizer import WordPieceOptions, WordPieceTokenizer

VOCABULARY_NAMES = (
    SentencePieceTokenizer.vocab_name, WordPieceTokenizer.vocab_name, SymbolTokenizer.vocab_name,
)  # fmt: skip
JSON_NAME = "tokenizer.json"
ADDED_NAME = "added_tokens.json"
_CONFIG_NAME = "tokenizer_config.json"
# Classes of `transformers` without rules of their own: they do what tokenizer.json says.
_PLAIN_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
# What tokenizer_config.json says where texts are cut as BERT's are not.
_JAPANESE: dict[str, Callable[[Any], bool]] = {
    "word_tokenizer_type": lambda value: value not in (None, "basic"),
    "subword_tokenizer_type": lambda value: value not in (None, "wordpiece"),
    "tokenizer_class": lambda value: value == "BertJapaneseTokenizer",
}
# One of these makes a tokenizer; with its options, these are all that `save_tokenizer` may write.
VOCABULARY_FILES = (*VOCABULARY_NAMES, JSON_NAME)
TOKENIZER_FILES = (*VOCABULARY_FILES, _CONFIG_NAME)


def load_tokenizer(path: Path) -> Tokenizer:
    """Open the tokenizer of a folder, or a vocabulary file itself (`*.model` or `*.txt`).

    In a folder, `spiece.model` goes before `vocab.txt`, that before `symbols.txt` and that before
    `tokenizer.json`; the options are those of the `tokenizer_config.json` beside it, or the published ones,
    but those of `tokenizer.json` where the config leaves it to that. What would be cut otherwise than
    `transformers` does is refused: tokens added as markers, and Japanese words.
    """
    path = Path(path)
    config = _read_config(path.parent if path.is_file() else path)
    if path.is_file():
        return _open_vocab(path, config=config)
    for name in VOCABULARY_NAMES:
        if (path / name).exists():
            return _check_added(_open_vocab(path / name, config=config), path, config=config)
    if (path / JSON_NAME).exists():
        return _check_added(_open_json(path / JSON_NAME, config=config), path, config=config)
    raise FileFormatError(
        f"{path}: has no {', '.join(VOCABULARY_NAMES)} or {JSON_NAME}; "
        "give the folder of a model or of a vocabulary, or a vocabulary file"
    )


def _read_config(folder: Path) -> dict[str, Any]:
    """The options of a folder; those of `tokenizer.json` where `transformers` would go by nothing else."""
    config = _read_if_there(folder / _CONFIG_NAME)
    if config.get("tokenizer_class") not in _PLAIN_CLASSES or config.get("do_lower_case") is not None:
        return config
    path = folder / JSON_NAME
    said = {key: value for key, value in config.items() if value is not None}
    return {**read_rules(_read_if_there(path), path), **said}


def _check_added(tokenizer: Tokenizer, folder: Path, *, config: Mapping[str, Any]) -> Tokenizer:
    refuse_added(
        tokenizer,
        folder=folder,
        config=config,
        tokenizer_json=_read_if_there(folder / JSON_NAME),
        added=_read_if_there(folder / ADDED_NAME),
    )
    return tokenizer


def has_tokenizer(folder: Path) -> bool:
    """Whether `load_tokenizer` would find a vocabulary in the folder."""
    return any((Path(folder) / name).exists() for name in (*VOCABULARY_NAMES, JSON_NAME))


def save_tokenizer(tokenizer: Tokenizer, folder: Path, *, model_max_length: int = 512) -> None:
    """Write the vocabulary as it was read, and the two files by which `transformers` opens it."""
    folder = Path(folder)
    with atomic_path(folder / tokenizer.vocab_name) as aside:
        aside.write_bytes(tokenizer.vocab_bytes)
    for name in VOCABULARY_NAMES:
        if name != tokenizer.vocab_name:  # another tokenizer's, which would be opened instead
            (folder / name).unlink(missing_ok=True)
    write_text(folder / JSON_NAME, tokenizer.to_tokenizer_json())
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
    model = get_section(content, "model", path)
    if model.get("type") == "Unigram":
        vocab_bytes = rebuild_model(content, source=str(path))
        return _build_sentencepiece(vocab_bytes, config={**read_rules(content, path), **config}, source=path)
    if model.get("type") == "WordLevel":
        vocab_bytes = _join_vocab(model.get("vocab"), path)
        return _build_symbols(vocab_bytes, config={**read_rules(content, path), **config}, source=path)
    normalizer = get_section(content, "normalizer", path)
    if model.get("type") != "WordPiece" or normalizer.get("type") != "BertNormalizer":
        raise FileFormatError(
            f"{path}: holds a {model.get('type')} model with a {normalizer.get('type')} normalizer; "
            "albert opens Unigram, WordLevel, and WordPiece with BERT's: add spiece.model or vocab.txt"
        )
    vocab_bytes = _join_vocab(model.get("vocab"), path)
    return _build_wordpiece(vocab_bytes, config={**read_rules(content, path), **config}, source=path)


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
    _refuse_japanese(config, source=source.parent / _CONFIG_NAME)
    values = {key: config[key] for key in WordPieceOptions.model_fields if config.get(key) is not None}
    options = build_settings(WordPieceOptions, values=values, source=str(source.parent / _CONFIG_NAME))
    return WordPieceTokenizer(vocab_bytes, options=options, source=str(source))


def _refuse_japanese(config: Mapping[str, Any], *, source: Path) -> None:
    """Refuse what finds words with a dictionary, or cuts them into characters: BERT's rules do neither."""
    for key, is_other in _JAPANESE.items():
        value = config.get(key)
        if is_other(value):
            raise FileFormatError(
                f"{source}: {key} is {value!r}, and vocab.txt is opened only with BERT's way of cutting; "
                "take a model whose tokenizer_class is BertTokenizer"
            )


def _build_symbols(vocab_bytes: bytes, *, config: Mapping[str, Any], source: Path) -> Tokenizer:
    values = {key: config[key] for key in SymbolOptions.model_fields if config.get(key) is not None}
    options = build_settings(SymbolOptions, values=values, source=str(source.parent / _CONFIG_NAME))
    return SymbolTokenizer(vocab_bytes, options=options, source=str(source))


def _read_if_there(path: Path) -> dict[str, Any]:
    return _read_object(path) if path.exists() else {}


def _read_object(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise FileFormatError(f"{path}: holds a {type(value).__name__}, not an object; fetch it again")
    return value
