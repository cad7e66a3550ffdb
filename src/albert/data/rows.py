"""Read the rows of CSV, TSV, JSON lines, Parquet and CoNLL files, one at a time, with their line numbers.

A broken row is skipped and counted in `Problems`. A new format is a row in `FORMATS`, at the end.
"""

import csv
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, groupby, islice, takewhile
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from albert.data import storage
from albert.data.storage import PathOrUrl
from albert.errors import FileFormatError, InputError, first_line
from albert.files import MAX_CSV_FIELD

MAX_LINE_BYTES = 1 << 25
MAX_RECORD_LINES = 10_000  # of one CSV record, or of one CoNLL sentence
# A CSV record of at least this many lines gets a warning: two stray quotes may enclose many records.
LONG_RECORD_LINES = 100
# If more rows than this are skipped, the file is probably not what the user thinks it is.
MAX_SKIPPED_SHARE = 0.1
TOO_LONG, NOT_JSON, NO_OBJECT = "a line that is too long", "not valid JSON", "no JSON object"
_MAX_QUOTED = 40  # characters
_STREAM_BYTES = 1 << 16
_BATCH_ROWS = 256
_BATCH_BYTES = 1 << 23  # of text, about: rows may be tweets or whole books
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NOT_DECODED = re.compile("[\udc80-\udcff]")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

