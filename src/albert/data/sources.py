"""Find the sources of text behind paths, URLs and dataset names, and read their documents.

A source is surveyed first: its hash, its layout and its slices. The order of sources and the boundaries of
slices depend on the sources only, not on the workers.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from albert.data import cleaning, layouts, rows, storage
from albert.data.layouts import Joiner, Layout, RawDocument
from albert.data.storage import PathOrUrl
from albert.errors import FileFormatError, InputError, format_install_command, one_line

DATASET_PREFIX = "hf:"
# Small enough for many workers, large enough that a corpus has at most a few hundred shards.
MIN_SLICE_BYTES = 1 << 23
MAX_SLICES = 500
MAX_LINE_BYTES = 1 << 20
MAX_PARAGRAPH_CHARACTERS = 1 << 20
_DATASET_ROWS = 256
_LOOK_AHEAD = 1 << 20
_BLANK = re.compile(rb"\n[ \t\r]*\n")
_SUPPORTED = "supported are .txt, .jsonl and .parquet, plain or with .gz, .zst or .xz"


@dataclass(frozen=True)
class Source:
    """A file or a dataset: its name in messages, its path, and its format (txt, jsonl, parquet, dataset)."""

    name: str
    path: str
    format: str


def find_sources(paths: Iterable[PathOrUrl], *, excluding: PathOrUrl | None = None) -> list[Source]:
    """Find the sources of files, folders (searched recursively, sorted) and `hf:NAME[@CONFIG][:SPLIT]`.

    A URL without a supported suffix is a folder. `excluding` is the output folder.
    """
    names = [str(path) for path in paths]
    found = [source for name in names for source in _find(name) if source.format]
    sources = [each for each in found if each.format == "dataset" or not _is_inside(each.path, excluding)]
    if found and not sources:
        raise InputError(f"{excluding}: contains all files to read; choose another --out")
    if not sources:
        raise InputError(f"{', '.join(names) or 'no path'}: no files to read; {_SUPPORTED}")
    return sources


def count_ignored(paths: Iterable[PathOrUrl], *, excluding: PathOrUrl | None = None) -> Counter[str]:
    """Count the files of other kinds in the folders, by suffix."""
    found = (source for path in paths for source in _find(str(path)) if not source.format)
    files = [storage.to_name(source.path) for source in found if not _is_inside(source.path, excluding)]
    return Counter(file.suffix or file.name for file in files)


def _is_inside(path: str, folder: PathOrUrl | None) -> bool:
    if folder is None or storage.is_url(folder) or storage.is_url(path):
        return folder is not None and path.startswith(str(folder).rstrip("/") + "/")
    return _resolve(Path(path).parent).is_relative_to(_resolve(storage.to_path(folder)))


_resolve: Callable[[Path], Path] = cache(Path.resolve)  # called for many files of a folder


def _find(name: str) -> list[Source]:
    """Find the files of a name; unsupported files in folders have an empty format."""
    if name.startswith(DATASET_PREFIX) and not storage.is_url(name):
        return [Source(name, name.removeprefix(DATASET_PREFIX), "dataset")]
    if storage.is_url(name):
        name = name.rstrip("/")
        if format := _find_format(name):
            return [Source(storage.to_name(name).name, name, format)]
        files = storage.list_files(name)
        if not files:
            raise InputError(f"{name}: no such folder, or empty; check the address; {_SUPPORTED}")
        folder = storage.to_name(name).name
        return [Source(f"{folder}/{file}", f"{name}/{file}", _find_format(file)) for file in files]
    path = storage.to_path(name)
    if path.is_dir():
        return list(_iter_folder(path))
    if not path.exists():
        raise InputError(f"{name}: no such file or folder; check the path (a dataset's name begins with hf:)")
    if not (format := _find_format(path)):
        raise InputError(f"{name}: unsupported file format; {_SUPPORTED}")
    return [Source(path.name, str(path), format)]


def _find_format(path: PathOrUrl) -> str:
    format = rows.find_format(path)
    return format if format in ("txt", "jsonl", "parquet") else ""


def _iter_folder(top: Path) -> Iterator[Source]:
    def fail(error: OSError) -> None:
        raise InputError(f"{error.filename}: {error.strerror}; make the folder readable, or omit it")

    seen: set[str] = set()
    for folder, folders, files in os.walk(top, onerror=fail, followlinks=True):
        if os.path.realpath(folder) in seen:  # a cycle of links
            folders.clear()
            continue
        seen.add(os.path.realpath(folder))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for file in (Path(folder) / name for name in sorted(files) if not name.startswith(".")):
            name = f"{top.resolve().name}/{file.relative_to(top).as_posix()}"
            yield Source(name, str(file), _find_format(file))


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading; `counts` receives what is removed or skipped."""

    text_key: str = "text"
    keeps_long_tokens: bool = False  # for symbols without spaces
    counts: Counter[str] = field(default_factory=Counter)


