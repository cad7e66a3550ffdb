"""Read the documents of a source, or of a slice of one: cleaned paragraphs, one document at a time."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from albert.data.cleaning import (
    clean_bytes,
    clean_text,
    count,
    drop_licence,
    drop_page_furniture,
    mend_bytes,
)
from albert.data.layouts import (
    Joiner,
    Layout,
    RawDocument,
    choose_layout,
    drop_ornaments,
    iter_raw_documents,
    split_lines,
)
from albert.data.paths import HEAD_BYTES, is_compressed, iter_bytes, read_head
from albert.data.problems import BadRow, Problems
from albert.data.rows import NO_OBJECT, NOT_JSON, TOO_LONG, Row, Wanted, iter_rows
from albert.errors import FileFormatError, InputError, name_install, one_line

MAX_LINE_BYTES = 1 << 20
MAX_PARAGRAPH_CHARACTERS = 1 << 20
_DATASET_ROWS = 256


@dataclass(frozen=True)
class Source:
    """One file or dataset: its name in messages, its path, and what it is (txt, jsonl, parquet, dataset)."""

    name: str
    path: str
    kind: str


@dataclass(frozen=True)
class Slice:
    """A part of a source: bytes of a plain file, row groups of a Parquet file, rows of a dataset.

    A compressed file is always read as a whole. `num_bytes` is the slice's share of the work, `sha256` the
    hash of the whole source, and `modified_ns` the time of its last change when it was hashed.
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
    """The key or column with the text, and whether to keep long tokens (for symbols without spaces)."""

    text_key: str = "text"
    counts: Counter[str] = field(default_factory=Counter)
    keeps_long_tokens: bool = False


def iter_documents(
    source: Source, *, text_key: str = "text", layout: str | None = None, keeps_long_tokens: bool = False
) -> Iterator[RawDocument]:
    """Yield the documents of a whole source; its layout is detected unless it is given."""
    options = ReadOptions(text_key, keeps_long_tokens=keeps_long_tokens)
    found = choose_layout(layout, read_sample(source, options))
    return iter_slice(Slice(source, found, 0, -1, 0), options)


