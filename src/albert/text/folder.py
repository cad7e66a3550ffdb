"""Load the tokenizer of a model folder, and save one in Hugging Face's layout."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

from albert.errors import FileFormatError
from albert.files import atomic_path, read_json, write_json, write_text
from albert.settings import build_settings
from albert.text.sentencepiece_tokenizer import SentencePieceTokenizer
from albert.text.symbol_tokenizer import SymbolTokenizer
from albert.text.tokenizer import WORD_START, Tokenizer, get_section
from albert.text.wordpiece_tokenizer import WordPieceTokenizer

TOKENIZERS = (SentencePieceTokenizer, WordPieceTokenizer, SymbolTokenizer)
VOCABULARY_NAMES = tuple(each.vocab_name for each in TOKENIZERS)
JSON_NAME = "tokenizer.json"
ADDED_NAME = "added_tokens.json"
_CONFIG_NAME = "tokenizer_config.json"
# Any one of these defines a tokenizer; `save_tokenizer` writes no other files than TOKENIZER_FILES.
VOCABULARY_FILES = (*VOCABULARY_NAMES, JSON_NAME)
TOKENIZER_FILES = (*VOCABULARY_FILES, _CONFIG_NAME)
# Generic classes of `transformers`, whose behavior is defined by tokenizer.json.
_GENERIC_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
# The supported options of Japanese models: those that split words as BERT does.
_JAPANESE = {"word_tokenizer_type": "basic", "subword_tokenizer_type": "wordpiece"}
_HINT = "added tokens are not supported: use a model without them"


def load_tokenizer(path: Path) -> Tokenizer:
    """Load the tokenizer of a folder, or a vocabulary file (`*.model` or `*.txt`)."""
    path = Path(path)
    if path.is_file():
        return _open_vocab(path, config=_read_config(path.parent))
    config = _read_config(path)
    name = next((name for name in VOCABULARY_FILES if (path / name).exists()), None)
    if name is None:
        raise FileFormatError(
            f"{path}: has no {', '.join(VOCABULARY_NAMES)} or {JSON_NAME}; give the folder of a model or a "
            "vocabulary, or a vocabulary file"
        )
    try:
        tokenizer = (_open_json if name == JSON_NAME else _open_vocab)(path / name, config=config)
        _check_added_tokens(tokenizer, path, config=config)
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # JSON of another structure
        raise FileFormatError(
            f"{path}: the tokenizer's files are malformed ({error!r}); download them again"
        ) from error
    return tokenizer


def has_tokenizer(folder: Path) -> bool:
    """Return whether a folder contains a vocabulary."""
    return any((Path(folder) / name).exists() for name in VOCABULARY_FILES)


def save_tokenizer(tokenizer: Tokenizer, folder: Path, *, model_max_length: int = 512) -> None:
    """Write the vocabulary file, and tokenizer.json and tokenizer_config.json for `transformers`."""
    folder = Path(folder)
    with atomic_path(folder / tokenizer.vocab_name) as temporary:
        temporary.write_bytes(tokenizer.vocab_bytes)
    for name in VOCABULARY_NAMES:
        if name != tokenizer.vocab_name:  # the vocabulary of another tokenizer might be loaded instead
            (folder / name).unlink(missing_ok=True)
    write_text(folder / JSON_NAME, tokenizer.to_tokenizer_json())
    config = {
        "tokenizer_class": tokenizer.transformers_class,
        **tokenizer.options.model_dump(),
        **{f"{name}_token": token for name, token in asdict(tokenizer.special_tokens).items()},
        "model_max_length": model_max_length,
        # Some classes omit token_type_ids by default.
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    write_json(folder / _CONFIG_NAME, config)


def _read_config(folder: Path) -> dict[str, Any]:
    """Read tokenizer_config.json; for generic classes, tokenizer.json provides the defaults."""
    config = _read_object(folder / _CONFIG_NAME)
    if config.get("tokenizer_class") not in _GENERIC_CLASSES or config.get("do_lower_case") is not None:
        return config
    content = _read_object(folder / JSON_NAME)
    cls = _find_class(content)
    options = cls.options_from_json(content, source=folder / JSON_NAME) if cls else {}
    return {**options, **{key: value for key, value in config.items() if value is not None}}


def _read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; return {} if the file does not exist."""
    value = read_json(path) if path.exists() else {}
    if not isinstance(value, dict):
        raise FileFormatError(f"{path}: holds a {type(value).__name__}, not an object; download it again")
    return value


