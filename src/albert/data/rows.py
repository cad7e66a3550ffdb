"""Read the rows of CSV, TSV, JSON lines, Parquet and CoNLL files, one at a time, with their line numbers.

Invalid rows are skipped and counted in `Problems`. To add a format, add its reader to `FORMATS`.
"""

import csv
import difflib
import json
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain, groupby, islice, takewhile
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from albert.data import storage
from albert.data.storage import PathOrUrl
from albert.errors import FileFormatError, InputError, first_line
from albert.files import MAX_CSV_FIELD

MAX_LINE_BYTES = 1 << 25
MAX_RECORD_LINES = 10_000  # of one CSV record, or of one CoNLL sentence
# CSV records of this many lines are reported: two stray quotes may enclose many records.
LONG_RECORD_LINES = 100
# If more rows are skipped, the file is probably not what the user expects.
MAX_SKIPPED_SHARE = 0.1
TOO_LONG, NOT_JSON, NO_OBJECT = "line too long", "not valid JSON", "not a JSON object"
_MAX_QUOTED = 40  # characters
_STREAM_BYTES = 1 << 16
_BATCH_ROWS = 256
_BATCH_BYTES = 1 << 23  # of text, approximately, because rows may be tweets or whole books
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NOT_DECODED = re.compile("[\udc80-\udcff]")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

Item = TypeVar("Item")
T = TypeVar("T")
HasLine = TypeVar("HasLine", bound="Row | Line")


@dataclass(frozen=True, slots=True)
class Row:
    """The values of a row by column, its file, and its first line (or its row of Parquet), from 1."""

    values: Mapping[str, Any]
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """The required and the optional columns of a table.

    `hint` is the fix if one is missing; by default it names the settings in `keys`, by column.
    """

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    hint: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)


class BadRow(Exception):  # noqa: N818 - not an error yet: the row may be skipped and counted
    """A row to skip; rows with the same reason are counted together. `is_fatal` rejects the whole file."""

    def __init__(self, reason: str, detail: str = "", *, is_fatal: bool = False) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail, self.is_fatal = reason, detail, is_fatal


class Problems:
    """The skipped rows of a file, and warnings about rows that were kept.

    `unit` is the name of a row in messages: by default a line, or a row of Parquet. With `is_strict`, the
    first row that would be skipped raises an error, for files in which every row needs a prediction.
    """

    def __init__(self, path: Path | str, *, unit: str = "", is_strict: bool = False) -> None:
        self.path = path
        self.unit = unit or ("row" if ".parquet" in Path(path).suffixes else "line")
        self.is_strict = is_strict
        self.skipped: Counter[str] = Counter()
        self.noted: Counter[str] = Counter()
        self.columns: dict[str, None] = {}  # of the file, in order
        self._first: dict[str, str] = {}  # the first row with each reason

    @property
    def num_skipped(self) -> int:
        return self.skipped.total()

    def skip(self, bad: BadRow, *, line: int) -> None:
        """Count a row as skipped, or raise a FileFormatError."""
        if self.is_strict or bad.is_fatal:
            reason = f"{bad.reason} ({bad.detail})" if bad.detail else bad.reason
            raise FileFormatError(f"{self.path}: {self.unit} {line}: {reason}; fix it, or remove it")
        self.note(bad.reason, line=line, detail=bad.detail, counts=self.skipped)

    def note(self, reason: str, *, line: int, detail: str = "", counts: Counter[str] | None = None) -> None:
        """Count a warning about a row that is kept."""
        (self.noted if counts is None else counts)[reason] += 1
        self._first.setdefault(reason, f"{self.unit} {line}{': ' * bool(detail)}{detail}")

    def check(self, num_good: int) -> None:
        """Raise a FileFormatError if the file has no examples or too many rows were skipped."""
        if not num_good and not self.num_skipped:
            raise FileFormatError(f"{self.path}: contains no examples; check the path")
        total = num_good + self.num_skipped
        if self.num_skipped > MAX_SKIPPED_SHARE * total:
            reason = self.skipped.most_common(1)[0][0]
            raise FileFormatError(
                f"{self.path}: {self.num_skipped:,} of {total:,} {self.unit}s cannot be read, but at most "
                f"{MAX_SKIPPED_SHARE:.0%} may be skipped: {reason} (first in {self._first[reason]}); fix them"
            )

    def describe(self) -> list[str]:
        """Return a line for each reason, skipped rows first."""
        lines = []
        for counts in (self.skipped, self.noted):
            for reason, number in counts.most_common():
                what = f"{number:,} {self.unit}{'s' * (number > 1)}"
                found = f"skipped {what}:" if counts is self.skipped else f"{what} with"
                lines.append(f"{self.path}: {found} {reason} (first in {self._first[reason]})")
        return lines


def iter_good(rows: Iterable[HasLine], build: Callable[[HasLine], T], *, problems: Problems) -> Iterator[T]:
    """Yield `build(row)` for each row; rows for which it raises `BadRow` are skipped and counted."""
    for row in rows:
        try:
            built = build(row)
        except BadRow as bad:  # noqa: PERF203 - each row is checked by itself
            problems.skip(bad, line=row.line)
        else:
            yield built


