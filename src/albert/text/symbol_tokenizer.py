"""A tokenizer for texts of symbols, such as phonemes, and its vocabulary."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple
from functools import partial
from typing import Any

from tokenizers import Regex, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel

from albert.errors import FileFormatError, InputError
from albert.settings import Settings
from albert.text.encoding import Encoding
from albert.text.tokenizer import SpecialTokens, Tokenizer, well_formed
from albert.text.tokenizer_json import add_frame
from albert.text.wordpiece_tokenizer import read_pieces

MAX_DISTINCT = 1_000_000
# Before the first symbol of a word, or as a symbol by itself: what a space is between written words.
WORD_MARK = "▁"
# Unicode's white space, as `tokenizers` has it; Python's own adds the separators U+001C to U+001F.
_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SPACED = re.compile(f"[^{_SPACE}]+")
_CHARACTER = re.compile(f"[^{_SPACE}]")


class SymbolOptions(Settings):
    """Whether white space stands between the symbols, or each character is one."""

    is_per_character: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        """What one symbol looks like."""
        return _CHARACTER if self.is_per_character else _SPACED


DEFAULTS = SymbolOptions()


class SymbolTokenizer(Tokenizer):
    """One id for each symbol, spelled exactly as in the vocabulary: phonemes, notes, amino acids.

    Symbols that begin with `▁`, or the symbol `▁` itself, begin words, which masking then keeps together.
    """

    vocab_name = "symbols.txt"
    special_tokens = SpecialTokens(pad="<pad>", unk="<unk>")

    def __init__(
        self, vocab_bytes: bytes, *, options: SymbolOptions = DEFAULTS, source: str = "symbols.txt"
    ) -> None:
        self._symbols = read_pieces(vocab_bytes, source=source)
        id_of = {symbol: i for i, symbol in enumerate(self._symbols)}
        super().__init__(vocab_bytes, options=options, id_of=id_of, source=source)
        self.options = options
        self.is_per_character = options.is_per_character
        special = set(astuple(self.special_tokens))
        # A special token spelled out in a text is an unknown symbol: it has no place in this table.
        self._id_of = {symbol: i for symbol, i in id_of.items() if symbol not in special}
        for symbol, i in self._id_of.items():
            if not options.pattern.fullmatch(symbol):
                kind = "one character" if options.is_per_character else "a text without white space"
                raise FileFormatError(f"{source}: line {i + 1} is {symbol!r}; a symbol here is {kind}")
        self._has_words = any(symbol.startswith(WORD_MARK) for symbol in self._id_of)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(SymbolTokenizer, options=self.options), (self.vocab_bytes,)

    @property
    def vocab_size(self) -> int:
        """The number of symbols, special tokens included."""
        return len(self._symbols)

    def encode_batch(self, texts: Iterable[str]) -> list[Encoding]:
        """Cut each text into symbols with their spans; no special tokens are added."""
        return [self._build_encoding(text) for text in texts]

    def encode_ids(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids alone, as `encode_batch` gives them and faster."""
        find, get, unk = self.options.pattern.findall, self._id_of.get, self.unk_id
        return [[get(symbol, unk) for symbol in find(text)] for text in texts]

    def piece(self, piece_id: int) -> str:
        """The symbol of an id."""
        return self._symbols[piece_id]

    def begins_word(self, piece_id: int) -> bool:
        """Whether a symbol begins a word; where none is marked as such, each is a word of its own."""
        return not self._has_words or self._symbols[piece_id].startswith(WORD_MARK)

    def decode(self, ids: Iterable[int]) -> str:
        """The text that the ids spell; padding, [CLS] and [SEP] are left out, [MASK] is not."""
        silent = {self.pad_id, self.cls_id, self.sep_id}
        separator = "" if self.options.is_per_character else " "
        return separator.join(self._symbols[i] for i in ids if i not in silent)

    def to_tokenizer_json(self) -> str:
        """The content of a `tokenizer.json` with which `transformers` gives the same ids."""
        id_of = {symbol: i for i, symbol in enumerate(self._symbols)}
        backend = Backend(WordLevel(id_of, unk_token=self.special_tokens.unk))
        spaced = pre_tokenizers.WhitespaceSplit()
        if self.options.is_per_character:
            single = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
            backend.pre_tokenizer = pre_tokenizers.Sequence([spaced, single])
        else:
            backend.pre_tokenizer = spaced
        backend.add_special_tokens(list(astuple(self.special_tokens)))
        add_frame(backend, special=self.special_tokens)
        return str(backend.to_str(pretty=False))

    def to_tokenizer_config(self) -> dict[str, Any]:
        """The class and the options that a `tokenizer_config.json` names."""
        return {"tokenizer_class": "PreTrainedTokenizerFast", **self.options.model_dump()}

    def _build_encoding(self, text: str) -> Encoding:
        found = list(self.options.pattern.finditer(text))
        ids = tuple(self._id_of.get(match[0], self.unk_id) for match in found)
        return Encoding(ids, tuple(match.span() for match in found))


def build_symbol_vocabulary(
    texts: Iterable[str],
    *,
    options: SymbolOptions = DEFAULTS,
    min_count: int = 1,
    max_size: int | None = None,
) -> SymbolTokenizer:
    """Give each symbol that occurs at least `min_count` times an id, the most frequent first.

    The special tokens have the ids 0 to 4 and count in `max_size`. Texts without symbols, and ordinary text
    with its many different words, raise an InputError.
    """
    special = astuple(SymbolTokenizer.special_tokens)
    if max_size is not None and max_size <= len(special):
        raise InputError(
            f"a size of {max_size} has no room beside {len(special)} special tokens; ask for more"
        )
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(options.pattern.findall(well_formed([text])[0]))
        if len(counts) > MAX_DISTINCT:
            raise InputError(
                f"more than {MAX_DISTINCT:,} different symbols: this is text in words; train a SentencePiece "
                "vocabulary on it (--kind sentencepiece)"
            )
    for token in special:
        counts.pop(token, None)
    symbols = sorted(
        (symbol for symbol, count in counts.items() if count >= min_count),
        key=lambda symbol: (-counts[symbol], symbol),
    )
    if not symbols:
        raise InputError(
            f"none of the {len(counts):,} symbols of the corpus occurs {min_count:,} times; give more text"
        )
    lines = [*special, *symbols][:max_size]
    return SymbolTokenizer("".join(f"{line}\n" for line in lines).encode(), options=options)
