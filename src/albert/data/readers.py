"""A source, or a slice of one, comes in; its documents of cleaned paragraphs go out, one at a time."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from albert.data.cleaning import clean_bytes, clean_text, drop_licence, drop_page_furniture, mend_bytes
from albert.data.decompress import HEAD_BYTES, is_compressed, iter_bytes, read_head
from albert.data.layouts import Layout, choose_layout
from albert.data.paragraphs import Joiner, RawDocument, drop_ornaments, iter_raw_documents, split_lines
from albert.data.sources import Source
from albert.data.tables import iter_dataset_texts, iter_parquet_texts
from albert.errors import FileFormatError

MAX_LINE_BYTES = 1 << 20
MAX_RECORD_BYTES = 1 << 25
MAX_PARAGRAPH_CHARACTERS = 1 << 20


@dataclass(frozen=True)
class Slice:
    """A part of a source: bytes of a plain file, row groups of a Parquet file, rows of a dataset.

    Of a compressed file the slice is the whole, whatever it says; `num_bytes` is its share of the work.
    `sha256` is that of the whole source, and `modified_ns` the time of its last change when it was hashed.
    """

    source: Source
    layout: Layout
    start: int
    end: int
    num_bytes: int
    heads: tuple[str, ...] = ()
    sha256: str = ""
    modified_ns: int = 0


@dataclass(frozen=True)
class ReadOptions:
    """How text is read: the key or column that holds it, and whether symbols may stand without spaces."""

    text_key: str = "text"
    counts: Counter[str] = field(default_factory=Counter)
    keeps_long_tokens: bool = False


def iter_documents(
    source: Source, *, text_key: str = "text", layout: str | None = None, keeps_long_tokens: bool = False
) -> Iterator[RawDocument]:
    """The documents of a whole source; its layout is detected unless it is given."""
    options = ReadOptions(text_key, keeps_long_tokens=keeps_long_tokens)
    found = choose_layout(layout, read_sample(source, options))
    return iter_slice(Slice(source, found, 0, -1, 0), options)


def iter_slice(part: Slice, options: ReadOptions) -> Iterator[RawDocument]:
    """The documents of a slice; what was cleaned away or skipped is added to the options' counts."""
    is_whole = part.end < 0 or is_compressed(part.source.path)
    joiner = Joiner(lambda: read_sample(part.source, options))
    if part.source.kind == "txt":
        chunks = _iter_chunks(part, options, is_whole=is_whole)
        documents = iter_raw_documents(chunks, part.layout, joiner)
    else:
        start, end = (0, -1) if is_whole else (part.start, part.end)
        texts = RECORD_READERS[part.source.kind](part.source, start, end, options)
        documents = _iter_record_documents(texts, part.layout, joiner, options)
    for document in documents:
        kept = _bound_paragraphs(document, options.counts)
        if not options.keeps_long_tokens:  # brackets and dots may be symbols like any other
            kept = drop_ornaments(kept, lambda number: _count(options.counts, "ornaments", number))
        if kept.paragraphs:
            yield kept
        else:
            _count(options.counts, "empty_documents", 1)


def read_sample(source: Source, options: ReadOptions) -> str:
    """The first part of a source's text, cleaned, by which its layout is judged."""
    quiet = replace(options, counts=Counter())
    ignored, keeps = quiet.counts, quiet.keeps_long_tokens
    if source.kind == "txt":
        head = read_head(source.path)
        whole_lines = head[: head.rfind(b"\n") + 1] if len(head) == HEAD_BYTES and b"\n" in head else head
        text = clean_bytes(whole_lines, ignored, keeps_long_tokens=keeps)
        return drop_page_furniture(drop_licence(text, ignored)[0], ignored)
    texts: list[str] = []
    size = 0
    for text in RECORD_READERS[source.kind](source, 0, -1, quiet):
        texts.append(clean_text(text[:HEAD_BYTES], ignored, keeps_long_tokens=keeps).strip())
        size += len(text)
        if size >= HEAD_BYTES:
            break
    return "\n\n".join(texts)


def _iter_chunks(part: Slice, options: ReadOptions, *, is_whole: bool) -> Iterator[str]:
    path, counts = part.source.path, options.counts
    blocks = iter_bytes(path) if is_whole else iter_bytes(path, start=part.start, end=part.end)
    is_licence: bool | None = None if part.start <= 0 else False
    for data in iter_line_chunks(blocks, counts):
        cleaned = clean_bytes(data, counts, keeps_long_tokens=options.keeps_long_tokens)
        text, is_licence = drop_licence(cleaned, counts, is_licence=is_licence)
        # Of single characters, a line of digits is no page number.
        yield text if options.keeps_long_tokens else drop_page_furniture(text, counts, heads=part.heads)


