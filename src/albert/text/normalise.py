"""Raw text comes in, ALBERT's normalised text goes out, with the raw range each of its characters is from."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from albert.settings import Settings
from albert.text.encoding import Span

_WORD = re.compile(r"\S+")
_QUOTES = re.compile(r"``|''")


class Normalisation(Settings):
    """What is done to a text before it is cut; the defaults are those of the published English models."""

    do_lower_case: bool = True
    keep_accents: bool = False
    remove_space: bool = True


PUBLISHED = Normalisation()


@dataclass(frozen=True, slots=True)
class Normalised:
    """A rewritten text; character i of it is from `[starts[i], ends[i])` of the raw text.

    The ranges go up with i and leave out nothing but white space; characters that were dropped belong to
    the one before them.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    @property
    def is_aligned(self) -> bool:
        """Whether each character stands where it stood in the raw text."""
        return isinstance(self.starts, range)

    def span(self, start: int, end: int) -> Span:
        """The raw range behind `[start, end)` of this text; an empty range stays empty, at its place."""
        if start < end:
            return self.starts[start], self.ends[end - 1]
        if start < len(self.starts):
            return self.starts[start], self.starts[start]
        last = self.ends[-1] if self.ends else 0
        return last, last

    def rewrite(self, text: str, *, starts: Sequence[int], ends: Sequence[int]) -> "Normalised":
        """The same for `text`, whose character i is from `[starts[i], ends[i])` of this one."""
        if self.is_aligned:
            return Normalised(text, starts, ends)
        return Normalised(text, [self.starts[i] for i in starts], [self.ends[i - 1] for i in ends])


def normalise_text(text: str, *, rules: Normalisation = PUBLISHED) -> str:
    """The normalised text alone, for those who need no way back to the raw one."""
    if rules.remove_space:
        text = " ".join(text.split())
    text = text.replace("``", '"').replace("''", '"')
    if not rules.keep_accents and not text.isascii():
        text = text.translate(_BASES)
    return text.lower() if rules.do_lower_case else text


def normalise(text: str, *, rules: Normalisation = PUBLISHED) -> Normalised:
    """The normalised text with its way back to the raw one."""
    state = _aligned(text)
    if text.isascii() and len(plain := normalise_text(text, rules=rules)) == len(text):
        return Normalised(plain, state.starts, state.ends)  # ASCII only ever gets shorter, so nothing moved
    if rules.remove_space:
        state = _collapse_space(state)
    state = _replace_quotes(state)
    if not rules.keep_accents and not state.text.isascii():
        state = _drop_accents(state)
    return _lower(state) if rules.do_lower_case else state


class _Bases(dict[int, str]):
    """Each character's compatibility decomposition without its combining marks, worked out when first met.

    NFKD of a whole text also sorts runs of combining marks; as all of them are dropped, character by
    character gives the same.
    """

    def __missing__(self, code: int) -> str:
        decomposed = unicodedata.normalize("NFKD", chr(code))
        self[code] = "".join(char for char in decomposed if not unicodedata.combining(char))
        return self[code]


_BASES = _Bases()


def _aligned(text: str) -> Normalised:
    return Normalised(text, range(len(text)), range(1, len(text) + 1))


def _collapse_space(state: Normalised) -> Normalised:
    text = " ".join(state.text.split())
    if len(text) == len(state.text):  # at most a tab became a space
        return Normalised(text, state.starts, state.ends)
    starts: list[int] = []
    ends: list[int] = []
    for word in _WORD.finditer(state.text):
        start, end = word.span()
        if ends:  # the one space between this word and the last
            starts.append(ends[-1])
            ends.append(start)
        starts.extend(range(start, end))
        ends.extend(range(start + 1, end + 1))
    return state.rewrite(text, starts=starts, ends=ends)


def _replace_quotes(state: Normalised) -> Normalised:
    pairs = [match.start() for match in _QUOTES.finditer(state.text)]
    if not pairs:
        return state
    second = {start + 1 for start in pairs}
    starts = [i for i in range(len(state.text)) if i not in second]
    ends = [i + 2 if i + 1 in second else i + 1 for i in starts]
    return state.rewrite(_QUOTES.sub('"', state.text), starts=starts, ends=ends)


def _drop_accents(state: Normalised) -> Normalised:
    text = state.text.translate(_BASES)
    if all(len(_BASES[ord(char)]) == 1 for char in set(state.text)):  # one for one: é became e
        return Normalised(text, state.starts, state.ends)
    starts: list[int] = []
    ends: list[int] = []
    for i, char in enumerate(state.text):
        base = _BASES[ord(char)]
        if base:
            starts.extend([i if starts else 0] * len(base))
            ends.extend([i + 1] * len(base))
        elif ends:
            ends[-1] = i + 1
    return state.rewrite(text, starts=starts, ends=ends)


def _lower(state: Normalised) -> Normalised:
    text = state.text.lower()  # of the whole: a capital sigma's lower case depends on its neighbours
    if len(text) == len(state.text):
        return Normalised(text, state.starts, state.ends)
    origins = [i for i, char in enumerate(state.text) for _ in char.lower()]
    return state.rewrite(text, starts=origins, ends=[i + 1 for i in origins])