Item = TypeVar("Item")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """The values of one row by column, its file, and its first line (of Parquet, the row), counted from 1."""

    values: Mapping[str, Any]
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """The columns that a table must have, and those that are read if it has them."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    hint: str = "name the column that is meant, as in columns.text=review"


class BadRow(Exception):  # noqa: N818 - not an error yet: the row may be skipped and counted
    """A row to be skipped, for a reason that other rows share; `is_fatal` if more than this row is wrong."""

    def __init__(self, reason: str, detail: str = "", *, is_fatal: bool = False) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail, self.is_fatal = reason, detail, is_fatal


class Problems:
    """Skipped rows of one file, and warnings about rows that were kept.

    `unit` is what is counted, by default lines, or the rows of Parquet. `is_strict` raises at the first row
    that would be skipped, for files whose every row needs an answer.
    """

    def __init__(self, path: Path | str, *, unit: str = "", is_strict: bool = False) -> None:
        self.path = path
        self.unit = unit or ("row" if ".parquet" in Path(path).suffixes else "line")
        self.is_strict = is_strict
        self.skipped: Counter[str] = Counter()
        self.noted: Counter[str] = Counter()
        self.columns: dict[str, None] = {}  # that the file has, in their order
        self._first: dict[str, str] = {}  # where a reason occurred first

    @property
    def num_skipped(self) -> int:
        return self.skipped.total()

    def skip(self, bad: BadRow, *, line: int) -> None:
        """Count a row as skipped, or raise `FileFormatError`."""
        if self.is_strict or bad.is_fatal:
            reason = f"{bad.reason} ({bad.detail})" if bad.detail else bad.reason
            raise FileFormatError(f"{self.path}: {self.unit} {line}: {reason}; fix it, or remove it")
        self.note(bad.reason, line=line, detail=bad.detail, counts=self.skipped)

    def note(self, reason: str, *, line: int, detail: str = "", counts: Counter[str] | None = None) -> None:
        """Count a warning about a row that is kept."""
        (self.noted if counts is None else counts)[reason] += 1
        self._first.setdefault(reason, f"{self.unit} {line}{': ' * bool(detail)}{detail}")

    def check(self, num_good: int) -> None:
        """Raise `FileFormatError` if the file has no examples, or too many rows were skipped."""
        if not num_good and not self.num_skipped:
            raise FileFormatError(f"{self.path}: holds no examples; check the path")
        total = num_good + self.num_skipped
        if self.num_skipped > MAX_SKIPPED_SHARE * total:
            reason = self.skipped.most_common(1)[0][0]
            raise FileFormatError(
                f"{self.path}: {self.num_skipped:,} of {total:,} {self.unit}s cannot be read, and at most "
                f"{MAX_SKIPPED_SHARE:.0%} may be left out: {reason} (first in {self._first[reason]})"
            )

    def describe(self) -> list[str]:
        """Return a line for each reason, skipped rows first."""
        lines = []
        for counts in (self.skipped, self.noted):
            for reason, number in counts.most_common():
                what = f"{number:,} {self.unit}{'s' * (number > 1)}"
                found = f"left out {what}:" if counts is self.skipped else f"{what} with"
                lines.append(f"{self.path}: {found} {reason} (first in {self._first[reason]})")
        return lines


class _HasLine(Protocol):
    @property
    def line(self) -> int: ...


HasLine = TypeVar("HasLine", bound=_HasLine)


def iter_good(rows: Iterable[HasLine], build: Callable[[HasLine], T], *, problems: Problems) -> Iterator[T]:
    """Yield `build(row)` for each row; one for which it raises `BadRow` is skipped and counted."""
    for row in rows:
        try:
            built = build(row)
        except BadRow as bad:  # noqa: PERF203 - each row is checked by itself
            problems.skip(bad, line=row.line)
        else:
            yield built


def quote(text: str) -> str:
    """Quote a text for an error message, shortened if it is long."""
    return repr(text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 1] + "…")


@dataclass(frozen=True, slots=True)
class _Input:
    source: PathOrUrl | BinaryIO
    wanted: Wanted
    problems: Problems
    start: int
    end: int | None
    decode: Callable[[bytes], str] | None

    def iter_lines(self) -> Iterator["Line"]:
        return iter_lines(self.source, problems=self.problems, start=self.start, end=self.end)

    def build_row(self, line: int, values: Mapping[str, Any]) -> Row:
        return Row(values, str(self.problems.path), line)


def find_format(path: PathOrUrl) -> str:
    """Return the format that a file name ends in, ignoring compression: `csv`, `tsv`, `jsonl`, …"""
    suffixes = [suffix for suffix in storage.to_name(path).suffixes if suffix not in storage.OPENERS]
    return suffixes[-1].removeprefix(".").lower() if suffixes else ""


def iter_rows(
    source: PathOrUrl | BinaryIO,
    *,
    wanted: Wanted,
    problems: Problems,
    format: str | None = None,
    start: int = 0,
    end: int | None = None,
    decode: Callable[[bytes], str] | None = None,
) -> Iterator[Row]:
    """Yield the rows of a path, a URL or an open stream; broken rows are skipped and counted.

    `format` is by default the suffix of the file name. `start` and `end` are bytes at the start of a line, or
    row groups of Parquet. `decode` decodes lines of JSON; by default those that are not UTF-8 are skipped.
    """
    format = format or (find_format(source) if isinstance(source, PathOrUrl) else "")
    if format not in FORMATS:
        known = ", ".join(FORMATS)
        raise InputError(f"{problems.path}: a kind of file that is not read; albert reads {known}")
    return FORMATS[format](_Input(source, wanted, problems, start, end, decode))


def check_columns(found: Sequence[str], wanted: Wanted, *, problems: Problems) -> None:
    """Record the columns of a table; raise `FileFormatError` if a wanted one is missing or repeated."""
    if missing := ", ".join(repr(name) for name in wanted.required if name not in found):
        columns = ", ".join(map(repr, found))
        raise FileFormatError(f"{problems.path}: no column {missing} but {columns}; {wanted.hint}")
    twice = [name for name in (*wanted.required, *wanted.optional) if list(found).count(name) > 1]
    if twice:
        raise FileFormatError(f"{problems.path}: has the column {twice[0]!r} twice; name each column once")
    problems.columns |= dict.fromkeys(found)


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its line feed, and its number."""

    line: int
    data: bytes

    @property
    def raw(self) -> str:
        return self.data.removesuffix(b"\r").decode("utf-8", "surrogateescape")

    @property
    def text(self) -> str:
        """The decoded line; raises `BadRow` if it is not UTF-8."""
        return _check_decoded(self.raw)


def iter_lines(
    source: PathOrUrl | BinaryIO, *, problems: Problems, start: int = 0, end: int | None = None
) -> Iterator[Line]:
    """Yield the lines of a file, or of a stream as they arrive; those that are too long are skipped.

    Only line feeds end a line: Unicode has other line ends, which occur inside texts.
    """
    if isinstance(source, PathOrUrl):
        blocks = storage.iter_bytes(source, start=start, end=end)
    else:
        read = getattr(source, "read1", source.read)  # what has arrived, without waiting for a full block
        blocks = iter(lambda: read(_STREAM_BYTES), b"")
    number, rest, is_long = 0, b"", False
    for block in chain(blocks, [b"\n"]):  # the last line may have no end
        *whole, rest = (rest + block).split(b"\n")
        for data in whole:
            number += 1
            if is_long or len(data) > MAX_LINE_BYTES:
                problems.skip(BadRow(TOO_LONG, f"over {MAX_LINE_BYTES:,} bytes"), line=number)
                is_long = False
            else:
                yield Line(number, data.removeprefix(_BYTE_ORDER_MARK) if number == 1 else data)
        if len(rest) > MAX_LINE_BYTES:
            rest, is_long = b"", True