def iter_line_chunks(blocks: Iterable[bytes], counts: Counter[str]) -> Iterator[bytes]:
    """Blocks of bytes as blocks of whole lines, each with its end; an endless line is cut at a space."""
    rest = b""
    for block in blocks:
        data = rest + block
        cut = data.rfind(b"\n") + 1
        if not cut and b"\r" in data:  # the line ends of old Macintoshes; the last may be half of a \r\n
            cut = data.rfind(b"\r", 0, -1) + 1
        if not cut and len(data) > MAX_LINE_BYTES:
            _count(counts, "cut_lines", 1)
            cut = data.rfind(b" ") + 1 or _last_character(data)
            yield data[:cut] + b"\n"
        elif cut:
            yield data[:cut]
        rest = data[cut:]
    if rest:
        yield rest + b"\n"


def _last_character(data: bytes) -> int:
    """Where the last UTF-8 character of the data begins."""
    place = len(data) - 1
    while place > len(data) - 4 and data[place] & 0xC0 == 0x80:
        place -= 1
    return place


def _iter_record_documents(
    texts: Iterable[str], layout: Layout, joiner: Joiner, options: ReadOptions
) -> Iterator[RawDocument]:
    """A document of each record: a blank line inside it is never the border of another one."""
    for text in texts:
        kept = clean_text(text, options.counts, keeps_long_tokens=options.keeps_long_tokens)
        cleaned = drop_licence(kept, options.counts)[0]
        if layout.name in ("sentences", "paragraphs"):
            lines = split_lines(cleaned)
            yield RawDocument(lines, is_split=layout.name == "sentences")
        else:
            yield from iter_raw_documents([cleaned + "\n"], layout, joiner)


def _iter_jsonl_texts(source: Source, start: int, end: int, options: ReadOptions) -> Iterator[str]:
    path = source.path
    blocks = iter_bytes(path) if end < 0 else iter_bytes(path, start=start, end=end)
    is_first = start == 0
    for line in _iter_lines(blocks, options.counts):
        try:
            record = json.loads(mend_bytes(line, options.counts))
        except (ValueError, RecursionError) as error:
            if is_first:
                raise FileFormatError(
                    f"{path}: its first line is no JSON ({error}); is it a .txt file?"
                ) from error
            _count(options.counts, "broken_records", 1)
            continue
        text = _find_text(record, options.text_key, path=path, is_first=is_first)
        is_first = False
        if text is None:
            _count(options.counts, "records_without_text", 1)
        else:
            yield text


def _find_text(record: Any, text_key: str, *, path: str, is_first: bool) -> str | None:
    text = record.get(text_key) if isinstance(record, dict) else None
    if isinstance(text, str):
        return text
    if is_first and not (isinstance(record, dict) and text_key in record):
        keys = ", ".join(record) if isinstance(record, dict) else type(record).__name__
        raise FileFormatError(
            f"{path}: its first record has no {text_key!r} but {keys}; name it with --text-key"
        )
    return None


def _iter_lines(blocks: Iterable[bytes], counts: Counter[str]) -> Iterator[bytes]:
    """Lines that are not blank; one that is longer than a record may be is dropped and counted."""
    waiting: list[bytes] = []
    size = 0
    for block in blocks:
        first, *lines = block.split(b"\n")
        waiting.append(first if size <= MAX_RECORD_BYTES else b"")
        size += len(first)
        for line in lines:
            if size > MAX_RECORD_BYTES:
                _count(counts, "long_records", 1)
            elif whole := b"".join(waiting).strip(b" \t\r\xef\xbb\xbf"):
                yield whole
            waiting, size = [line], len(line)
    if size > MAX_RECORD_BYTES:
        _count(counts, "long_records", 1)
    elif whole := b"".join(waiting).strip(b" \t\r\xef\xbb\xbf"):
        yield whole


RecordReader = Callable[[Source, int, int, ReadOptions], Iterator[str]]
RECORD_READERS: dict[str, RecordReader] = {
    "jsonl": _iter_jsonl_texts,
    "parquet": lambda source, start, end, options: iter_parquet_texts(
        source, start, end, text_key=options.text_key
    ),
    "dataset": lambda source, start, end, options: iter_dataset_texts(
        source, start, end, text_key=options.text_key
    ),
}


def _bound_paragraphs(document: RawDocument, counts: Counter[str]) -> RawDocument:
    if not document.paragraphs or max(map(len, document.paragraphs)) <= MAX_PARAGRAPH_CHARACTERS:
        return document
    parts = [list(_iter_cuts(paragraph)) for paragraph in document.paragraphs]
    _count(counts, "cut_lines", sum(len(part) - 1 for part in parts))
    return RawDocument(list(itertools.chain.from_iterable(parts)), is_split=document.is_split)


def _iter_cuts(paragraph: str) -> Iterator[str]:
    while len(paragraph) > MAX_PARAGRAPH_CHARACTERS:
        cut = paragraph.rfind(" ", 0, MAX_PARAGRAPH_CHARACTERS) + 1 or MAX_PARAGRAPH_CHARACTERS
        yield paragraph[:cut]
        paragraph = paragraph[cut:]
    yield paragraph


def _count(counts: Counter[str], kind: str, number: int) -> None:
    if number:
        counts[kind] += number
