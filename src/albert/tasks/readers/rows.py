"""A table as CSV, TSV, JSONL or Parquet comes in; its rows go out one at a time, as values by column."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from albert.data.decompress import OPENERS
from albert.data.remote import Place, to_name
from albert.data.sources import Source
from albert.data.tables import open_parquet
from albert.errors import FileFormatError, InputError
from albert.files import MAX_CSV_FIELD
from albert.tasks.problems import BadRow, Problems, iter_good, quote
from albert.tasks.readers.conll import iter_sentences
from albert.tasks.readers.csv_records import Record, iter_records
from albert.tasks.readers.lines import Line, check_decoded, iter_lines

_BATCH_ROWS = 256
_HALVES = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Row:
    """The values of one row by column, and the line at which it begins."""

    line: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The columns that a table must have, and those that are read where it has them."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


def find_format(place: Place) -> str:
    """What a file's name promises, a compression left aside: `csv`, `tsv`, `jsonl`, …"""
    suffixes = [suffix for suffix in to_name(place).suffixes if suffix not in OPENERS]
    return suffixes[-1].removeprefix(".").lower() if suffixes else ""


def iter_rows(
    source: Place | BinaryIO, *, wanted: Wanted, problems: Problems, format: str | None = None
) -> Iterator[Row]:
    """The rows of a table; `format` is that of a stream, or of a file whose name does not tell.

    Refused: a kind of file that is not read, and a table without one of the wanted columns. Rows that are
    broken are counted and left out.
    """
    format = format or (find_format(source) if isinstance(source, Place) else "")
    if format not in FORMATS:
        raise InputError(
            f"{problems.path}: a kind of file that is not read; albert reads {', '.join(FORMATS)}"
        )
    return FORMATS[format](source, wanted, problems)


def iter_fields(lines: Iterable[Line], *, header: Sequence[str], problems: Problems) -> Iterator[Row]:
    """The rows of tab-separated lines, in which quotes are plain characters; blank lines are none."""

    def build(line: Line) -> Row:
        return Row(line.line, _by_column(check_decoded(line.text).split("\t"), header))

    return iter_good((line for line in lines if line.text), build, problems=problems)


def read_header(lines: Iterator[Line], *, problems: Problems) -> list[str]:
    """The names of the columns in the first line."""
    first = next(lines, None)
    if first is None:
        raise FileFormatError(f"{problems.path}: empty; its first line should name the columns")
    return _check_text(first, problems).split("\t")


def check_columns(
    found: Sequence[str],
    wanted: Wanted,
    *,
    path: object,
    cure: str = "name the column that is meant, as in columns.text=review",
) -> None:
    """Refuse a table that lacks a column, or has one of the wanted twice."""
    missing = [name for name in wanted.required if name not in found]
    if missing:
        raise FileFormatError(
            f"{path}: no column {', '.join(map(repr, missing))} but {', '.join(map(repr, found))}; {cure}"
        )
    twice = [name for name in (*wanted.required, *wanted.optional) if list(found).count(name) > 1]
    if twice:
        raise FileFormatError(f"{path}: has the column {twice[0]!r} twice; name each column once")


def _find_columns(found: Sequence[str], wanted: Wanted, problems: Problems) -> None:
    check_columns(found, wanted, path=problems.path)
    problems.find_columns(found)


def _iter_tsv(source: Place | BinaryIO, wanted: Wanted, problems: Problems) -> Iterator[Row]:
    lines = iter_lines(source, problems=problems)
    header = [_unquote(name) for name in read_header(lines, problems=problems)]
    _find_columns(header, wanted, problems)
    for row in iter_fields(lines, header=header, problems=problems):
        yield _unquote_fields(row, problems)


def _unquote_fields(row: Row, problems: Problems) -> Row:
    """The row as a program meant it that writes TSV as it writes CSV: pandas, Python, a spreadsheet."""
    values = {name: _unquote(field) for name, field in row.values.items()}
    changed = next((name for name in values if values[name] != row.values[name]), None)
    if changed is None:
        return row
    problems.note(
        "a field in quotes, read without them",
        line=row.line,
        detail=f"{quote(values[changed])} in column {changed!r}",
    )
    return Row(row.line, values)


def _unquote(field: str) -> str:
    """A field without the quotes around all of it; others, such as those of a title, are its own."""
    inside = field[1:-1]
    is_quoted = len(field) > 1 and field[0] == field[-1] == '"' and '"' not in inside.replace('""', "")
    return inside.replace('""', '"') if is_quoted else field


def _iter_csv(source: Place | BinaryIO, wanted: Wanted, problems: Problems) -> Iterator[Row]:
    lines = iter_lines(source, problems=problems)
    first = next(lines, None)
    if first is None:
        raise FileFormatError(f"{problems.path}: empty; its first line should name the columns")
    delimiter = ";" if ";" in first.text and "," not in first.text else ","
    header = _read_csv_header(first, delimiter, problems)
    _find_columns(header, wanted, problems)
    records = iter_records(lines, delimiter=delimiter, problems=problems)
    yield from iter_good(records, lambda record: _build_csv_row(record, header), problems=problems)


def _read_csv_header(line: Line, delimiter: str, problems: Problems) -> list[str]:
    text = _check_text(line, problems)
    csv.field_size_limit(MAX_CSV_FIELD)
    try:
        return next(csv.reader([text], delimiter=delimiter), [])
    except csv.Error as error:  # a carriage return that no line feed follows
        raise FileFormatError(
            f"{problems.path}: its lines end in carriage returns alone, as old programs on a Mac write them; "
            "save it as CSV UTF-8, or turn them into line feeds (tr '\\r' '\\n')"
        ) from error


