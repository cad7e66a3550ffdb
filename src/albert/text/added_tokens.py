"""What a folder adds to its vocabulary comes in; a refusal goes out where our tokenizer would cut it up."""

from collections.abc import Iterator, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

from albert.errors import FileFormatError
from albert.text.sentencepiece_tokenizer import BORDER
from albert.text.tokenizer import Tokenizer

# The keys of tokenizer_config.json whose tokens have no numbers: of `transformers` 4 and of 5.
_UNNUMBERED = ("additional_special_tokens", "extra_special_tokens")
# Tokens of a frame, as the special ones: no text is meant to spell them.
_FRAMES = ("bos_token", "eos_token")
_CURE = "such markers are not supported: take a model trained with plain words in their place"


def refuse_added(
    tokenizer: Tokenizer,
    *,
    folder: Path,
    config: Mapping[str, Any],
    tokenizer_json: Mapping[str, Any],
    added: Mapping[str, Any],
) -> None:
    """Refuse added tokens that would be cut into pieces, which would mean something else.

    `config`, `tokenizer_json` and `added` are what `tokenizer_config.json`, `tokenizer.json` and
    `added_tokens.json` hold.
    """
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
            _refuse_cut(tokenizer, content, number=known.get(content), folder=folder)


def _refuse_cut(tokenizer: Tokenizer, content: str, *, number: int | None, folder: Path) -> None:
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
    """The tokens of the config by their numbers, which are keys there and so in quotation marks."""
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
    """How a token is spelled that is written as a text or, with its flags, as an object."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None