def iter_slice(part: Slice, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield the documents of a slice; what is cleaned away or skipped is added to the options' counts."""
    is_whole = part.end < 0 or is_compressed(part.source.path)
    start, end = (0, None) if is_whole else (part.start, part.end)
    joiner = Joiner(lambda: read_sample(part.source, options))
    if part.source.kind == "txt":
        documents = iter_raw_documents(_iter_chunks(part, start, end, options), part.layout, joiner)
    else:
        documents = _iter_record_documents(
            _iter_texts(part.source, start, end, options), part.layout, joiner, options
        )
    for document in documents:
        kept = _bound_paragraphs(document, options.counts)
        if not options.keeps_long_tokens:  # brackets and dots may be symbols like any other
            kept = drop_ornaments(kept, lambda number: count(options.counts, "ornaments", number))
        if kept.paragraphs:
            yield kept
        else:
            options.counts["empty_documents"] += 1


def read_sample(source: Source, options: ReadOptions) -> str:
    """Return the cleaned beginning of a source's text, by which its layout is detected."""
    quiet = replace(options, counts=Counter())
    ignored, keeps = quiet.counts, quiet.keeps_long_tokens
    if source.kind == "txt":
        head = read_head(source.path)
        whole_lines = head[: head.rfind(b"\n") + 1] if len(head) == HEAD_BYTES and b"\n" in head else head
        text = clean_bytes(whole_lines, ignored, keeps_long_tokens=keeps)
        return drop_page_furniture(drop_licence(text, ignored)[0], ignored)
    texts: list[str] = []
    size = 0
    for text in _iter_texts(source, 0, None, quiet):
        texts.append(clean_text(text[:HEAD_BYTES], ignored, keeps_long_tokens=keeps).strip())
        size += len(text)
        if size >= HEAD_BYTES:
            break
    return "\n\n".join(texts)


def _iter_chunks(part: Slice, start: int, end: int | None, options: ReadOptions) -> Iterator[str]:
    counts = options.counts
    is_licence: bool | None = None if part.start <= 0 else False
    for data in iter_line_chunks(iter_bytes(part.source.path, start=start, end=end), counts):
        cleaned = clean_bytes(data, counts, keeps_long_tokens=options.keeps_long_tokens)
        text, is_licence = drop_licence(cleaned, counts, is_licence=is_licence)
        # Among single characters, a line of digits is no page number.
        yield text if options.keeps_long_tokens else drop_page_furniture(text, counts, heads=part.heads)


def iter_line_chunks(blocks: Iterable[bytes], counts: Counter[str]) -> Iterator[bytes]:
    """Regroup blocks of bytes into blocks of whole lines; a line that is too long is cut at a space."""
    rest = b""
    for block in blocks:
        data = rest + block
        cut = data.rfind(b"\n") + 1
        if not cut and b"\r" in data:  # the line ends of old Macintoshes; the last may be half of a \r\n
            cut = data.rfind(b"\r", 0, -1) + 1
        if not cut and len(data) > MAX_LINE_BYTES:
            counts["cut_lines"] += 1
            cut = data.rfind(b" ") + 1 or _find_last_character(data)
            yield data[:cut] + b"\n"
        elif cut:
            yield data[:cut]
        rest = data[cut:]
    if rest:
        yield rest + b"\n"


def _find_last_character(data: bytes) -> int:
    """Return where the last UTF-8 character begins."""
    place = len(data) - 1
    while place > len(data) - 4 and data[place] & 0xC0 == 0x80:
        place -= 1
    return place


def _iter_record_documents(
    texts: Iterable[str], layout: Layout, joiner: Joiner, options: ReadOptions
) -> Iterator[RawDocument]:
    """Make a document of each record: a blank line inside it does not end the document."""
    for text in texts:
        kept = clean_text(text, options.counts, keeps_long_tokens=options.keeps_long_tokens)
        cleaned = drop_licence(kept, options.counts)[0]
        if layout.name in ("sentences", "paragraphs"):
            yield RawDocument(split_lines(cleaned), is_split=layout.name == "sentences")
        else:
            yield from iter_raw_documents([cleaned + "\n"], layout, joiner)


class _Records(Problems):
    """Count skipped records by the manifest's names; the first record of a file must be readable."""

    def __init__(self, path: str, counts: Counter[str], *, is_first: bool) -> None:
        super().__init__(path)
        self.counts, self.is_first = counts, is_first

    def skip(self, bad: BadRow, *, line: int) -> None:
        if self.is_first and bad.reason in (NOT_JSON, NO_OBJECT):
            raise FileFormatError(
                f"{self.path}: line {line}: {bad.reason} ({bad.detail}); is it a .txt file?"
            )
        has_no_text = bad.reason == NO_OBJECT or bad.reason.startswith("no '")
        kind = "long_records" if bad.reason == TOO_LONG else "broken_records"
        self.counts["records_without_text" if has_no_text else kind] += 1


def _iter_texts(source: Source, start: int, end: int | None, options: ReadOptions) -> Iterator[str]:
    """Yield the texts of records from `start` to `end`: bytes, row groups, or rows of a dataset."""
    key = options.text_key
    problems = _Records(source.path, options.counts, is_first=start == 0)
    if source.kind == "dataset":
        rows = _iter_dataset(source, start, end, key)
    else:
        rows = iter_rows(
            source.path,
            wanted=Wanted((key,), hint="name it with --text-key"),
            problems=problems,
            format=source.kind,
            start=start,
            end=end,
            decode=lambda data: mend_bytes(data, options.counts),
        )
    for row in rows:
        problems.is_first = False
        text = row.values[key]
        if isinstance(text, str):
            yield text
        elif source.kind == "jsonl":
            options.counts["records_without_text"] += 1
        elif text is not None:
            raise FileFormatError(
                f"{source.name}: column {key!r} holds a {type(text).__name__}, not text; name another with "
                "--text-key"
            )


def load_dataset(source: Source) -> Any:
    """Load the Hugging Face dataset `NAME[@CONFIGURATION][:SPLIT]`; the default split is `train`."""
    try:
        import datasets  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise InputError(
            f"{source.name}: needs the extra `datasets`; in the clone, run: {name_install('datasets')}"
        ) from error
    name, _, split = source.path.partition(":")
    name, _, configuration = name.partition("@")
    try:
        return datasets.load_dataset(name, configuration or None, split=split or "train")
    except Exception as error:  # the library raises its own, the hub's and the file system's
        raise InputError(
            f"{source.name}: cannot be loaded ({one_line(error)[:300]}); check the name and the split"
        ) from error


def describe_dataset(source: Source) -> tuple[int, int, str]:
    """Return the number of rows and bytes of a dataset, and a hash of its content."""
    dataset = load_dataset(source)
    mark = hashlib.sha256(f"{source.path}\0{dataset._fingerprint}\0{len(dataset)}".encode()).hexdigest()
    return len(dataset), int(dataset.data.nbytes), mark


def _iter_dataset(source: Source, start: int, end: int | None, text_key: str) -> Iterator[Row]:
    dataset = load_dataset(source)
    if text_key not in dataset.column_names:
        columns = ", ".join(dataset.column_names)
        raise InputError(f"{source.name}: no column {text_key!r} but {columns}; name it with --text-key")
    stop = len(dataset) if end is None else end
    for first in range(start, stop, _DATASET_ROWS):
        texts = dataset[first : min(first + _DATASET_ROWS, stop)][text_key]
        yield from (Row({text_key: text}, source.name, first + k + 1) for k, text in enumerate(texts))


def _bound_paragraphs(document: RawDocument, counts: Counter[str]) -> RawDocument:
    if not document.paragraphs or max(map(len, document.paragraphs)) <= MAX_PARAGRAPH_CHARACTERS:
        return document
    parts = [list(_iter_cuts(paragraph)) for paragraph in document.paragraphs]
    count(counts, "cut_lines", sum(len(part) - 1 for part in parts))
    return RawDocument(list(itertools.chain.from_iterable(parts)), is_split=document.is_split)


def _iter_cuts(paragraph: str) -> Iterator[str]:
    while len(paragraph) > MAX_PARAGRAPH_CHARACTERS:
        cut = paragraph.rfind(" ", 0, MAX_PARAGRAPH_CHARACTERS) + 1 or MAX_PARAGRAPH_CHARACTERS
        yield paragraph[:cut]
        paragraph = paragraph[cut:]
    yield paragraph
