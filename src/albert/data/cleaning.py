"""Clean raw text and count what is removed."""

import re
from collections import Counter
from collections.abc import Collection

import numpy as np

# Longer tokens are base64, hashes and the like: no word in Latin letters is as long.
MAX_TOKEN_BYTES = 200
# A page has about 2,500 characters: a page header is repeated on every other page, a chapter title is not.
HEAD_CHARACTERS = 6000
MIN_HEADS = 10
MAX_HEAD_LENGTH = 80

_CONTROL = bytes(set(range(32)) - set(b"\t\n")) + b"\x7f"
# Each pattern begins with fixed bytes, which makes it fast. Zero-width joiners are kept, because Persian and
# emoji need them.
_INVISIBLE = (
    ("control_characters", re.compile(rb"\xc2[\x80-\x84\x86-\x9f]")),
    ("soft_hyphens", re.compile(rb"\xc2\xad")),
    ("invisible_characters", re.compile(rb"\xe2\x80[\x8b\x8e\x8f\xaa-\xae]")),
    ("invisible_characters", re.compile(rb"\xe2\x81\xa0")),
    ("byte_order_marks", re.compile(rb"\xef\xbb\xbf")),
)
# Page breaks and the line breaks of word processors: between words they are the only separator.
_BREAKS = re.compile(rb"(?<=\S)[\x0b\x0c]+(?=\S)")
_LINE_ENDS = (b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")
_LONG_TOKEN = re.compile(rb"[!-~]{%d,}" % (MAX_TOKEN_BYTES + 1))
_PAGE_NUMBER = re.compile(
    r"\n[ \t]*(?:[-–—\[(|] ?)?(?:(?:[Pp]age|PAGE|[Pp]\.) ?)?\d{1,4}(?: ?[-–—\])|])?[ \t]*(?=\n)"
)
_LICENSE_START = re.compile(r"\*\*\* ?START OF (?:THE|THIS) PROJECT GUTENBERG[^\n]*\n")
_LICENSE_END = re.compile(
    r"^(?:\*\*\* ?END OF (?:THE|THIS) PROJECT GUTENBERG|End of (?:the )?Project Gutenberg)", re.MULTILINE
)
_DIGITS = re.compile(r"\d+|\b[ivxlc]+\b")


def clean_bytes(data: bytes, counts: Counter[str], *, keeps_long_tokens: bool = False) -> str:
    """Decode and clean whole lines of bytes; line ends become `\\n`, and invalid UTF-8 U+FFFD."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\x0b" in data or b"\x0c" in data:
        data = _BREAKS.sub(b"\n", data)
    kept = data.translate(None, _CONTROL)
    count(counts, "control_characters", len(data) - len(kept))
    if not kept.isascii():
        for mark in _LINE_ENDS:
            kept = kept.replace(mark, b"\n")
        for name, pattern in _INVISIBLE:
            kept, number = pattern.subn(b"", kept)
            count(counts, name, number)
    return decode_bytes(kept if keeps_long_tokens else _drop_long_tokens(kept, counts), counts)


def decode_bytes(data: bytes, counts: Counter[str]) -> str:
    """Decode bytes; invalid UTF-8 becomes U+FFFD and is counted."""
    text = data.decode("utf-8", "replace")
    if "\ufffd" in text:
        count(counts, "broken_characters", text.count("\ufffd") - data.count(b"\xef\xbf\xbd"))
    return text


def clean_text(text: str, counts: Counter[str], *, keeps_long_tokens: bool = False) -> str:
    """Clean the text of a record; lone surrogates count as invalid UTF-8."""
    return clean_bytes(text.encode("utf-8", "surrogatepass"), counts, keeps_long_tokens=keeps_long_tokens)


def _drop_long_tokens(data: bytes, counts: Counter[str]) -> bytes:
    # A token that is too long covers a whole row of half its length: look for rows without a space first.
    width = MAX_TOKEN_BYTES // 2
    rows = np.frombuffer(data, dtype=np.uint8)[: len(data) // width * width].reshape(-1, width)
    if (rows <= 32).any(axis=1).all():
        return data
    data, number = _LONG_TOKEN.subn(b"", data)
    count(counts, "long_tokens", number)
    return data


def drop_page_lines(text: str, counts: Counter[str], *, heads: Collection[str] = ()) -> str:
    """Remove page numbers and page headers (`heads`)."""
    framed, number = _PAGE_NUMBER.subn("", "\n" + text)
    count(counts, "page_numbers", number)
    if not heads:
        return framed[1:]
    lines = framed[1:].split("\n")
    kept = [line for line in lines if not line or head_pattern(line) not in heads]
    count(counts, "running_heads", len(lines) - len(kept))
    return "\n".join(kept)


def head_pattern(line: str) -> str:
    """Replace numbers, also Roman ones, in a line that may be a page header."""
    return _DIGITS.sub("#", line.strip()) if len(line) <= MAX_HEAD_LENGTH + 20 else ""


def find_running_heads(sample: str) -> tuple[str, ...]:
    """Find page headers: lines that are repeated throughout a sample."""
    lines = (line for line in map(str.strip, sample.split("\n")) if 6 <= len(line) <= MAX_HEAD_LENGTH)
    # Headers are not sentences ("Yes, sir."), separators or lines in the middle of a paragraph.
    found = Counter(
        head_pattern(line)
        for line in lines
        if line[-1].isalnum() and line[0].isalnum() and not line[0].islower()
    )
    least = max(MIN_HEADS, len(sample) // HEAD_CHARACTERS)
    return tuple(sorted(line for line, times in found.items() if times >= least and _is_title(line)))


def _is_title(line: str) -> bool:
    """Return whether fewer than half of the words begin in lower case."""
    words = [word for word in line.split() if word[0].isalpha()]
    return len(line) >= 6 and sum(word[0].islower() for word in words) < 0.5 * len(words)


def drop_license(text: str, counts: Counter[str], *, is_license: bool | None = None) -> tuple[str, bool]:
    """Remove Project Gutenberg's licenses, and also return whether the text ends inside one.

    All text from an end mark to the next start mark is license. `is_license` is the result for the previous
    chunk, or None at the beginning, where the text before a first start mark is license, too.
    """
    marks: list[tuple[int, int, bool]] = []
    if "GUTENBERG" in text.upper():
        for pattern, is_start in ((_LICENSE_START, True), (_LICENSE_END, False)):
            marks += [(*mark.span(), is_start) for mark in pattern.finditer(text)]
    parts: list[str] = []
    position = 0
    for start, end, is_start in sorted(marks):
        if not is_license and not (is_start and is_license is None):
            parts.append(text[position:start])
        is_license = not is_start
        position = end
    if not is_license:
        parts.append(text[position:])
    kept = "".join(parts)
    count(counts, "licence_characters", len(text) - len(kept))
    return kept, bool(is_license)


def looks_binary(head: bytes) -> bool:
    """Return whether the first bytes of a file are not text: a zero byte, or a third is not UTF-8."""
    if b"\0" in head:
        return True
    text = head.decode("utf-8", "replace")
    return 3 * text.count("\ufffd") > max(len(text), 1)


def count(counts: Counter[str], name: str, number: int) -> None:
    """Add `number` to a count, without recording zeros."""
    if number:
        counts[name] += number