def _check_decoded(text: str) -> str:
    # Bytes that are not UTF-8 are lone surrogates.
    found = None if text.isascii() else _NOT_DECODED.search(text)
    if found is not None:
        detail = f"0x{ord(found[0]) - 0xDC00:02x} behind {found.start()} characters; save it as UTF-8"
        raise BadRow("bytes that are not UTF-8", detail)
    return text


def _read_first(lines: Iterator[Line], problems: Problems) -> str:
    first = next(lines, None)
    if first is None or not first.data:
        raise FileFormatError(f"{problems.path}: empty; its first line should name the columns")
    try:
        return first.text
    except BadRow as bad:
        raise FileFormatError(f"{problems.path}: line {first.line}: {bad.reason} ({bad.detail})") from bad


def _by_column(fields: list[str], header: Sequence[str]) -> dict[str, str]:
    if len(fields) != len(header):
        raise BadRow("wrong number of fields", f"{len(fields)}, and {len(header)} columns")
    return dict(zip(header, fields, strict=True))


def _iter_plain(table: _Input) -> Iterator[Row]:
    """Each line that is not blank is a text."""
    names = table.wanted.required
    if len(names) != 1:
        needed = ", ".join(names)
        raise InputError(f"{table.problems.path}: a line is one text, and {needed} are needed; give a table")
    table.problems.columns[names[0]] = None
    lines = (line for line in table.iter_lines() if line.data.strip())

    def build(line: Line) -> Row:
        return table.build_row(line.line, {names[0]: line.text})

    return iter_good(lines, build, problems=table.problems)


def read_tsv_header(lines: Iterator[Line], *, problems: Problems) -> list[str]:
    """Return the names of the columns in the first line."""
    return _read_first(lines, problems).split("\t")


def iter_tsv_rows(lines: Iterable[Line], *, header: Sequence[str], problems: Problems) -> Iterator[Row]:
    """Yield the rows of tab-separated lines, in which quotes are plain characters."""

    def build(line: Line) -> Row:
        return Row(_by_column(line.text.split("\t"), header), str(problems.path), line.line)

    return iter_good((line for line in lines if line.data not in (b"", b"\r")), build, problems=problems)


def _iter_tsv(table: _Input) -> Iterator[Row]:
    """Remove the quotes around whole fields: pandas, Python and spreadsheets write TSV as they write CSV."""
    lines = table.iter_lines()
    header = [_unquote(name) for name in read_tsv_header(lines, problems=table.problems)]
    check_columns(header, table.wanted, problems=table.problems)
    for row in iter_tsv_rows(lines, header=header, problems=table.problems):
        values = {name: _unquote(field) for name, field in row.values.items()}
        if changed := [name for name in values if values[name] != row.values[name]]:
            detail = f"{quote(values[changed[0]])} in column {changed[0]!r}"
            table.problems.note("a field in quotes, read without them", line=row.line, detail=detail)
        yield table.build_row(row.line, values)


def _unquote(field: str) -> str:
    inside = field[1:-1]
    is_quoted = len(field) > 1 and field[0] == field[-1] == '"' and '"' not in inside.replace('""', "")
    return inside.replace('""', '"') if is_quoted else field


def _iter_csv(table: _Input) -> Iterator[Row]:
    csv.field_size_limit(MAX_CSV_FIELD)
    problems, lines = table.problems, table.iter_lines()
    first = _read_first(lines, problems)
    delimiter = ";" if ";" in first and "," not in first else ","
    header = next(csv.reader([first], delimiter=delimiter), [])
    check_columns(header, table.wanted, problems=problems)
    for line, fields in _iter_records(lines, delimiter, problems):
        try:
            values = _by_column([_check_decoded(field) for field in fields], header)
        except BadRow as bad:  # noqa: PERF203 - each row is checked by itself
            problems.skip(bad, line=line)
        else:
            yield table.build_row(line, values)


