"""The first part of a text comes in, the way its lines are laid out goes out.

What tells the layouts apart: hard-wrapped lines stop in mid-sentence; where each sentence has a line of its
own, hardly a line holds the end of one and the beginning of the next; where blank lines part documents,
hardly a line stands alone between two of them.
"""

import re
import statistics
from dataclasses import dataclass
from itertools import pairwise

from albert.text.sentences import SENTENCE_MARKS

LAYOUTS = {
    "sentences": "one sentence per line, blank lines between documents",
    "paragraphs": "one paragraph per line, blank lines between documents",
    "spaced": "one paragraph per line, blank lines between paragraphs and around headings",
    "wrapped": "hard-wrapped, blank lines between paragraphs",
    "dense": "hard-wrapped, no blank lines between paragraphs",
}
# Longer lines were not wrapped for a screen or a page.
MAX_WRAPPED_WIDTH = 130
_MARKS = frozenset(f"{SENTENCE_MARKS}:;：；")
_CLOSING = "\"'”’»«)]*_"
_LAST = frozenset('"”»—-')
_STARTS_INSIDE = re.compile(
    rf"[{SENTENCE_MARKS}][\"'”’»)\]]*[ ]+[\"'“‘«(\[]*(?=[^\W\d_a-zà-öø-ÿ])|[。！？][”’」』]*(?=.)"
)


@dataclass(frozen=True)
class Layout:
    """How lines make paragraphs; of wrapped ones, how far they are filled and whether they are indented.

    A line that would be shorter than `width` even with the next word ends a paragraph.
    """

    name: str
    width: int = MAX_WRAPPED_WIDTH
    is_indented: bool = False


def ends_sentence(line: str) -> bool:
    """Whether a line stops where a sentence may."""
    return line[-1:] in _LAST or line.rstrip(_CLOSING)[-1:] in _MARKS


def choose_layout(name: str | None, sample: str) -> Layout:
    """The layout of a name, measured by a sample; without a name, the one that the sample has."""
    if name is None:
        return detect_layout(sample)
    lines = [line.rstrip() for line in sample.split("\n")]
    pairs = [(a, b) for a, b in pairwise(lines) if a.strip() and b.strip()]
    if name not in ("wrapped", "dense") or all(ends_sentence(a) for a, _ in pairs):
        return Layout(name)
    measured = _measure_wrapping(pairs)
    return measured if name == "dense" else Layout("wrapped", measured.width)


def detect_layout(sample: str) -> Layout:
    """Judge by a sample that begins at the text's first line."""
    lines = [line.rstrip() for line in sample.split("\n")]
    filled = [line for line in lines if line.strip()]
    if not filled:
        return Layout("paragraphs")
    pairs = [(a, b) for a, b in pairwise(lines) if a.strip() and b.strip()]
    num_blocks = max(len(filled) - len(pairs), 1)
    if _are_wrapped(pairs, num_blocks):
        layout = _measure_wrapping(pairs)
        inner = sum(begins_paragraph(a, b, layout) for a, b in pairs)
        return layout if inner > num_blocks else Layout("wrapped", layout.width)
    inside = sum(len(_STARTS_INSIDE.findall(line)) for line in filled)
    if num_blocks < len(pairs) and inside < 0.15 * (inside + len(filled)):
        return Layout("sentences")
    return Layout("spaced" if _count_singles(lines) > 0.2 * num_blocks and num_blocks > 1 else "paragraphs")


def _count_singles(lines: list[str]) -> int:
    """How many lines stand alone between blank ones."""
    is_filled = [False, *(bool(line.strip()) for line in lines), False]
    triples = zip(is_filled, is_filled[1:], is_filled[2:], strict=False)
    return sum(here and not before and not after for before, here, after in triples)


def _are_wrapped(pairs: list[tuple[str, str]], num_blocks: int) -> bool:
    """Whether lines go on in the next: enough of them, stopping in mid-sentence, none of them long."""
    if len(pairs) < 3 or len(pairs) < 0.2 * num_blocks:
        return False
    if statistics.median(len(a) for a, _ in pairs) > MAX_WRAPPED_WIDTH:
        return False
    unfinished = sum(not ends_sentence(a) for a, _ in pairs)
    return unfinished > 0.4 * len(pairs)


def _measure_wrapping(pairs: list[tuple[str, str]]) -> Layout:
    """How far wrapped lines are filled, and whether paragraphs are indented, if nothing else parts them."""
    # Lines that stop in mid-sentence had no room for the next word, but for a few odd ones.
    unfinished = [(a, b) for a, b in pairs if not ends_sentence(a)]
    certain = [(a, b) for a, b in unfinished if b.lstrip()[0].islower()] or unfinished
    filled = sorted(_fill(a, b) for a, b in certain)
    width = min(filled[len(filled) // 50], MAX_WRAPPED_WIDTH)
    indented = sum(b[0] in " \t" and a[0] not in " \t" for a, b in pairs)
    return Layout("dense", width, is_indented=0.02 * len(pairs) < indented < 0.5 * len(pairs))


def begins_paragraph(before: str, line: str, layout: Layout) -> bool:
    """Whether a line of a dense text begins a paragraph: it is indented, or the one before it had room left.

    Had the paragraph gone on, its next word would have stood on the line before.
    """
    if layout.is_indented:
        return line[0] in " \t"
    if len(before) >= layout.width - 2 or not ends_sentence(before):
        return False
    return _fill(before, line) < layout.width and not line.lstrip()[0].islower()


def _fill(line: str, following: str) -> int:
    """How long a line would be with the first word of the next."""
    return len(line) + 1 + len(following.split(maxsplit=1)[0])