def quote(text: str) -> str:
    """Format a text with quotes for an error message, shortened if it is long."""
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
    """Return the format in a file name, ignoring compression: `csv`, `tsv`, `jsonl`, …"""
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
    """Yield the rows of a path, a URL or an open stream; invalid rows are skipped and counted.

    `format` is by default the suffix of the file name. `start` and `end` are byte offsets of lines, or row
    groups of Parquet. `decode` decodes lines of JSON; by default those that are not UTF-8 are skipped.
    """
    format = format or (find_format(source) if isinstance(source, PathOrUrl) else "")
    if format not in FORMATS:
        raise InputError(f"{problems.path}: unsupported file format; supported are {', '.join(FORMATS)}")
    return FORMATS[format](_Input(source, wanted, problems, start, end, decode))


def check_columns(found: Sequence[str], wanted: Wanted, *, problems: Problems) -> None:
    """Record the columns of a table; raise a FileFormatError if a wanted one is missing or repeated."""
    if missing := [name for name in wanted.required if name not in found]:
        names = f"column{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}"
        columns = f"(columns: {', '.join(map(repr, found))})"
        hint = wanted.hint or _suggest_columns(missing, found, wanted)
        raise FileFormatError(f"{problems.path}: {names} not found {columns}; {hint}")
    twice = [name for name in (*wanted.required, *wanted.optional) if list(found).count(name) > 1]
    if twice:
        raise FileFormatError(f"{problems.path}: has column {twice[0]!r} twice; rename one of them")
    problems.columns |= dict.fromkeys(found)


