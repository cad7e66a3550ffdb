"""Detect the line layout of a text, and join lines into documents of paragraphs.

Hard-wrapped lines end in the middle of sentences. If each sentence has its own line, few lines contain the
end of one and the beginning of the next. If blank lines separate documents, few are around single lines.
"""

import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from albert.data.cleaning import count
from albert.data.rows import iter_groups
from albert.text.sentences import SENTENCE_MARKS

LAYOUTS = {
    "sentences": "one sentence per line, blank lines between documents",
    "paragraphs": "one paragraph per line, blank lines between documents",
    "spaced": "one paragraph per line, blank lines between paragraphs and around headings",
    "wrapped": "hard-wrapped, blank lines between paragraphs",
    "dense": "hard-wrapped, no blank lines between paragraphs",
}
# Lines wrapped for a screen or a page are not longer.
MAX_WRAPPED_WIDTH = 130
_MARKS = frozenset(f"{SENTENCE_MARKS}:;：；")
_CLOSING = "\"'”’»«)]*_"
_LAST = frozenset('"”»—-')
_STARTS_INSIDE = re.compile(
    rf"[{SENTENCE_MARKS}][\"'”’»)\]]*[ ]+[\"'“‘«(\[]*(?=[^\W\d_a-zà-öø-ÿ])|[。！？][”’」』]*(?=.)"
)
# Bounds the memory: a longer document is split between two paragraphs.
MAX_DOCUMENT_CHARACTERS = 1 << 22
# The maximum number of parts into which page breaks may split a paragraph.
MAX_JOINED = 8
_BLANK = re.compile(r"\n[ \t\u00a0]*\n\s*")
_WORDS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_HYPHEN_END = re.compile(r"([^\W\d_]+)-$")
_WORD_START = re.compile(r"[^\W\d_]+")
# Letters, digits, Braille and emoji, which may be a whole paragraph.
_HAS_CONTENT = re.compile(r"[\w\u2801-\u28ff\U0001f300-\U0001faff]")
# Letters of scripts without spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, Chinese, Japanese, Yi.
_UNSPACED = (
    "\u0e00-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua000-\ua4cf\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_WIDE_MARKS = "\u3001-\u3004\u3008-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
# A line end between two of these letters, or beside a full-width mark, stands for no space.
_UNSPACED_END = re.compile(
    rf"\n(?:(?=[{_UNSPACED}])(?<=[{_UNSPACED}]\n)|(?=[{_WIDE_MARKS}])|(?<=[{_WIDE_MARKS}]\n))"
)


@dataclass(frozen=True)
class Layout:
    """How lines form paragraphs; a line that has space for the next word within `width` ends one."""

    name: str
    width: int = MAX_WRAPPED_WIDTH
    is_indented: bool = False


NO_LAYOUT = Layout("")


def _ends_sentence(line: str) -> bool:
    return line[-1:] in _LAST or line.rstrip(_CLOSING)[-1:] in _MARKS


def choose_layout(name: str | None, sample: str) -> Layout:
    """Return the named layout with its measures on a sample, or detect the layout if the name is None."""
    lines = [line.rstrip() for line in sample.split("\n")]
    pairs = [(a, b) for a, b in pairwise(lines) if a.strip() and b.strip()]
    if name is None:
        return _detect_layout(lines, pairs)
    if name not in ("wrapped", "dense") or all(_ends_sentence(a) for a, _ in pairs):
        return Layout(name)
    measured = _measure_wrapping(pairs)
    return measured if name == "dense" else Layout("wrapped", measured.width)


def _detect_layout(lines: list[str], pairs: list[tuple[str, str]]) -> Layout:
    filled = [line for line in lines if line.strip()]
    if not filled:
        return Layout("paragraphs")
    num_blocks = max(len(filled) - len(pairs), 1)
    if _are_wrapped(pairs, num_blocks):
        layout = _measure_wrapping(pairs)
        inner = sum(_begins_paragraph(a, b, layout) for a, b in pairs)
        return layout if inner > num_blocks else Layout("wrapped", layout.width)
    inside = sum(len(_STARTS_INSIDE.findall(line)) for line in filled)
    if num_blocks < len(pairs) and inside < 0.15 * (inside + len(filled)):
        return Layout("sentences")
    is_filled = [False, *(bool(line.strip()) for line in lines), False]
    num_single = list(zip(is_filled, is_filled[1:], is_filled[2:], strict=False)).count((False, True, False))
    return Layout("spaced" if num_single > 0.2 * num_blocks and num_blocks > 1 else "paragraphs")


def _are_wrapped(pairs: list[tuple[str, str]], num_blocks: int) -> bool:
    """Return whether enough lines end in the middle of a sentence, and lines are not long."""
    if len(pairs) < 3 or len(pairs) < 0.2 * num_blocks:
        return False
    if statistics.median(len(a) for a, _ in pairs) > MAX_WRAPPED_WIDTH:
        return False
    return sum(not _ends_sentence(a) for a, _ in pairs) > 0.4 * len(pairs)


def _measure_wrapping(pairs: list[tuple[str, str]]) -> Layout:
    # Lines that end in the middle of a sentence had no space for the next word, with few exceptions.
    unfinished = [(a, b) for a, b in pairs if not _ends_sentence(a)]
    certain = [(a, b) for a, b in unfinished if b.lstrip()[0].islower()] or unfinished
    filled = sorted(_fill(a, b) for a, b in certain)
    width = min(filled[len(filled) // 50], MAX_WRAPPED_WIDTH)
    indented = sum(b[0] in " \t" and a[0] not in " \t" for a, b in pairs)
    return Layout("dense", width, is_indented=0.02 * len(pairs) < indented < 0.5 * len(pairs))


def _begins_paragraph(before: str, line: str, layout: Layout) -> bool:
    """Return whether a line of a dense text begins a paragraph: indented, or short enough to fit before."""
    if layout.is_indented:
        return line[0] in " \t"
    if len(before) >= layout.width - 2 or not _ends_sentence(before):
        return False
    return _fill(before, line) < layout.width and not line.lstrip()[0].islower()


def _fill(line: str, following: str) -> int:
    """Return the length of a line with the first word of the next."""
    return len(line) + 1 + len(following.split(maxsplit=1)[0])


@dataclass(frozen=True, slots=True)
class RawDocument:
    """The paragraphs of a document, or its sentences if the source has one per line (`is_split`)."""

    paragraphs: Sequence[str]
    is_split: bool = False


class Joiner:
    """Join wrapped lines; the words of a sample, read on demand, decide about hyphens at line ends."""

    def __init__(self, read_sample: Callable[[], str]) -> None:
        self._read_sample = read_sample

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(_WORDS.findall(self._read_sample().lower()))

    def join(self, lines: Sequence[str]) -> str:
        """Join lines to one; hyphenated words are joined, and compounds keep their hyphen."""
        framed = "\n".join(lines)
        if not framed.isascii():
            framed = _UNSPACED_END.sub("", framed)
        if "-\n" not in framed:
            return framed.replace("\n", " ")
        first, *others = framed.split("\n")
        parts = [first]
        for line in others:
            head, tail = _HYPHEN_END.search(parts[-1][-60:]), _WORD_START.match(line)
            if head is None or tail is None or not tail[0][0].islower():
                parts += (" ", line)
                continue
            one, two = head[1].lower(), tail[0].lower()
            is_compound = f"{one}-{two}" in self.words or (one in self.words and two in self.words)
            if f"{one}{two}" in self.words or not is_compound:
                parts[-1] = parts[-1][:-1]
            parts.append(line)
        return "".join(parts)


def iter_raw_documents(chunks: Iterable[str], layout: Layout, joiner: Joiner) -> Iterator[RawDocument]:
    """Yield the documents of a text that is given in chunks of whole lines."""
    if layout.name in _PARAGRAPH_READERS:
        # One document, which is split where it would be too long.
        joined = join_page_breaks(_PARAGRAPH_READERS[layout.name](chunks, layout, joiner))
        yield from map(RawDocument, iter_groups(joined, (len, MAX_DOCUMENT_CHARACTERS)))
        return
    is_split = layout.name == "sentences"
    for lines in filter(None, map(split_lines, iter_blocks(chunks))):  # blank lines separate documents
        yield RawDocument(lines if is_split else list(join_page_breaks(lines)), is_split)


def iter_blocks(chunks: Iterable[str]) -> Iterator[str]:
    """Yield the texts between blank lines; one that is too long for a document is split after a line."""
    rest = ""
    for chunk in chunks:
        *blocks, rest = _BLANK.split(rest + chunk)
        yield from blocks
        if len(rest) > MAX_DOCUMENT_CHARACTERS:
            cut = rest.rfind("\n") + 1 or len(rest)
            yield rest[:cut]
            rest = rest[cut:]
    yield rest


def split_lines(block: str) -> list[str]:
    """Split a block into stripped lines without blank ones."""
    return list(filter(None, map(str.strip, block.split("\n"))))


def _iter_wrapped(chunks: Iterable[str], layout: Layout, joiner: Joiner) -> Iterator[str]:
    longest = max(MAX_WRAPPED_WIDTH, layout.width + layout.width // 3)
    for lines in filter(None, map(split_lines, iter_blocks(chunks))):
        yield from _join_runs(lines, lambda before, line: max(len(before), len(line)) <= longest, joiner)


def _iter_spaced(chunks: Iterable[str], layout: Layout, joiner: Joiner) -> Iterator[str]:
    """Yield each line as a paragraph, but join wrapped lines."""

    def continues(before: str, line: str) -> bool:
        return len(before) <= layout.width and not _ends_sentence(before)

    for lines in map(split_lines, iter_blocks(chunks)):
        if len(lines) < 2:
            yield from lines
        elif max(map(len, lines)) <= layout.width and not all(map(_ends_sentence, lines)):
            yield joiner.join(lines)
        else:
            yield from _join_runs(lines, continues, joiner)


def _join_runs(lines: list[str], continues: Callable[[str, str], bool], joiner: Joiner) -> Iterator[str]:
    """Join each line to the previous one if `continues` returns True."""
    run = [lines[0]]
    for before, line in pairwise(lines):
        if not continues(before, line):
            yield joiner.join(run)
            run = []
        run.append(line)
    yield joiner.join(run)


def _iter_dense(chunks: Iterable[str], layout: Layout, joiner: Joiner) -> Iterator[str]:
    gathered: list[str] = []
    num_characters = 0
    before = ""
    for chunk in chunks:
        for line in chunk.split("\n")[:-1]:
            is_blank = not line or line.isspace()
            is_long = num_characters > MAX_DOCUMENT_CHARACTERS
            if gathered and (is_blank or is_long or _begins_paragraph(before, line, layout)):
                yield joiner.join(gathered)
                gathered, num_characters = [], 0
            if not is_blank:
                before = line.rstrip()
                gathered.append(before.lstrip())
                num_characters += len(before)
    if gathered:
        yield joiner.join(gathered)


_PARAGRAPH_READERS = {"wrapped": _iter_wrapped, "spaced": _iter_spaced, "dense": _iter_dense}


def join_page_breaks(paragraphs: Iterable[str]) -> Iterator[str]:
    """Join paragraphs that a page break split: the first is unfinished and the next begins in lower case.

    If the first one also begins in lower case, the text has no capitals and nothing is joined.
    """
    run: list[str] = []
    for paragraph in paragraphs:
        is_cut = (
            run
            and paragraph[0].islower()
            and not run[0][0].islower()
            and (run[-1][-1].isalnum() or run[-1][-1] in ",;-")
            and len(run) < MAX_JOINED
        )
        if run and not is_cut:
            yield " ".join(run)
            run = []
        run.append(paragraph)
    if run:
        yield " ".join(run)


def cut_passages(documents: Iterable[RawDocument], num_characters: int | None) -> Iterator[RawDocument]:
    """Split documents into passages of whole paragraphs of at least `num_characters`; None splits nothing."""
    for document in documents:
        if num_characters is None:
            yield document
            continue
        passages = list(iter_groups(document.paragraphs, (len, num_characters))) or [[]]
        if len(passages) > 1 and sum(map(len, passages[-1])) < num_characters:  # append a shorter rest
            passages[-2:] = [passages[-2] + passages[-1]]
        yield from (RawDocument(passage, document.is_split) for passage in passages)


def drop_ornaments(document: RawDocument, counts: Counter[str]) -> RawDocument:
    """Remove paragraphs without words, such as `* * *`."""
    kept = [paragraph for paragraph in document.paragraphs if _HAS_CONTENT.search(paragraph)]
    count(counts, "ornaments", len(document.paragraphs) - len(kept))
    return RawDocument(kept, is_split=document.is_split)