def _find_class(content: Mapping[str, Any]) -> type[Tokenizer] | None:
    model = get_section(content, "model").get("type")
    return next((cls for cls in TOKENIZERS if cls.json_model == model), None)


def _open_vocab(path: Path, *, config: Mapping[str, Any]) -> Tokenizer:
    by_name = {cls.vocab_name: cls for cls in TOKENIZERS}
    by_suffix = {".model": SentencePieceTokenizer, ".txt": WordPieceTokenizer}
    cls = by_name.get(path.name) or by_suffix.get(path.suffix)
    if cls is None:
        raise FileFormatError(
            f"{path}: unknown vocabulary format; use a name in .model (SentencePiece) or .txt (WordPiece)"
        )
    return _build(cls, path.read_bytes(), config=config, source=path)


def _open_json(path: Path, *, config: Mapping[str, Any]) -> Tokenizer:
    """Open a tokenizer.json without a vocabulary file, as saved by `transformers` 5."""
    content = _read_object(path)
    cls = _find_class(content)
    if cls is None:
        raise FileFormatError(
            f"{path}: {get_section(content, 'model').get('type')} models are not supported, only "
            f"{', '.join(cls.json_model for cls in TOKENIZERS)}; add spiece.model or vocab.txt"
        )
    vocab_bytes = cls.vocab_from_json(content, source=path)
    config = {**cls.options_from_json(content, source=path), **config}
    return _build(cls, vocab_bytes, config=config, source=path)


def _build(cls: Any, vocab_bytes: bytes, *, config: Mapping[str, Any], source: Path) -> Tokenizer:
    config_path = source.parent / _CONFIG_NAME
    if cls is WordPieceTokenizer:
        others = [key for key, value in _JAPANESE.items() if config.get(key) not in (None, value)]
        if others or config.get("tokenizer_class") == "BertJapaneseTokenizer":
            key = (*others, "tokenizer_class")[0]
            raise FileFormatError(
                f"{config_path}: {key} is {config[key]!r}; only BERT's word splitting is supported: use a "
                "model with a SentencePiece or a plain WordPiece tokenizer"
            )
    values = {key: config[key] for key in cls.options_type.model_fields if config.get(key) is not None}
    options = build_settings(cls.options_type, values=values, source=str(config_path))
    tokenizer: Tokenizer = cls(vocab_bytes, options=options, source=str(source))
    return tokenizer


def _check_added_tokens(tokenizer: Tokenizer, folder: Path, *, config: Mapping[str, Any]) -> None:
    """Reject added tokens that our tokenizer would split."""
    # Special tokens do not occur in texts.
    extra = (_get_text(config.get(key)) for key in ("bos_token", "eos_token"))
    special = {*astuple(tokenizer.special_tokens), *extra}
    for text, token_id in _iter_added_tokens(folder, config):
        if token_id is not None and token_id >= tokenizer.vocab_size:
            raise FileFormatError(
                f"{folder}: adds the token {text!r} (id {token_id}) to a vocabulary of "
                f"{tokenizer.vocab_size:,} tokens; {_HINT}"
            )
        if text in special:
            continue
        ids = tokenizer.encode_ids([text])[0]
        if len(ids) > 1 and tokenizer.token(ids[0]) == WORD_START:  # `(` alone becomes `▁` `(`
            ids = ids[1:]
        tokens = [tokenizer.token(i) for i in ids]
        if tokens != [text] or token_id not in (None, *ids):
            raise FileFormatError(
                f"{folder}: adds the token {text!r}, which would be split into "
                f"{' '.join(tokens) or 'nothing'}; {_HINT}"
            )


def _iter_added_tokens(folder: Path, config: Mapping[str, Any]) -> Iterator[tuple[str, int | None]]:
    """Yield the added tokens of a folder with their ids; an id is None if the file has none."""
    yield from _read_object(folder / ADDED_NAME).items()
    for token in _read_object(folder / JSON_NAME).get("added_tokens") or []:
        yield token["content"], token["id"]
    for token_id, token in (config.get("added_tokens_decoder") or {}).items():
        yield _get_text(token), int(token_id)
    for key in ("additional_special_tokens", "extra_special_tokens"):  # of `transformers` 4 and 5
        listed = config.get(key) or []
        for token in listed.values() if isinstance(listed, dict) else listed:
            yield _get_text(token), None


def _get_text(token: Any) -> Any:
    return token["content"] if isinstance(token, dict) else token
