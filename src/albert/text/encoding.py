"""Pieces of a text come in as ids and character spans, and go out as the frozen rows that the model reads."""

from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Encoding:
    """The pieces of one text: their ids, and the range `[start, end)` of raw characters that each stands for.

    A piece that stands for no character, such as a lone word border, has an empty span at its place.
    """

    ids: tuple[int, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class InputSequence:
    """One input of the model: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`.

    `segments` is 0 up to the first [SEP] and 1 after it; a span counts in the text of its segment.
    """

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    spans: tuple[Span, ...]
