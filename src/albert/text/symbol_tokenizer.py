"""A tokenizer for sequences of symbols, such as phonemes, and its vocabulary."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

from tokenizers import Regex, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel

from albert.errors import FileFormatError, InputError
from albert.settings import Settings
from albert.text.tokenizer import WORD_START, Encoding, SpecialTokens, Tokenizer, replace_surrogates
from albert.text.wordpiece_tokenizer import join_vocab, read_tokens

MAX_DISTINCT = 1_000_000
# Unicode's white space, as in `tokenizers`; Python's definition adds the separators U+001C to U+001F.
_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SPACED = re.compile(f"[^{_SPACE}]+")
_CHARACTER = re.compile(f"[^{_SPACE}]")


class SymbolOptions(Settings):
    """Whether symbols are separated by white space, or each character is one."""

    is_per_character: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        return _CHARACTER if self.is_per_character else _SPACED


DEFAULTS = SymbolOptions()


class SymbolTokenizer(Tokenizer):
    """Give each symbol, such as a phoneme or a note, an id; `▁` marks the first symbol of a word."""

    vocab_name = "symbols.txt"
    json_model = "WordLevel"
    options_type = SymbolOptions
    special_tokens = SpecialTokens(pad="<pad>", unk="<unk>")

    def __init__(
        self, vocab_bytes: bytes, *, options: SymbolOptions = DEFAULTS, source: str = "symbols.txt"
    ) -> None:
        symbols = read_tokens(vocab_bytes, source=source)
        super().__init__(vocab_bytes, tokens=symbols, options=options, source=source)
        self.is_per_character = options.is_per_character
        special = set(astuple(self.special_tokens))
        # Special tokens are not in this table: one that is spelled out in a text is an unknown symbol.
        self._id_of = {symbol: i for i, symbol in enumerate(symbols) if symbol not in special}
        for symbol, i in self._id_of.items():
            if not options.pattern.fullmatch(symbol):
                rule = "one character" if options.is_per_character else "a text without white space"
                raise FileFormatError(f"{source}: line {i + 1} is {symbol!r}; a symbol must be {rule}")
        self._has_words = any(symbol.startswith(WORD_START) for symbol in self._id_of)

    def encode_batch(self, texts: Iterable[str]) -> list[Encoding]:
        encodings = []
        for text in texts:
            found = list(self.options.pattern.finditer(text))
            ids = tuple(self._id_of.get(match[0], self.unk_id) for match in found)
            encodings.append(Encoding(ids, tuple(match.span() for match in found)))
        return encodings

    def encode_ids(self, texts: Iterable[str]) -> list[list[int]]:
        find, get, unk = self.options.pattern.findall, self._id_of.get, self.unk_id
        return [[get(symbol, unk) for symbol in find(text)] for text in texts]

    def begins_word(self, token_id: int) -> bool:
        return not self._has_words or self._tokens[token_id].startswith(WORD_START)

    def decode(self, ids: Iterable[int]) -> str:
        special = {self.pad_id, self.cls_id, self.sep_id}
        separator = "" if self.options.is_per_character else " "
        return separator.join(self._tokens[i] for i in ids if i not in special)

    def to_tokenizer_json(self) -> str:
        id_of = {symbol: i for i, symbol in enumerate(self._tokens)}
        backend = Backend(WordLevel(id_of, unk_token=self.special_tokens.unk))
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        if self.options.is_per_character:
            single = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
            backend.pre_tokenizer = pre_tokenizers.Sequence([backend.pre_tokenizer, single])
        return self._finish_json(backend)

    @classmethod
    def vocab_from_json(cls, content: Mapping[str, Any], *, source: Path) -> bytes:
        return join_vocab(content, source=source)

    @classmethod
    def options_from_json(cls, content: Mapping[str, Any], *, source: Path) -> dict[str, Any]:
        return {"is_per_character": (content.get("pre_tokenizer") or {}).get("type") == "Sequence"}


def build_symbol_vocabulary(
    texts: Iterable[str],
    *,
    options: SymbolOptions = DEFAULTS,
    min_count: int = 1,
    max_size: int | None = None,
) -> SymbolTokenizer:
    """Build a vocabulary of the special tokens and the symbols with `min_count` occurrences, by frequency."""
    special = astuple(SymbolTokenizer.special_tokens)
    if max_size is not None and max_size <= len(special):
        raise InputError(
            f"--size {max_size} is too small for {len(special)} special tokens and a symbol; use at least "
            f"{len(special) + 1}"
        )
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(options.pattern.findall(replace_surrogates([text])[0]))
        if len(counts) > MAX_DISTINCT:
            raise InputError(
                f"more than {MAX_DISTINCT:,} different symbols, so they are probably words; use --kind "
                "sentencepiece"
            )
    for token in special:
        counts.pop(token, None)
    symbols = sorted(
        (symbol for symbol, count in counts.items() if count >= min_count),
        key=lambda symbol: (-counts[symbol], symbol),
    )
    if not symbols:
        raise InputError(
            f"none of the {len(counts):,} symbols occurs --min-count {min_count:,} times; lower it, or give "
            "more text"
        )
    lines = [*special, *symbols][:max_size]
    return SymbolTokenizer("".join(f"{line}\n" for line in lines).encode(), options=options)
