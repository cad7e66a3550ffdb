"""Tokens of a text with their character spans."""

from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Encoding:
    """The tokens of a text: their ids and spans `[start, end)` of raw characters.

    A token without characters, such as a lone word border, has an empty span.
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