def iter_plain_texts(
    paths: Sequence[str],
    *,
    text_key: str = "text",
    layout: str | None = None,
    keeps_long_tokens: bool = False,
    warn: Callable[[str], None],
) -> Iterator[str]:
    """Yield the cleaned paragraphs of all sources, for vocabulary training; binary files are skipped."""
    options = ReadOptions(text_key, keeps_long_tokens)
    for source in find_sources(paths):
        if _is_binary(source):
            warn(f"{source.name}: binary, skipped")
            continue
        for document in iter_documents(source, options, layout=layout):
            yield from document.paragraphs


def iter_documents(
    source: Source, options: ReadOptions, *, layout: str | None = None
) -> Iterator[RawDocument]:
    """Yield the documents of a source, whose layout is detected if it is None."""
    chosen = layouts.choose_layout(layout, read_sample(source, options))
    return _iter_range(SourceSurvey(source, 0, 0, "", chosen), 0, None, options)


@dataclass(frozen=True)
class SourceSurvey:
    """The properties of a source before it is read; `skipped` is the reason if it is not read."""

    source: Source
    num_bytes: int
    modified_ns: int
    sha256: str
    layout: Layout = layouts.NO_LAYOUT
    heads: tuple[str, ...] = ()
    cuts: tuple[int, ...] = ()  # boundaries of slices: bytes, row groups of Parquet, or rows of a dataset
    skipped: str = ""

    @property
    def slices(self) -> "list[Slice]":
        return [Slice(self, start, end) for start, end in zip(self.cuts, self.cuts[1:], strict=False)]


@dataclass(frozen=True)
class Slice:
    """A part of a source, from one cut to the next; a compressed file is a single slice."""

    survey: SourceSurvey
    start: int
    end: int

    @property
    def num_bytes(self) -> int:
        """The share of the source's size."""
        cuts = self.survey.cuts
        return self.survey.num_bytes * (self.end - self.start) // max(cuts[-1] - cuts[0], 1)


def iter_slice(part: Slice, options: ReadOptions) -> Iterator[RawDocument]:
    """Yield the documents of a slice; raise a FileFormatError if the file changes meanwhile."""
    survey, source = part.survey, part.survey.source
    end = None if storage.is_compressed(source.path) else part.end
    yield from _iter_range(survey, part.start, end, options)
    if measure_source(source, is_fresh=True)[1] != survey.modified_ns:
        raise FileFormatError(f"{source.path}: changed while it was read; run the same command again")


@dataclass(frozen=True)
class SurveyTask:
    """A source to survey, and the settings on which the result depends."""

    source: Source
    options: ReadOptions
    layout: str | None
    slice_bytes: int