def _suggest_columns(missing: Sequence[str], found: Sequence[str], wanted: Wanted) -> str:
    """Suggest settings for missing columns: the closest free column of each, or NAME."""
    free = [name for name in found if name not in wanted.required]
    close = [difflib.get_close_matches(name, free, n=1) for name in missing]
    settings = " ".join(
        shlex.quote(f"columns.{wanted.keys.get(name, name)}={names[0] if names else 'NAME'}")
        for name, names in zip(missing, close, strict=True)
    )
    return f"did you mean {settings}?" if all(close) else f"set {settings}"


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its line feed, and its line number."""

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
    """Yield the lines of a file, or of a stream as they arrive; lines that are too long are skipped.

    Only line feeds end a line, because Unicode's other line ends occur inside texts.
    """
    if isinstance(source, PathOrUrl):
        blocks = storage.iter_bytes(source, start=start, end=end)
    else:
        read = getattr(source, "read1", source.read)  # does not wait for a full block
        blocks = iter(lambda: read(_STREAM_BYTES), b"")
    number, rest, is_long = 0, b"", False
    for block in chain(blocks, [b"\n"]):  # the last line may have no line feed
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
    # Bytes that are not UTF-8 were decoded to lone surrogates.
    found = None if text.isascii() else _NOT_DECODED.search(text)
    if found is not None:
        detail = f"0x{ord(found[0]) - 0xDC00:02x} after {found.start()} characters; save it as UTF-8"
        raise BadRow("not UTF-8", detail)
    return text


def _read_first(lines: Iterator[Line], problems: Problems) -> str:
    first = next(lines, None)
    if first is None or not first.data:
        raise FileFormatError(f"{problems.path}: empty; the first line must have the names of the columns")
    try:
        return first.text
    except BadRow as bad:
        raise FileFormatError(f"{problems.path}: line {first.line}: {bad.reason} ({bad.detail})") from bad


def _by_column(fields: list[str], header: Sequence[str]) -> dict[str, str]:
    if len(fields) != len(header):
        raise BadRow("wrong number of fields", f"{len(fields)} for {len(header)} columns")
    return dict(zip(header, fields, strict=True))


def _iter_plain(table: _Input) -> Iterator[Row]:
    """Yield each line that is not blank as a text."""
    names = table.wanted.required
    if len(names) != 1:
        needed = ", ".join(names)
        raise InputError(f"{table.problems.path}: a line is one text, but {needed} are needed; give a table")
    table.problems.columns[names[0]] = None
    lines = (line for line in table.iter_lines() if line.data.strip())

    def build(line: Line) -> Row:
        return table.build_row(line.line, {names[0]: line.text})

    return iter_good(lines, build, problems=table.problems)


def read_tsv_header(lines: Iterator[Line], *, problems: Problems) -> list[str]:
    """Read the names of the columns from the first line."""
    return _read_first(lines, problems).split("\t")


def iter_tsv_rows(lines: Iterable[Line], *, header: Sequence[str], problems: Problems) -> Iterator[Row]:
    """Yield the rows of tab-separated lines, in which quotes have no meaning."""

    def build(line: Line) -> Row:
        return Row(_by_column(line.text.split("\t"), header), str(problems.path), line.line)

    return iter_good((line for line in lines if line.data not in (b"", b"\r")), build, problems=problems)


def _iter_tsv(table: _Input) -> Iterator[Row]:
    """Remove quotes around whole fields, because pandas, Python and spreadsheets write TSV like CSV."""
    lines = table.iter_lines()
    header = [_unquote(name) for name in read_tsv_header(lines, problems=table.problems)]
    check_columns(header, table.wanted, problems=table.problems)
    for row in iter_tsv_rows(lines, header=header, problems=table.problems):
        values = {name: _unquote(field) for name, field in row.values.items()}
        if changed := [name for name in values if values[name] != row.values[name]]:
            detail = f"{quote(values[changed[0]])} in column {changed[0]!r}"
            table.problems.note("quotes around a field, which are removed", line=row.line, detail=detail)
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
    """Yield the records of a CSV file with the number of their first line.

    After a quote that is never closed, `csv.reader` reads all following lines as one text. So the length of
    records is bounded, and of an invalid one only the first line is lost: reading continues with the second.
    """
    taken: list[Line] = []  # of the current record
    returned: list[Line] = []  # of an invalid record, to be read again

    def feed() -> Iterator[str]:
        while (line := returned.pop() if returned else next(lines, None)) is not None:
            taken.append(line)
            if len(taken) > MAX_RECORD_LINES:
                raise csv.Error("unexpected end of data")  # the message of csv at the end of a file
            # A line end inside quotes is part of the text, in which answers have offsets.
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
                bad = BadRow("a quote that is never closed", "close or double it")
            problems.skip(bad, line=taken[0].line)
            returned.extend(reversed(taken[1:]))
            reader = csv.reader(feed(), delimiter=delimiter, strict=True)
            continue
        if len(taken) >= LONG_RECORD_LINES:
            reason = "a text of very many lines, perhaps because a quote is missing"
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
            except UnicodeEncodeError as error:  # JSON can escape a lone surrogate, which UTF-8 cannot encode
                surrogate = ord(str(error.object)[error.start])
                raise BadRow("a lone surrogate", f"\\u{surrogate:04x}; fix the escape") from error
        return table.build_row(line.line, record)

    filled = (line for line in stripped if line.data)
    return _iter_checked(table, iter_good(filled, build, problems=table.problems))


def _iter_checked(table: _Input, rows: Iterable[Row]) -> Iterator[Row]:
    """Check a table without a header: the first row must have all columns, later ones are skipped."""
    wanted, problems = table.wanted, table.problems
    for number, row in enumerate(rows):
        if number == 0 and table.start == 0:
            check_columns(list(row.values), wanted, problems=problems)
        # Of later rows only the wanted columns are recorded, because there may be any number of others.
        problems.columns |= {name: None for name in wanted.optional if name in row.values}
        missing = [name for name in wanted.required if name not in row.values]
        if missing:
            problems.skip(BadRow(f"no {missing[0]!r}", f"it has {', '.join(row.values)}"), line=row.line)
        else:
            yield row


def _iter_conll(table: _Input) -> Iterator[Row]:
    """Yield a sentence per block of lines, whose first field is the word and last field the label."""

    def has_word(line: Line) -> bool:
        # Lines of any white space are blank.
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
    """Drop comments at the start of a block; a line with # as a word has the form of the others."""

    def form(line: Line) -> tuple[bool, int]:
        return "\t" in line.raw, len(_split_fields(line.raw))

    marked = list(takewhile(lambda line: line.data.startswith(b"# "), block))
    others = block[len(marked) :]
    forms = set(map(form, others or marked))
    comments = [line for line in marked if form(line) not in forms]
    for line in comments:
        problems.note("a comment, which is ignored", line=line.line, detail=quote(line.raw))
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
    # Only tabs and spaces separate fields: other spaces occur inside words, as in 10\u00a0000.
    if "\t" in text:
        return text.rstrip("\t").split("\t")
    return [field for field in text.strip(" \t\r").split(" ") if field]


@contextmanager
def open_parquet(path: PathOrUrl) -> Iterator[Any]:
    """Open a Parquet file; a compressed one is unpacked to a temporary file, because it must be seekable."""
    import pyarrow as pa  # imported here, because loading a model does not need it
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
        reason = first_line(error)
        raise FileFormatError(f"{path}: not a complete Parquet file ({reason}); download it again") from error


def _iter_parquet(table: _Input) -> Iterator[Row]:
    if not isinstance(table.source, PathOrUrl):
        raise InputError(f"{table.problems.path}: Parquet cannot be read from a stream; give the file's path")
    with open_parquet(table.source) as file:
        found = file.schema_arrow.names
        check_columns(found, table.wanted, problems=table.problems)
        names = [name for name in (*table.wanted.required, *table.wanted.optional) if name in found]
        groups = range(table.start, file.num_row_groups if table.end is None else table.end)
        line = 1 + sum(file.metadata.row_group(group).num_rows for group in range(table.start))
        # Bound the memory by the row group with the longest average row.
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
    """Group items; a group ends with the item whose weight makes its total reach one of the limits."""
    group: list[Item] = []
    weights = [0] * len(limits)
    for item in items:
        group.append(item)
        is_full = False
        for index, (weigh, limit) in enumerate(limits):  # a plain loop, because it runs for every sentence
            weights[index] += weigh(item)
            is_full = is_full or weights[index] >= limit
        if is_full:
            yield group
            group, weights = [], [0] * len(limits)
    if group:
        yield group
