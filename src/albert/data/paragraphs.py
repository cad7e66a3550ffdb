"""Lines of a known layout come in, documents of paragraphs go out, with wrapped words put together again."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from albert.data.layouts import MAX_WRAPPED_WIDTH, Layout, begins_paragraph, ends_sentence
from albert.data.rows import iter_groups

# No document is held in memory beyond this: a longer one is cut between two paragraphs.
MAX_DOCUMENT_CHARACTERS = 1 << 22
# A paragraph is cut by a page break, rarely by two; more pieces than this are no paragraph.
MAX_MENDED = 8
_BLANK = re.compile(r"\n[ \t\u00a0]*\n\s*")
_WORDS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_HYPHEN_END = re.compile(r"([^\W\d_]+)-$")
_WORD_START = re.compile(r"[^\W\d_]+")
# Letters and digits, Braille, and emoji, which may be all that somebody says.
_SAYS_SOMETHING = re.compile(r"[\w\u2801-\u28ff\U0001f300-\U0001faff]")
# Letters of scripts without spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, Chinese, Japanese, Yi.
_UNSPACED = (
    "\u0e00-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua000-\ua4cf\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_WIDE_MARKS = "\u3001-\u3004\u3008-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
# Where they were wrapped there was no space either; nor is there any beside a full-width mark.
_UNSPACED_END = re.compile(
    rf"\n(?:(?=[{_UNSPACED}])(?<=[{_UNSPACED}]\n)|(?=[{_WIDE_MARKS}])|(?<=[{_WIDE_MARKS}]\n))"
)


@dataclass(frozen=True, slots=True)
class RawDocument:
    """A document as it was read: its paragraphs, or its sentences where the source had one to a line."""

    paragraphs: Sequence[str]
    is_split: bool = False


class Joiner:
    """Joins wrapped lines; a hyphen at a line's end is judged by the words of the text's first part.

    `read_sample` gives that part: most texts have no such hyphen, and it is never asked for.
    """

    def __init__(self, read_sample: Callable[[], str]) -> None:
        self._read_sample = read_sample

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of the sample, compounds among them."""
        return frozenset(_WORDS.findall(self._read_sample().lower()))

    def join(self, lines: Sequence[str]) -> str:
        """One line of them all; a word cut by the wrapping is whole again, a compound keeps its hyphen."""
        framed = "\n".join(lines)
        if not framed.isascii():
            framed = _UNSPACED_END.sub("", framed)
        if "-\n" not in framed:
            return framed.replace("\n", " ")
        first, *others = framed.split("\n")
        parts = [first]
        for line in others:
            self._append(parts, line)
        return "".join(parts)

    def _append(self, parts: list[str], line: str) -> None:
        head, tail = _HYPHEN_END.search(parts[-1][-60:]), _WORD_START.match(line)
        if head is None or tail is None or not tail[0][0].islower():
            parts += (" ", line)
            return
        first, second = head[1].lower(), tail[0].lower()
        is_compound = f"{first}-{second}" in self.words or (first in self.words and second in self.words)
        if f"{first}{second}" in self.words or not is_compound:
            parts[-1] = parts[-1][:-1]
        parts.append(line)


def iter_raw_documents(chunks: Iterable[str], layout: Layout, joiner: Joiner) -> Iterator[RawDocument]:
    """The documents of a text that comes in chunks of whole lines."""
    if layout.name in ("sentences", "paragraphs"):
        documents = _iter_line_documents(chunks, is_split=layout.name == "sentences")
    else:
        # All as one document, cut where it would grow too long.
        mended = mend_paragraphs(_BOOK_READERS[layout.name](chunks, layout, joiner))
        documents = iter_groups(mended, (len, MAX_DOCUMENT_CHARACTERS))
    for paragraphs in documents:
        yield RawDocument(paragraphs, is_split=layout.name == "sentences")


def iter_blocks(chunks: Iterable[str]) -> Iterator[str]:
    """The texts between blank lines; one that is too long for a document is cut after a line."""
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
    """The lines of a block that are not blank, without the white space at their ends."""
    return list(filter(None, map(str.strip, block.split("\n"))))