def survey_source(task: SurveyTask) -> SourceSurvey:
    """Detect the layout of a source from its beginning, and compute the hash of all of it."""
    source, num_rows = task.source, 0
    num_bytes, modified_ns = measure_source(source)
    if source.format == "dataset":
        dataset = load_dataset(source)
        num_rows, num_bytes = len(dataset), int(dataset.data.nbytes)
        sha256 = hashlib.sha256(f"{source.path}\0{dataset._fingerprint}\0{num_rows}".encode()).hexdigest()
    else:
        digest = hashlib.sha256()
        with storage.open_binary(source.path) as file:
            while block := file.read(storage.BLOCK_BYTES):
                digest.update(block)
        sha256 = digest.hexdigest()
    survey = SourceSurvey(source, num_bytes, modified_ns, sha256)
    if num_bytes == 0:
        return replace(survey, skipped="empty")
    if _is_binary(source):
        return replace(survey, skipped="binary")
    sample = read_sample(source, task.options)
    layout = layouts.choose_layout(task.layout, sample)
    heads = cleaning.find_running_heads(sample) if source.format == "txt" else ()
    num_slices = max(1, min(num_bytes // task.slice_bytes, MAX_SLICES))
    if storage.is_compressed(source.path):
        cuts: tuple[int, ...] = (0, num_bytes)
    elif source.format in ("txt", "jsonl"):
        is_loose = source.format == "txt" and layout.name != "dense"
        cuts = _find_line_cuts(source.path, num_bytes, num_slices, blank=is_loose)
    else:
        if source.format == "parquet":
            with rows.open_parquet(source.path) as parquet:
                num_rows = int(parquet.num_row_groups)
        cuts = tuple(sorted({num_rows * k // num_slices for k in range(num_slices + 1)}))
    return replace(survey, layout=layout, heads=heads, cuts=cuts)


def measure_source(source: Source, *, is_fresh: bool = False) -> tuple[int, int]:
    """Return the size of a file and a number that changes with it, or zeros for a dataset."""
    return (0, 0) if source.format == "dataset" else storage.measure(source.path, is_fresh=is_fresh)


def choose_slice_bytes(sources: Iterable[Source]) -> int:
    """Choose the size of slices by the total size of the sources."""
    return max(MIN_SLICE_BYTES, sum(measure_source(source)[0] for source in sources) // MAX_SLICES)


def _is_binary(source: Source) -> bool:
    return source.format in ("txt", "jsonl") and cleaning.looks_binary(storage.read_head(source.path))


def _find_line_cuts(path: str, num_bytes: int, num_slices: int, *, blank: bool) -> tuple[int, ...]:
    cuts = {0, num_bytes}
    with storage.open_binary(path) as file:
        if not file.seekable():  # some web servers send a file only from the beginning
            return 0, num_bytes
        for k in range(1, num_slices):
            start = file.seek(num_bytes * k // num_slices)
            window = file.read(_LOOK_AHEAD)
            found = _BLANK.search(window) if blank else None
            if found is not None or b"\n" in window:  # else the next cut follows a very long line
                cuts.add(start + (found.end() if found else window.index(b"\n") + 1))
    return tuple(sorted(cuts))


def read_sample(source: Source, options: ReadOptions) -> str:
    """Return the cleaned beginning of a source, from which its layout is detected."""
    quiet = replace(options, counts=Counter())
    ignored, keeps = quiet.counts, quiet.keeps_long_tokens
    if source.format == "txt":
        head = storage.read_head(source.path)
        if len(head) == storage.HEAD_BYTES:
            head = head[: head.rfind(b"\n") + 1] or head  # whole lines
        text = cleaning.clean_bytes(head, ignored, keeps_long_tokens=keeps)
        return cleaning.drop_page_lines(cleaning.drop_license(text, ignored)[0], ignored)
    texts = (text[: storage.HEAD_BYTES] for text in _iter_texts(source, 0, None, quiet))
    sample = next(rows.iter_groups(texts, (len, storage.HEAD_BYTES)), [])
    cleaned = (cleaning.clean_text(text, ignored, keeps_long_tokens=keeps).strip() for text in sample)
    return "\n\n".join(cleaned)


def _iter_range(
    survey: SourceSurvey, start: int, end: int | None, options: ReadOptions
) -> Iterator[RawDocument]:
    """Yield the cleaned documents of a source from `start` to `end`, with paragraphs of bounded length."""
    source, layout = survey.source, survey.layout
    joiner = Joiner(lambda: read_sample(source, options))
    if source.format == "txt":
        chunks = _iter_chunks(survey, start, end, options)
        documents = layouts.iter_raw_documents(chunks, layout, joiner)
    else:
        documents = _iter_record_documents(_iter_texts(source, start, end, options), layout, joiner, options)
    for document in documents:
        kept = _bound_paragraphs(document, options.counts)
        if not options.keeps_long_tokens:  # else brackets and dots may be symbols
            kept = layouts.drop_ornaments(kept, options.counts)
        if kept.paragraphs:
            yield kept
        else:
            options.counts["empty_documents"] += 1


def _iter_chunks(survey: SourceSurvey, start: int, end: int | None, options: ReadOptions) -> Iterator[str]:
    counts, keeps = options.counts, options.keeps_long_tokens
    is_license: bool | None = None if start == 0 else False
    for data in iter_line_chunks(storage.iter_bytes(survey.source.path, start=start, end=end), counts):
        cleaned = cleaning.clean_bytes(data, counts, keeps_long_tokens=keeps)
        text, is_license = cleaning.drop_license(cleaned, counts, is_license=is_license)
        # With symbols, a line of digits is not a page number.
        yield text if keeps else cleaning.drop_page_lines(text, counts, heads=survey.heads)


def iter_line_chunks(blocks: Iterable[bytes], counts: Counter[str]) -> Iterator[bytes]:
    """Regroup blocks of bytes into blocks of whole lines; a line that is too long is split at a space."""
    rest = b""
    for block in blocks:
        data = rest + block
        cut = data.rfind(b"\n") + 1
        if not cut and b"\r" in data:  # line ends of old Macintoshes; the last one may be half of \r\n
            cut = data.rfind(b"\r", 0, -1) + 1
        if not cut and len(data) > MAX_LINE_BYTES:
            counts["cut_lines"] += 1
            cut = data.rfind(b" ") + 1
            if not cut:
                cut = len(data) - 1
                while cut > len(data) - 4 and data[cut] & 0xC0 == 0x80:  # inside a UTF-8 character
                    cut -= 1
            yield data[:cut] + b"\n"
        elif cut:
            yield data[:cut]
        rest = data[cut:]
    if rest:
        yield rest + b"\n"


def _bound_paragraphs(document: RawDocument, counts: Counter[str]) -> RawDocument:
    if not document.paragraphs or max(map(len, document.paragraphs)) <= MAX_PARAGRAPH_CHARACTERS:
        return document
    parts: list[str] = []
    for paragraph in document.paragraphs:
        while len(paragraph) > MAX_PARAGRAPH_CHARACTERS:
            cut = paragraph.rfind(" ", 0, MAX_PARAGRAPH_CHARACTERS) + 1 or MAX_PARAGRAPH_CHARACTERS
            parts.append(paragraph[:cut])
            paragraph = paragraph[cut:]
        parts.append(paragraph)
    cleaning.count(counts, "cut_lines", len(parts) - len(document.paragraphs))
    return RawDocument(parts, is_split=document.is_split)


def _iter_record_documents(
    texts: Iterable[str], layout: Layout, joiner: Joiner, options: ReadOptions
) -> Iterator[RawDocument]:
    """Make each record a document, whose blank lines do not end it."""
    for text in texts:
        kept = cleaning.clean_text(text, options.counts, keeps_long_tokens=options.keeps_long_tokens)
        cleaned = cleaning.drop_license(kept, options.counts)[0]
        if layout.name in ("sentences", "paragraphs"):
            yield RawDocument(layouts.split_lines(cleaned), is_split=layout.name == "sentences")
        else:
            yield from layouts.iter_raw_documents([cleaned + "\n"], layout, joiner)


class _RecordProblems(rows.Problems):
    """Count skipped records by the names in the manifest; the first record must be readable."""

    def __init__(self, path: str, counts: Counter[str], *, is_first: bool) -> None:
        super().__init__(path)
        self.counts, self.is_first = counts, is_first

    def skip(self, bad: rows.BadRow, *, line: int) -> None:
        if self.is_first and bad.reason in (rows.NOT_JSON, rows.NO_OBJECT):
            raise FileFormatError(
                f"{self.path}: line {line}: {bad.reason} ({bad.detail}); plain text needs .txt"
            )
        has_no_text = bad.reason == rows.NO_OBJECT or bad.reason.startswith("no '")
        name = "long_records" if bad.reason == rows.TOO_LONG else "broken_records"
        self.counts["records_without_text" if has_no_text else name] += 1


def _iter_texts(source: Source, start: int, end: int | None, options: ReadOptions) -> Iterator[str]:
    key = options.text_key
    wanted = rows.Wanted((key,), hint="name it with --text-key")
    problems = _RecordProblems(source.path, options.counts, is_first=start == 0)
    if source.format == "dataset":
        dataset = load_dataset(source)
        rows.check_columns(dataset.column_names, wanted, problems=problems)
        stop = len(dataset) if end is None else end
        blocks = (dataset[k : min(k + _DATASET_ROWS, stop)] for k in range(start, stop, _DATASET_ROWS))
        texts: Iterator[Any] = (text for block in blocks for text in block[key])
    else:
        records = rows.iter_rows(
            source.path,
            wanted=wanted,
            problems=problems,
            format=source.format,
            start=start,
            end=end,
            decode=lambda data: cleaning.decode_bytes(data, options.counts),
        )
        texts = (row.values[key] for row in records)
    for text in texts:
        problems.is_first = False
        if isinstance(text, str):
            yield text
        elif source.format == "jsonl":
            options.counts["records_without_text"] += 1
        elif text is not None:
            found = type(text).__name__
            raise FileFormatError(f"{source.name}: column {key!r} holds a {found}, not text; {wanted.hint}")


def load_dataset(source: Source) -> Any:
    """Load the dataset `NAME[@CONFIGURATION][:SPLIT]` of the hub; the default split is `train`."""
    try:
        import datasets  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        install = format_install_command("datasets")
        raise InputError(
            f"{source.name}: needs the extra `datasets`; in the clone, run: {install}"
        ) from error
    name, _, split = source.path.partition(":")
    name, _, configuration = name.partition("@")
    try:
        return datasets.load_dataset(name, configuration or None, split=split or "train")
    except Exception as error:  # errors of the library, the hub and the file system
        reason = one_line(error)[:300]
        raise InputError(f"{source.name}: cannot be loaded ({reason}); check name and split") from error
