"""Rows are the same in every format and have their line numbers; bad rows are skipped and counted."""

import csv
import gzip
import io
import json
import lzma

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.data.rows import Problems, Wanted, iter_groups, iter_rows
from albert.errors import AlbertError, InputError
from tests.conftest import rejects

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
def test_line_ends_marks_and_compression_do_not_matter(tmp_path, name, change):
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
def test_any_text_is_read_from_csv(rows):
    problems = Problems("-")
    content = to_csv(rows, end="\r\n")  # with these, Python quotes both line ends in a cell
    found = iter_rows(io.BytesIO(content), wanted=WANTED, problems=problems, format="csv")
    assert [row.values for row in found] == rows
    assert not problems.num_skipped


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_inside_a_cell_are_not_changed(tmp_path, end):
    """Other line ends would move the answers after them."""
    path = tmp_path / "table.csv"
    rows = [{"text": f"one{end}two{end}{end}three", "label": "1"}, {"text": "four", "label": "0"}]
    path.write_bytes(to_csv(rows, end=end))
    assert [row.values for row in read(path)[0]] == rows


def test_a_stray_quote_affects_only_its_own_line(tmp_path):
    path = tmp_path / "table.csv"
    lines = [f"text {number},{number % 2}" for number in range(1000)]
    lines[2] = '"5 inches" wide,1'
    lines[500] = '"never closed,0'
    lines[800] = 'he said "no" again,1'
    path.write_text("\n".join(["text,label", *lines]), encoding="utf-8")
    rows, problems = read(path)
    assert [row.line for row in rows] == [line for line in range(2, 1002) if line not in (4, 502)]
    assert problems.num_skipped == 2
    assert "line 4" in problems.describe()[0]


def test_a_text_over_many_lines_is_reported(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("text,label\n" + '"opened,1\n' + "a,0\n" * 200 + 'closed",1\n', encoding="utf-8")
    (row,), problems = read(path)
    assert row.line == 2
    (message,) = problems.describe()
    assert "line 2" in message
    assert "line 203" in message


def test_semicolons_as_spreadsheets_write_them(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(to_csv(ROWS, delimiter=";"))
    assert [row.values for row in read(path)[0]] == ROWS


def test_quotes_around_fields_of_tsv_are_removed_and_counted(tmp_path):
    path = tmp_path / "table.tsv"
    rows = [{"text": 'He said "no"', "label": "0"}, {"text": "", "label": "1"}]
    path.write_bytes(to_csv(rows, delimiter="\t"))
    found, problems = read(path)
    assert [row.values for row in found] == rows
    (message,) = problems.describe()
    assert "line 2: 'He said \"no\"'" in message
    path.write_text('"text"\t"label"\n"all"\t"0"\n""\t"1"\n', encoding="utf-8")
    found, problems = read(path)
    assert [tuple(row.values.values()) for row in found] == [("all", "0"), ("", "1")]
    assert problems.noted.total() == 2


@pytest.mark.parametrize("text", ['"', '"""', '"Yes" or "no"', 'say "no"', '"no', 'a ""b""'])
def test_other_quotes_in_tsv_are_text(tmp_path, text):
    path = tmp_path / "table.tsv"
    path.write_bytes(to_tsv([{"text": text, "label": "0"}]))
    (row,), problems = read(path)
    assert (row.values["text"], problems.describe()) == (text, [])


@pytest.mark.parametrize(
    ("name", "bad", "detail"),
    [
        ("csv", b"torn", "2 columns"),
        ("csv", b'a "quoted" text,"closed" early', "expected after"),
        ("csv", b'"never closed,1', "quote"),
        ("csv", b"caf\xe9,1", "0xe9"),
        ("tsv", b"one\ttwo\tthree", "2 columns"),
        ("tsv", b"caf\xe9\t1", "0xe9"),
        ("jsonl", b'{"text": "torn', "Unterminated string"),
        ("jsonl", b'["text", "label"]', "list"),
        ("jsonl", b'{"label": "1"}', "'text'"),
        ("jsonl", b'{"text": "caf\xe9", "label": "1"}', "0xe9"),
        ("jsonl", b'{"text": "a \\ud83d", "label": "1"}', "\\ud83d"),
    ],
)
def test_a_bad_row_is_skipped_and_counted_with_its_line(tmp_path, name, bad, detail):
    path = tmp_path / f"table.{name}"
    content = WRITERS[name](ROWS)
    path.write_bytes(content + bad + b"\n" + content.splitlines(keepends=True)[-1])
    rows, problems = read(path)
    assert [row.values for row in rows] == [*ROWS, ROWS[-1]]
    assert problems.num_skipped == 1
    (message,) = problems.describe()
    assert f"line {len(content.splitlines()) + 1}: " in message
    assert detail in message


@pytest.mark.parametrize(
    ("name", "content", "values"),
    [
        ("table.csv", b"", ()),
        (
            "table.csv",
            b"review,stars\n",
            ("columns 'text', 'label' not", "'review', 'stars'", "columns.text=NAME columns.label=NAME"),
        ),
        ("table.csv", b"text,labels\n", ("column 'label' not", "did you mean columns.label=labels?")),
        ("table.jsonl", b'{"review": 1}\n', ("'text', 'label'", "'review'")),
        ("table.parquet", b"PAR1 no more", ()),
        ("table.csv.gz", b"no gzip", ()),
        ("table.xlsx", b"", ("csv, tsv, jsonl",)),
    ],
)
def test_a_table_that_cannot_be_read_is_rejected(tmp_path, name, content, values):
    path = tmp_path / name
    path.write_bytes(content)
    with rejects(AlbertError, f"{path}: ", *values):
        read(path)


@pytest.mark.parametrize("name", ["csv", "tsv", "jsonl"])
def test_a_stream_is_read_row_by_row(name):

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


def test_lines_may_be_texts(tmp_path):
    (tmp_path / "notes").write_bytes(b'a, "b"\tc\r\n\n \n{"d"\n\xff\n')
    problems = Problems("notes")
    rows = iter_rows(tmp_path / "notes", wanted=Wanted(("text",)), problems=problems, format="lines")
    assert [(row.line, row.values["text"]) for row in rows] == [(1, 'a, "b"\tc'), (4, '{"d"')]
    assert problems.num_skipped == 1
    with rejects(InputError, "text, label"):
        iter_rows(tmp_path / "notes", wanted=WANTED, problems=problems, format="lines")


def test_a_group_ends_at_the_first_limit() -> None:
    groups = list(iter_groups(["a", "b", "c", "dddd", "e"], (lambda _: 1, 3), (len, 4)))
    assert groups == [["a", "b", "c"], ["dddd"], ["e"]]