def _build_csv_row(record: Record, header: Sequence[str]) -> Row:
    return Row(record.line, _by_column([check_decoded(field) for field in record.fields], header))


def _iter_jsonl(source: Place | BinaryIO, wanted: Wanted, problems: Problems) -> Iterator[Row]:
    lines = (line for line in iter_lines(source, problems=problems) if line.text.strip())
    records = iter_good(lines, _parse_record, problems=problems)
    return _iter_checked(records, wanted, problems)


def _iter_conll(source: Place | BinaryIO, wanted: Wanted, problems: Problems) -> Iterator[Row]:
    sentences = iter_sentences(iter_lines(source, problems=problems), problems=problems)
    rows = (Row(sentence.line, sentence.columns) for sentence in sentences)
    return _iter_checked(rows, wanted, problems)


def _iter_plain(source: Place | BinaryIO, wanted: Wanted, problems: Problems) -> Iterator[Row]:
    """Lines that are texts and nothing else; blank ones are none."""
    if len(wanted.required) != 1:
        raise InputError(
            f"{problems.path}: a line is one text, and {', '.join(wanted.required)} are needed; give them as "
            "columns, in JSONL or CSV"
        )
    problems.find_columns(wanted.required)
    lines = (line for line in iter_lines(source, problems=problems) if line.text.strip())
    return iter_good(
        lines, lambda line: Row(line.line, {wanted.required[0]: check_decoded(line.text)}), problems=problems
    )


def _iter_checked(rows: Iterable[Row], wanted: Wanted, problems: Problems) -> Iterator[Row]:
    """The rows of a table without a header: the first must have all columns, a later one is left out."""
    for number, row in enumerate(rows):
        if number == 0:
            _find_columns(list(row.values), wanted, problems)
        # Of later rows only what is wanted: others may have names without end.
        problems.find_columns(name for name in wanted.optional if name in row.values)
        missing = [name for name in wanted.required if name not in row.values]
        if missing:
            problems.skip(BadRow(f"no {missing[0]!r}", f"it has {', '.join(row.values)}"), line=row.line)
        else:
            yield row


def _parse_record(line: Line) -> Row:
    try:
        record = json.loads(check_decoded(line.text))
    except (ValueError, RecursionError) as error:
        raise BadRow("not valid JSON", str(error)) from error
    if not isinstance(record, dict):
        raise BadRow("no JSON object", f"it is a {type(record).__name__}")
    if _HALVES.search(line.text):
        _check_halves(record)
    return Row(line.line, record)


def _check_halves(record: dict[str, Any]) -> None:
    """Refuse an escape that is half a character: JSON can spell it, and no file can hold it."""
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ord(str(error.object)[error.start])
        raise BadRow("half a character", f"\\u{half:04x} without its other half; mend the escape") from error


def _iter_parquet(source: Place | BinaryIO, wanted: Wanted, problems: Problems) -> Iterator[Row]:
    if not isinstance(source, Place):
        raise InputError(f"{problems.path}: Parquet cannot be read from a stream; give the file's path")
    with open_parquet(Source(str(source), str(source), "parquet")) as file:
        found = file.schema_arrow.names
        _find_columns(found, wanted, problems)
        names = [name for name in (*wanted.required, *wanted.optional) if name in found]
        line = 1
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=names):
            yield from _convert_batch(batch, line, problems)
            line += batch.num_rows


@dataclass(frozen=True, slots=True)
class _StoredRow:
    """A row of Parquet as it is stored: a batch of one."""

    line: int
    batch: pa.RecordBatch


def _convert_batch(batch: pa.RecordBatch, first: int, problems: Problems) -> Iterable[Row]:
    try:
        return [Row(line, values) for line, values in enumerate(batch.to_pylist(), start=first)]
    except (ValueError, OverflowError):  # of one row or more: each is judged by itself
        stored = (_StoredRow(first + place, batch.slice(place, 1)) for place in range(batch.num_rows))
        return iter_good(stored, _convert_row, problems=problems)


def _convert_row(row: _StoredRow) -> Row:
    try:
        return Row(row.line, row.batch.to_pylist()[0])
    except UnicodeDecodeError as error:
        check_decoded(error.object.decode("utf-8", "surrogateescape"))  # refuses it as in every format
        raise
    except (ValueError, OverflowError) as error:
        raise BadRow("a value that cannot be read", f"{error}; store it as a text") from error


RowReader = Callable[[Place | BinaryIO, Wanted, Problems], Iterator[Row]]
FORMATS: dict[str, RowReader] = {
    "csv": _iter_csv,
    "tsv": _iter_tsv,
    "jsonl": _iter_jsonl,
    "parquet": _iter_parquet,
    "conll": _iter_conll,
    "bio": _iter_conll,
    "txt": _iter_conll,
    "lines": _iter_plain,
}


def _by_column(fields: list[str], header: Sequence[str]) -> dict[str, str]:
    if len(fields) != len(header):
        raise BadRow("wrong number of fields", f"{len(fields)}, and {len(header)} columns")
    return dict(zip(header, fields, strict=True))


def _check_text(line: Line, problems: Problems) -> str:
    try:
        return check_decoded(line.text)
    except BadRow as bad:
        raise FileFormatError(f"{problems.path}: line {line.line}: {bad.reason} ({bad.detail})") from bad
