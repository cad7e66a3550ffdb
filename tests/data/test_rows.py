"""Rows are the same in every format, numbered by line; broken ones are skipped and counted."""

import csv
import gzip
import io
import json
import lzma
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.data.rows import BadRow, Problems, Wanted, iter_good, iter_groups, iter_rows
from albert.errors import FileFormatError, InputError

ROWS = [{"text": 'He said "no", and left.', "label": "1"}, {"text": "Ünïcode – “quoted”; £ 5", "label": "0"}]


WANTED = Wanted(("text", "label"))


def to_csv(rows, *, delimiter: str = ",", end: str = "\n") -> bytes:
    sink = io.StringIO()
    writer = csv.DictWriter(sink, list(rows[0]), delimiter=delimiter, lineterminator=end)
    writer.writeheader()
    writer.writerows(rows)
    return sink.getvalue().encode()


def to_tsv(rows) -> bytes:
    lines = [rows[0], *(row.values() for row in rows)]
    return "".join("\t".join(line) + "\n" for line in lines).encode()


def to_jsonl(rows) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def to_parquet(rows) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=1)
    return sink.getvalue()


WRITERS = {"csv": to_csv, "tsv": to_tsv, "jsonl": to_jsonl, "parquet": to_parquet}


def read(path, wanted: Wanted = WANTED):
    problems = Problems(path)
    return list(iter_rows(path, wanted=wanted, problems=problems)), problems


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_rows(tmp_path, name):
    path = tmp_path / f"table.{name}"
    path.write_bytes(WRITERS[name](ROWS))
    rows, problems = read(path)
    assert [row.values for row in rows] == ROWS
    assert [row.line for row in rows] == ([1, 2] if name in ("jsonl", "parquet") else [2, 3])
    assert problems.describe() == []


@pytest.mark.parametrize("name", ["csv", "tsv", "jsonl"])
@pytest.mark.parametrize("change", ["crlf", "mark", "gz", "xz", "no last end", "blank lines"])
def test_what_files_of_the_world_look_like(tmp_path, name, change):
    content = WRITERS[name](ROWS)
    changed = {
        "crlf": lambda: content.replace(b"\n", b"\r\n"),
        "mark": lambda: b"\xef\xbb\xbf" + content,
        "gz": lambda: gzip.compress(content),
        "xz": lambda: lzma.compress(content),
        "no last end": lambda: content.rstrip(b"\n"),
        "blank lines": lambda: content + b"\n\n",
    }[change]()
    path = tmp_path / (f"table.{name}.{change}" if change in ("gz", "xz") else f"table.{name}")
    path.write_bytes(changed)
    assert [row.values for row in read(path)[0]] == ROWS


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@settings(deadline=None)
@given(st.lists(st.fixed_dictionaries({"text": cells, "label": cells}), min_size=1))
def test_csv_brings_back_any_text(rows):
    problems = Problems("-")
    content = to_csv(rows, end="\r\n")  # with these ends, Python quotes either of them in a cell
    found = iter_rows(io.BytesIO(content), wanted=WANTED, problems=problems, format="csv")
    assert [row.values for row in found] == rows
    assert not problems.num_skipped


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_ends_of_lines_inside_a_cell_stay_as_they_are(tmp_path, end):
    """Else the places of answers behind them would be too large."""
    path = tmp_path / "table.csv"
    rows = [{"text": f"one{end}two{end}{end}three", "label": "1"}, {"text": "four", "label": "0"}]
    path.write_bytes(to_csv(rows, end=end))
    assert [row.values for row in read(path)[0]] == rows


def test_a_stray_quote_costs_its_own_line_and_no_other(tmp_path):
    path = tmp_path / "table.csv"
    lines = [f"text {number},{number % 2}" for number in range(1000)]
    lines[2] = '"5 inches" wide,1'
    lines[500] = '"never closed,0'
    lines[800] = 'he said "no" again,1'
    path.write_text("\n".join(["text,label", *lines]), encoding="utf-8")
    rows, problems = read(path)
    assert [row.line for row in rows] == [line for line in range(2, 1002) if line not in (4, 502)]
    assert problems.skipped == {"not valid CSV": 2}
    assert "(first in line 4: " in problems.describe()[0]


