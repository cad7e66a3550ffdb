"""Normalize text like the published ALBERT, and map each character back to its range in the raw text."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from albert.settings import Settings
from albert.text.tokenizer import Span

_WORD = re.compile(r"\S+")
_QUOTES = re.compile(r"``|''")


class Normalization(Settings):
    """The rules of normalization; the defaults are those of the published English models."""

    do_lower_case: bool = True
    keep_accents: bool = False
    remove_space: bool = True


PUBLISHED = Normalization()


@dataclass(frozen=True, slots=True)
class NormalizedText:
    """A normalized text; character i comes from `[starts[i], ends[i])` of the raw text.

    The ranges increase and skip only white space; a removed character belongs to the one before it.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    @property
    def is_aligned(self) -> bool:
        return isinstance(self.starts, range)

    def span(self, start: int, end: int) -> Span:
        """Return the raw range of the normalized range `[start, end)`; an empty one stays empty."""
        if start < end:
            return self.starts[start], self.ends[end - 1]
        if start < len(self.starts):
            return self.starts[start], self.starts[start]
        last = self.ends[-1] if self.ends else 0
        return last, last

    def rewrite(self, text: str, *, starts: Sequence[int], ends: Sequence[int]) -> "NormalizedText":
        """Replace the text; character i of the new one comes from `[starts[i], ends[i])` of this one."""
        if self.is_aligned:
            return NormalizedText(text, starts, ends)
        return NormalizedText(text, [self.starts[i] for i in starts], [self.ends[i - 1] for i in ends])


def normalize_text(text: str, *, rules: Normalization = PUBLISHED) -> str:
    """Normalize a text without offsets, which is faster."""
    if rules.remove_space:
        text = " ".join(text.split())
    text = text.replace("``", '"').replace("''", '"')
    if not rules.keep_accents and not text.isascii():
        text = text.translate(BASES)
    return text.lower() if rules.do_lower_case else text


def normalize(text: str, *, rules: Normalization = PUBLISHED) -> NormalizedText:
    """Normalize a text and keep the raw range of each character."""
    state = NormalizedText(text, range(len(text)), range(1, len(text) + 1))
    if text.isascii() and len(plain := normalize_text(text, rules=rules)) == len(text):
        return NormalizedText(plain, state.starts, state.ends)  # only a shorter text has other offsets
    if rules.remove_space:
        state = _collapse_space(state)
    state = _replace_quotes(state)
    if not rules.keep_accents and not state.text.isascii():
        state = _drop_accents(state)
    return _lower(state) if rules.do_lower_case else state


class _Bases(dict[int, str]):
    """Cache the NFKD of each character without combining marks, by code point."""

    def __missing__(self, code: int) -> str:
        decomposed = unicodedata.normalize("NFKD", chr(code))
        self[code] = "".join(char for char in decomposed if not unicodedata.combining(char))
        return self[code]


BASES = _Bases()


def _collapse_space(state: NormalizedText) -> NormalizedText:
    text = " ".join(state.text.split())
    if len(text) == len(state.text):
        return NormalizedText(text, state.starts, state.ends)
    starts: list[int] = []
    ends: list[int] = []
    for word in _WORD.finditer(state.text):
        start, end = word.span()
        if ends:
            starts.append(ends[-1])
            ends.append(start)
        starts.extend(range(start, end))
        ends.extend(range(start + 1, end + 1))
    return state.rewrite(text, starts=starts, ends=ends)


def _replace_quotes(state: NormalizedText) -> NormalizedText:
    pairs = [match.start() for match in _QUOTES.finditer(state.text)]
    if not pairs:
        return state
    second = {start + 1 for start in pairs}
    starts = [i for i in range(len(state.text)) if i not in second]
    ends = [i + 2 if i + 1 in second else i + 1 for i in starts]
    return state.rewrite(_QUOTES.sub('"', state.text), starts=starts, ends=ends)


def _drop_accents(state: NormalizedText) -> NormalizedText:
    text = state.text.translate(BASES)
    if all(len(BASES[ord(char)]) == 1 for char in set(state.text)):
        return NormalizedText(text, state.starts, state.ends)
    starts: list[int] = []
    ends: list[int] = []
    for i, char in enumerate(state.text):
        base = BASES[ord(char)]
        if base:
            starts.extend([i if starts else 0] * len(base))
            ends.extend([i + 1] * len(base))
        elif ends:
            ends[-1] = i + 1
    return state.rewrite(text, starts=starts, ends=ends)


def _lower(state: NormalizedText) -> NormalizedText:
    text = state.text.lower()  # not by character: Σ is σ or ς
    if len(text) == len(state.text):
        return NormalizedText(text, state.starts, state.ends)
    origins = [i for i, char in enumerate(state.text) for _ in char.lower()]
    return state.rewrite(text, starts=origins, ends=[i + 1 for i in origins])
