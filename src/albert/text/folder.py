"""Load the tokenizer of a model folder, and save one in Hugging Face's layout."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any, TypeVar

from albert.errors import FileFormatError
from albert.files import atomic_path, read_json, write_json, write_text
from albert.settings import Settings, build_settings
from albert.text.normalize import Normalization
from albert.text.sentencepiece_tokenizer import BORDER, SentencePieceTokenizer
from albert.text.symbol_tokenizer import SymbolOptions, SymbolTokenizer
from albert.text.tokenizer import Tokenizer
from albert.text.tokenizer_json import get_section, read_rules, rebuild_model
from albert.text.wordpiece_tokenizer import WordPieceOptions, WordPieceTokenizer

VOCABULARY_NAMES = (
    SentencePieceTokenizer.vocab_name, WordPieceTokenizer.vocab_name, SymbolTokenizer.vocab_name,
)  # fmt: skip
S = TypeVar("S", bound=Settings)
JSON_NAME = "tokenizer.json"
ADDED_NAME = "added_tokens.json"
_CONFIG_NAME = "tokenizer_config.json"
# Generic classes of `transformers`: they do what tokenizer.json says.
_PLAIN_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
# Options of tokenizer_config.json that split words in another way than BERT.
_JAPANESE: dict[str, Callable[[Any], bool]] = {
    "word_tokenizer_type": lambda value: value not in (None, "basic"),
    "subword_tokenizer_type": lambda value: value not in (None, "wordpiece"),
    "tokenizer_class": lambda value: value == "BertJapaneseTokenizer",
}
# The keys of tokenizer_config.json for tokens without ids: of `transformers` 4 and 5.
_UNNUMBERED = ("additional_special_tokens", "extra_special_tokens")
# Like the special tokens, these do not occur in texts.
_FRAMES = ("bos_token", "eos_token")
_CURE = "such markers are not supported: take a model trained with plain words in their place"
# One of these makes a tokenizer; with its options, these are all that `save_tokenizer` may write.
VOCABULARY_FILES = (*VOCABULARY_NAMES, JSON_NAME)
TOKENIZER_FILES = (*VOCABULARY_FILES, _CONFIG_NAME)


def load_tokenizer(path: Path) -> Tokenizer:
    """Load the tokenizer of a folder, or a vocabulary file (`*.model` or `*.txt`).

    The first of `spiece.model`, `vocab.txt`, `symbols.txt` and `tokenizer.json` is used. The options are
    those of `tokenizer_config.json`, of `tokenizer.json` if it names a generic class, or the published ones.

    Raises:
        FileFormatError: If there is no vocabulary, or one that is tokenized differently by `transformers`:
            with added tokens, or Japanese words.
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
    """Read the options of a folder; a generic class has those of `tokenizer.json`."""
    config = _read_if_there(folder / _CONFIG_NAME)
    if config.get("tokenizer_class") not in _PLAIN_CLASSES or config.get("do_lower_case") is not None:
        return config
    path = folder / JSON_NAME
    said = {key: value for key, value in config.items() if value is not None}
    return {**read_rules(_read_if_there(path), path), **said}


def has_tokenizer(folder: Path) -> bool:
    """Return whether a folder has a vocabulary."""
    return any((Path(folder) / name).exists() for name in (*VOCABULARY_NAMES, JSON_NAME))


def save_tokenizer(tokenizer: Tokenizer, folder: Path, *, model_max_length: int = 512) -> None:
    """Write the vocabulary, and `tokenizer.json` and its config for `transformers`."""
    folder = Path(folder)
    with atomic_path(folder / tokenizer.vocab_name) as aside:
        aside.write_bytes(tokenizer.vocab_bytes)
    for name in VOCABULARY_NAMES:
        if name != tokenizer.vocab_name:  # of another tokenizer, which would be loaded instead
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
        # The defaults of a class may omit the segments.
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
    """Open a `tokenizer.json` without a vocabulary file, as `transformers` 5 saves it."""
    content = _read_object(path)
    model, normalizer = get_section(content, "model", path), get_section(content, "normalizer", path)
    build: Callable[..., Tokenizer] = _build_wordpiece
    if model.get("type") == "Unigram":
        build, vocab_bytes = _build_sentencepiece, rebuild_model(content, source=str(path))
    elif model.get("type") == "WordLevel":
        build, vocab_bytes = _build_symbols, _join_vocab(model.get("vocab"), path)
    elif model.get("type") == "WordPiece" and normalizer.get("type") == "BertNormalizer":
        vocab_bytes = _join_vocab(model.get("vocab"), path)
    else:
        raise FileFormatError(
            f"{path}: holds a {model.get('type')} model with a {normalizer.get('type')} normalizer; "
            "albert opens Unigram, WordLevel, and WordPiece with BERT's: add spiece.model or vocab.txt"
        )
    return build(vocab_bytes, config={**read_rules(content, path), **config}, source=path)