def test_a_text_over_very_many_lines_is_told_of(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("text,label\n" + '"opened,1\n' + "a,0\n" * 200 + 'closed",1\n', encoding="utf-8")
    (row,), problems = read(path)
    assert row.line == 2
    (told,) = problems.describe()
    assert "because a quote is missing (first in line 2: it ends in line 203)" in told


def test_semicolons_as_spreadsheets_write_them(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(to_csv(ROWS, delimiter=";"))
    assert [row.values for row in read(path)[0]] == ROWS


def test_tsv_as_programs_write_it_is_read_without_their_quotes(tmp_path):
    path = tmp_path / "table.tsv"
    rows = [{"text": 'He said "no"', "label": "0"}, {"text": "", "label": "1"}]
    path.write_bytes(to_csv(rows, delimiter="\t"))
    found, problems = read(path)
    assert [row.values for row in found] == rows
    assert problems.describe() == [
        f"{path}: 1 line with quotes around a field, which are removed "
        "(first in line 2: 'He said \"no\"' in column 'text')"
    ]
    path.write_text('"text"\t"label"\n"all"\t"0"\n""\t"1"\n', encoding="utf-8")
    found, problems = read(path)
    assert [tuple(row.values.values()) for row in found] == [("all", "0"), ("", "1")]
    assert problems.noted.total() == 2


@pytest.mark.parametrize("text", ['"', '"""', '"Yes" or "no"', 'say "no"', '"no', 'a ""b""'])
def test_quotes_that_are_not_around_all_of_a_field_of_tsv_are_its_own(tmp_path, text):
    path = tmp_path / "table.tsv"
    path.write_bytes(to_tsv([{"text": text, "label": "0"}]))
    (row,), problems = read(path)
    assert (row.values["text"], problems.describe()) == (text, [])


@pytest.mark.parametrize(
    ("name", "bad", "reason", "detail"),
    [
        ("csv", b"torn", "wrong number of fields", "1 for 2 columns"),
        ("csv", b'a "quoted" text,"closed" early', "not valid CSV", "expected after"),
        ("csv", b'"never closed,1', "a quote that is never closed", "close or double it"),
        ("csv", b"caf\xe9,1", "not UTF-8", "0xe9 after 3 characters"),
        ("tsv", b"one\ttwo\tthree", "wrong number of fields", "3 for 2 columns"),
        ("tsv", b"caf\xe9\t1", "not UTF-8", "0xe9 after 3 characters"),
        ("jsonl", b'{"text": "torn', "not valid JSON", "Unterminated string"),
        ("jsonl", b'["text", "label"]', "not a JSON object", "it is a list"),
        ("jsonl", b'{"label": "1"}', "no 'text'", "it has label"),
        ("jsonl", b'{"text": "caf\xe9", "label": "1"}', "not UTF-8", "0xe9 after 13"),
        ("jsonl", b"[" * 100_000, "not valid JSON", "recursion"),
        (
            "jsonl",
            b'{"text": "a \\ud83d", "label": "1"}',
            "a lone surrogate",
            "\\ud83d; fix the escape",
        ),
    ],
)
def test_a_broken_row_is_counted_with_its_line(tmp_path, name, bad, reason, detail):
    path = tmp_path / f"table.{name}"
    content = WRITERS[name](ROWS)
    path.write_bytes(content + bad + b"\n" + content.splitlines(keepends=True)[-1])
    rows, problems = read(path)
    assert [row.values for row in rows] == [*ROWS, ROWS[-1]]
    assert problems.skipped == {reason: 1}
    line = content.count(b"\n") + 1
    (told,) = problems.describe()
    assert f"skipped 1 line: {reason} (first in line {line}: " in told
    assert detail in told


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("table.csv", b"", "table.csv: empty; the first line must have the names of the columns"),
        ("table.csv", b"review,stars\n", "column 'text', 'label' not found (columns: 'review', 'stars'); na"),
        ("table.tsv", b"review\tstars\n", "column 'text', 'label' not found (columns: 'review', 'stars')"),
        ("table.jsonl", b'{"review": 1}\n', "column 'text', 'label' not found (columns: 'review')"),
        ("table.parquet", b"PAR1 no more", "table.parquet: not a complete Parquet file"),
        ("table.csv.gz", b"no gzip", "table.csv.gz: its compressed data is damaged"),
        ("table.parquet", b"", "table.parquet: not a complete Parquet file"),
        ("table.xlsx", b"", "table.xlsx: unsupported file format; supported are csv, tsv, jsonl"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_read_is_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises((FileFormatError, InputError)) as caught:
        read(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["csv", "tsv", "jsonl"])
def test_a_stream_is_read_no_further_than_asked(name):
    """Input of any size: after the first rows only some of the lines have been taken."""

    class Endless(io.RawIOBase):
        taken = 0

        def __init__(self) -> None:
            super().__init__()
            self.content = WRITERS[name](ROWS)
            self.last = self.content.splitlines(keepends=True)[-1]

        def read(self, size: int = -1) -> bytes:
            self.taken += 1
            return self.content if self.taken == 1 else self.last

    stream = Endless()
    rows = iter_rows(stream, wanted=WANTED, problems=Problems("stdin"), format=name)
    for _ in range(10):
        assert next(rows).values["label"] in "01"
    assert stream.taken < 15


def test_a_line_may_be_a_text_and_nothing_else(tmp_path):
    (tmp_path / "notes").write_bytes(b'a, "b"\tc\r\n\n \n{"d"\n\xff\n')
    problems = Problems("notes")
    rows = iter_rows(tmp_path / "notes", wanted=Wanted(("text",)), problems=problems, format="lines")
    assert [(row.line, row.values["text"]) for row in rows] == [(1, 'a, "b"\tc'), (4, '{"d"')]
    assert problems.num_skipped == 1
    with pytest.raises(InputError, match="a line is one text, but text, label are needed"):
        iter_rows(tmp_path / "notes", wanted=WANTED, problems=problems, format="lines")


def test_whichever_limit_is_reached_first_ends_it() -> None:
    groups = list(iter_groups(["a", "b", "c", "dddd", "e"], (lambda _: 1, 3), (len, 4)))
    assert groups == [["a", "b", "c"], ["dddd"], ["e"]]


@dataclass(frozen=True)
class Numbered:
    line: int
    value: int


def build(item: Numbered) -> int:
    if item.value < 0:
        raise BadRow("negative", f"{item.value}", is_fatal=item.value < -100)
    return item.value


def items(*values: int) -> list[Numbered]:
    return [Numbered(line, value) for line, value in enumerate(values, start=1)]


def test_a_bad_row_is_left_out_counted_and_told_with_the_first_of_its_kind():
    problems = Problems("data.csv")
    assert list(iter_good(items(1, -2, 3, -4), build, problems=problems)) == [1, 3]
    assert problems.num_skipped == 2
    assert problems.describe() == ["data.csv: skipped 2 lines: negative (first in line 2: -2)"]


def test_a_strict_reader_and_a_mistake_in_the_whole_file_are_refused_at_once():
    with pytest.raises(FileFormatError, match="^data.csv: line 2: negative .-2.; fix it, or remove it$"):
        list(iter_good(items(1, -2), build, problems=Problems("data.csv", is_strict=True)))
    with pytest.raises(FileFormatError, match="^data.parquet: row 1: negative .-200."):
        list(iter_good(items(-200), build, problems=Problems("data.parquet")))


@pytest.mark.parametrize(
    ("num_good", "num_bad", "is_refused"), [(90, 10, False), (89, 11, True), (0, 0, True)]
)
def test_at_most_a_tenth_may_be_left_out(num_good, num_bad, is_refused):
    problems = Problems("data.csv")
    list(iter_good(items(*[-1] * num_bad), build, problems=problems))
    if is_refused:
        with pytest.raises(FileFormatError, match="^data.csv: (11 of 100 lines|contains no examples)"):
            problems.check(num_good)
    else:
        problems.check(num_good)