def _iter_records(
    lines: Iterator[Line], delimiter: str, problems: Problems
) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a CSV file, with their first lines.

    After a quote that is never closed, `csv.reader` takes all following lines for one text. So records are
    bounded, and if one is broken, only its first line is lost and reading continues with the second.
    """
    taken: list[Line] = []  # of the current record
    given_back: list[Line] = []

    def feed() -> Iterator[str]:
        while (line := given_back.pop() if given_back else next(lines, None)) is not None:
            taken.append(line)
            if len(taken) > MAX_RECORD_LINES:
                raise csv.Error("unexpected end of data")  # as csv itself says at the end of the file
            # Inside quotes the end of a line is part of the text: answers are found by their offset.
            yield line.data.decode("utf-8", "surrogateescape") + "\n"

    reader = csv.reader(feed(), delimiter=delimiter, strict=True)
    while True:
        taken.clear()
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            bad = BadRow("not valid CSV", str(error))
            if "end of data" in str(error):
                bad = BadRow("a quote that is opened and never closed", "double or close it")
            problems.skip(bad, line=taken[0].line)
            given_back.extend(reversed(taken[1:]))
            reader = csv.reader(feed(), delimiter=delimiter, strict=True)
            continue
        if len(taken) >= LONG_RECORD_LINES:
            reason = "a text over very many lines; is a quote missing?"
            problems.note(reason, line=taken[0].line, detail=f"it ends in line {taken[-1].line}")
        if fields:
            yield taken[0].line, fields


def _iter_jsonl(table: _Input) -> Iterator[Row]:
    blank = b" \t\r" + _BYTE_ORDER_MARK
    stripped = (Line(line.line, line.data.strip(blank)) for line in table.iter_lines())

    def build(line: Line) -> Row:
        try:
            record = json.loads(line.text if table.decode is None else table.decode(line.data))
        except (ValueError, RecursionError) as error:
            raise BadRow(NOT_JSON, str(error)) from error
        if not isinstance(record, dict):
            raise BadRow(NO_OBJECT, f"it is a {type(record).__name__}")
        if table.decode is None and _SURROGATE.search(line.data):
            try:
                json.dumps(record, ensure_ascii=False).encode()
            except UnicodeEncodeError as error:  # JSON can spell half a character, and UTF-8 cannot
                half = ord(str(error.object)[error.start])
                detail = f"\\u{half:04x} without its other half; fix the escape"
                raise BadRow("half a character", detail) from error
        return table.build_row(line.line, record)

    filled = (line for line in stripped if line.data)
    return _iter_checked(table, iter_good(filled, build, problems=table.problems))


def _iter_checked(table: _Input, rows: Iterable[Row]) -> Iterator[Row]:
    """Check a table without a header: the first row must have all columns, later ones are skipped."""
    wanted, problems = table.wanted, table.problems
    for number, row in enumerate(rows):
        if number == 0 and table.start == 0:
            check_columns(list(row.values), wanted, problems=problems)
        # Of later rows only the wanted columns are recorded: others may have any number of names.
        problems.columns |= {name: None for name in wanted.optional if name in row.values}
        missing = [name for name in wanted.required if name not in row.values]
        if missing:
            problems.skip(BadRow(f"no {missing[0]!r}", f"it has {', '.join(row.values)}"), line=row.line)
        else:
            yield row


def _iter_conll(table: _Input) -> Iterator[Row]:
    """Yield a sentence for each block of lines: the first field of a line is the word, the last its label."""

    def has_word(line: Line) -> bool:
        # A line of white space looks blank, whichever space it is.
        return bool(line.raw.strip()) and not line.data.startswith(b"-DOCSTART-")

    def iter_sentences() -> Iterator[Row]:
        for is_filled, group in groupby(table.iter_lines(), has_word):
            if not is_filled:
                continue
            block = list(islice(group, MAX_RECORD_LINES + 1))
            if len(block) > MAX_RECORD_LINES:
                raise FileFormatError(
                    f"{table.problems.path}: line {block[0].line}: a sentence of more than "
                    f"{MAX_RECORD_LINES:,} lines; put a blank line between sentences"
                )
            lines = _drop_comments(block, table.problems)
            try:
                yield table.build_row(lines[0].line, _split_sentence(lines))
            except BadRow as bad:
                table.problems.skip(bad, line=lines[0].line)

    return _iter_checked(table, iter_sentences())


def _drop_comments(block: list[Line], problems: Problems) -> list[Line]:
    """Drop comments at the start of a block; if # is a word, its line has the form of the others."""

    def form(line: Line) -> tuple[bool, int]:
        return "\t" in line.raw, len(_split_fields(line.raw))

    marked = list(takewhile(lambda line: line.data.startswith(b"# "), block))
    others = block[len(marked) :]
    forms = set(map(form, others or marked))
    comments = [line for line in marked if form(line) not in forms]
    for line in comments:
        problems.note("a comment, which is passed over", line=line.line, detail=quote(line.raw))
    return [line for line in block if line not in comments]