def _join_vocab(vocab: Any, path: Path) -> bytes:
    is_numbered = isinstance(vocab, dict) and all(isinstance(number, int) for number in vocab.values())
    if not is_numbered or sorted(vocab.values()) != list(range(len(vocab))):
        raise FileFormatError(f"{path}: the ids of its vocabulary are not 0, 1, 2, …; add vocab.txt")
    pieces = sorted(vocab, key=vocab.__getitem__)
    try:
        return "".join(f"{piece}\n" for piece in pieces).encode()
    except UnicodeEncodeError as error:
        raise FileFormatError(f"{path}: a piece holds half a character; add vocab.txt") from error


def _read_options(kind: type[S], config: Mapping[str, Any], source: Path) -> S:
    values = {key: config[key] for key in kind.model_fields if config.get(key) is not None}
    return build_settings(kind, values=values, source=str(source.parent / _CONFIG_NAME))


def _build_sentencepiece(vocab_bytes: bytes, *, config: Mapping[str, Any], source: Path) -> Tokenizer:
    rules = _read_options(Normalization, config, source)
    return SentencePieceTokenizer(vocab_bytes, rules=rules, source=str(source))


def _build_symbols(vocab_bytes: bytes, *, config: Mapping[str, Any], source: Path) -> Tokenizer:
    options = _read_options(SymbolOptions, config, source)
    return SymbolTokenizer(vocab_bytes, options=options, source=str(source))


def _build_wordpiece(vocab_bytes: bytes, *, config: Mapping[str, Any], source: Path) -> Tokenizer:
    _reject_japanese(config, source=source.parent / _CONFIG_NAME)
    options = _read_options(WordPieceOptions, config, source)
    return WordPieceTokenizer(vocab_bytes, options=options, source=str(source))


def _reject_japanese(config: Mapping[str, Any], *, source: Path) -> None:
    """Reject tokenizers that split words by a dictionary or into characters."""
    for key, is_other in _JAPANESE.items():
        value = config.get(key)
        if is_other(value):
            raise FileFormatError(
                f"{source}: {key} is {value!r}, and vocab.txt is opened only with BERT's way of cutting; "
                "take a model whose tokenizer_class is BertTokenizer"
            )


def _read_if_there(path: Path) -> dict[str, Any]:
    return _read_object(path) if path.exists() else {}


def _read_object(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise FileFormatError(f"{path}: holds a {type(value).__name__}, not an object; fetch it again")
    return value


def _check_added(tokenizer: Tokenizer, folder: Path, *, config: Mapping[str, Any]) -> Tokenizer:
    """Reject added tokens that our tokenizer would split."""
    added, tokenizer_json = _read_if_there(folder / ADDED_NAME), _read_if_there(folder / JSON_NAME)
    silent = {*astuple(tokenizer.special_tokens), *(_get_content(config.get(key)) for key in _FRAMES)}
    numbered = [*added.items(), *_list_json(tokenizer_json), *_list_decoder(config)]
    for content, number in numbered:
        if not isinstance(content, str) or not isinstance(number, int):
            raise FileFormatError(
                f"{folder}: adds the token {content!r} with the id {number!r}, and a token is a text with a "
                "whole number; mend tokenizer.json, added_tokens.json and tokenizer_config.json, or fetch "
                "them again"
            )
        if number >= tokenizer.vocab_size:
            raise FileFormatError(
                f"{folder}: adds the token {content!r} (id {number}) behind a vocabulary of "
                f"{tokenizer.vocab_size:,} pieces, which is not read; {_CURE}"
            )
    known = dict(numbered)
    for content in (*known, *_list_unnumbered(config)):
        if content not in silent:
            _reject_cut(tokenizer, content, number=known.get(content), folder=folder)
    return tokenizer


def _reject_cut(tokenizer: Tokenizer, content: str, *, number: int | None, folder: Path) -> None:
    ids = tokenizer.encode_ids([content])[0]
    if len(ids) > 1 and tokenizer.piece(ids[0]) == BORDER:  # `(` alone begins a word: `▁` `(`
        ids = ids[1:]
    pieces = [tokenizer.piece(i) for i in ids]
    if pieces != [content] or number not in (None, *ids):
        raise FileFormatError(
            f"{folder}: adds the token {content!r}, and texts are cut here without regard to it, "
            f"into {' '.join(pieces) or 'nothing'}; {_CURE}"
        )


def _list_json(tokenizer_json: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    listed = tokenizer_json.get("added_tokens") or []
    for each in listed if isinstance(listed, list) else [listed]:
        token = each if isinstance(each, dict) else {}
        yield token.get("content"), token.get("id")


def _list_decoder(config: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the tokens of the config with their ids, which are keys there and so strings."""
    listed = config.get("added_tokens_decoder") or {}
    rows: list[tuple[Any, Any]] = list(listed.items()) if isinstance(listed, dict) else [(None, listed)]
    for key, token in rows:
        is_number = str(key).isdecimal() and len(key) < 10  # Python makes no number of thousands of digits
        yield _get_content(token), int(key) if is_number else key


def _list_unnumbered(config: Mapping[str, Any]) -> Iterator[str]:
    for key in _UNNUMBERED:
        listed = config.get(key)
        # By their names in an object, or one after the other.
        tokens = list(listed.values()) if isinstance(listed, dict) else listed
        for token in tokens if isinstance(tokens, list) else []:
            content = _get_content(token)
            if content is not None:
                yield content


def _get_content(token: Any) -> str | None:
    """Return the text of a token, which may be an object with flags."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None