def _iter_line_documents(chunks: Iterable[str], *, is_split: bool) -> Iterator[list[str]]:
    for block in iter_blocks(chunks):
        lines = split_lines(block)
        if not lines:
            continue
        if not is_split:
            lines = list(mend_paragraphs(lines))
        yield lines  # a blank line is a border here, whatever stands on its sides


def _iter_wrapped(chunks: Iterable[str], layout: Layout, joiner: Joiner) -> Iterator[str]:
    longest = max(MAX_WRAPPED_WIDTH, layout.width + layout.width // 3)
    for block in iter_blocks(chunks):
        lines = split_lines(block)
        if lines and max(map(len, lines)) <= longest:
            yield joiner.join(lines)
        elif lines:
            yield from _join_runs(lines, lambda before, line: max(len(before), len(line)) <= longest, joiner)


def _iter_spaced(chunks: Iterable[str], layout: Layout, joiner: Joiner) -> Iterator[str]:
    """Every line is a paragraph, but for a stretch of wrapped ones here and there."""

    def goes_on(before: str, line: str) -> bool:
        return len(before) <= layout.width and not ends_sentence(before)

    for block in iter_blocks(chunks):
        lines = split_lines(block)
        if len(lines) < 2:
            yield from lines
        elif max(map(len, lines)) <= layout.width and not all(map(ends_sentence, lines)):
            yield joiner.join(lines)
        else:
            yield from _join_runs(lines, goes_on, joiner)


def _join_runs(lines: list[str], goes_on: Callable[[str, str], bool], joiner: Joiner) -> Iterator[str]:
    """Join each line to the one before where `goes_on` says so."""
    run = [lines[0]]
    for before, line in pairwise(lines):
        if not goes_on(before, line):
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
            if gathered and (
                is_blank or begins_paragraph(before, line, layout) or num_characters > MAX_DOCUMENT_CHARACTERS
            ):
                yield joiner.join(gathered)
                gathered, num_characters = [], 0
            if not is_blank:
                before = line.rstrip()
                gathered.append(before.lstrip())
                num_characters += len(before)
    if gathered:
        yield joiner.join(gathered)


_BOOK_READERS = {"wrapped": _iter_wrapped, "spaced": _iter_spaced, "dense": _iter_dense}


def mend_paragraphs(paragraphs: Iterable[str]) -> Iterator[str]:
    """Join what a page break cut: an unfinished paragraph, and one that begins with a small letter.

    Only in a text that uses capitals: where the paragraph before began with a small letter and none was
    joined to it, small letters say nothing.
    """
    run: list[str] = []
    for paragraph in paragraphs:
        if run and _goes_on(run, paragraph):
            run.append(paragraph)
            continue
        if run:
            yield " ".join(run)
        run = [paragraph]
    if run:
        yield " ".join(run)


def _goes_on(run: Sequence[str], paragraph: str) -> bool:
    before = run[-1]
    return (
        paragraph[0].islower()
        and not run[0][0].islower()
        and (before[-1].isalnum() or before[-1] in ",;-")
        and len(run) < MAX_MENDED
    )


def cut_passages(documents: Iterable[RawDocument], num_characters: int | None) -> Iterator[RawDocument]:
    """Each document in passages of whole paragraphs of so many characters or more; None: as it is.

    What is left at a document's end, and is shorter, belongs to the passage before it.
    """
    for document in documents:
        if num_characters is None:
            yield document
            continue
        passages: list[list[str]] = [[]]
        size = 0
        for paragraph in document.paragraphs:
            if size >= num_characters:
                passages.append([])
                size = 0
            passages[-1].append(paragraph)
            size += len(paragraph)
        if size < num_characters and len(passages) > 1:
            last = passages.pop()
            passages[-1] += last
        yield from (RawDocument(passage, document.is_split) for passage in passages)


def drop_ornaments(document: RawDocument, count: Callable[[int], None]) -> RawDocument:
    """The document without paragraphs that say nothing, such as `* * *`."""
    kept = [paragraph for paragraph in document.paragraphs if _SAYS_SOMETHING.search(paragraph)]
    count(len(document.paragraphs) - len(kept))
    return RawDocument(kept, is_split=document.is_split)