def _split_sentence(lines: list[Line]) -> dict[str, list[str]]:
    fields = [_split_fields(line.text) for line in lines]
    words = [each[0] for each in fields]
    unlabeled = [line.line for line, each in zip(lines, fields, strict=True) if len(each) == 1]
    if len(unlabeled) == len(lines):
        return {"words": words}
    if unlabeled:
        raise BadRow("a word without a label", f"line {unlabeled[0]}")
    return {"words": words, "labels": [each[-1] for each in fields]}


def _split_fields(text: str) -> list[str]:
    # Only these are separators: Unicode has more spaces, which occur inside words, as in 10\u00a0000.
    if "\t" in text:
        return text.rstrip("\t").split("\t")
    return [field for field in text.strip(" \t\r").split(" ") if field]


@contextmanager
def open_parquet(path: PathOrUrl) -> Iterator[Any]:
    """Open a Parquet file; a compressed one is unpacked to a temporary file, since Parquet needs seeking."""
    import pyarrow as pa  # here: whoever loads a model imports this module, and needs no Parquet
    import pyarrow.parquet as pq

    try:
        with ExitStack() as stack:
            if storage.is_compressed(path):
                content: Any = stack.enter_context(tempfile.TemporaryFile())
                content.writelines(storage.iter_bytes(path))
            else:
                content = stack.enter_context(storage.open_binary(path))
            yield stack.enter_context(pq.ParquetFile(content, pre_buffer=False, buffer_size=1 << 20))
    except (pa.ArrowException, OSError) as error:
        raise FileFormatError(f"{path}: not a complete Parquet file ({first_line(error)})") from error


def _iter_parquet(table: _Input) -> Iterator[Row]:
    if not isinstance(table.source, PathOrUrl):
        raise InputError(f"{table.problems.path}: Parquet cannot be read from a stream; give the file's path")
    with open_parquet(table.source) as file:
        found = file.schema_arrow.names
        check_columns(found, table.wanted, problems=table.problems)
        names = [name for name in (*table.wanted.required, *table.wanted.optional) if name in found]
        groups = range(table.start, file.num_row_groups if table.end is None else table.end)
        line = 1 + sum(file.metadata.row_group(group).num_rows for group in range(table.start))
        # So many rows are held in memory, by the row group with the longest rows on average.
        sizes = (file.metadata.row_group(group) for group in groups)
        longest = max((each.total_byte_size // max(each.num_rows, 1) for each in sizes), default=0)
        num_rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(longest, 1)))
        for batch in file.iter_batches(batch_size=num_rows, row_groups=list(groups), columns=names):
            yield from (table.build_row(line + k, row) for k, row in enumerate(batch.to_pylist()))
            line += batch.num_rows


FORMATS: dict[str, Callable[[_Input], Iterator[Row]]] = {
    "csv": _iter_csv,
    "tsv": _iter_tsv,
    "jsonl": _iter_jsonl,
    "parquet": _iter_parquet,
    "conll": _iter_conll,
    "bio": _iter_conll,
    "txt": _iter_conll,
    "lines": _iter_plain,
}


def iter_groups(items: Iterable[Item], *limits: tuple[Callable[[Item], int], int]) -> Iterator[list[Item]]:
    """Group items; the item with which the weights of a group reach one of the limits is its last."""
    group: list[Item] = []
    weights = [0] * len(limits)
    for item in items:
        group.append(item)
        is_full = False
        for index, (weigh, limit) in enumerate(limits):  # a loop: this runs for every sentence of a corpus
            weights[index] += weigh(item)
            is_full = is_full or weights[index] >= limit
        if is_full:
            yield group
            group, weights = [], [0] * len(limits)
    if group:
        yield group
