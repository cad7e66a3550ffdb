"""Tables that are cut, empty, or no tables: one line with the place and the cure."""

import shutil

import pytest

from tests.faults.finetuning.asking import assign
from tests.tasks.formats import write_table
from tests.tasks.tables import draw_rows, write_tables

NOT_UTF8 = "bytes that are not UTF-8 (first in line 4: 0xe9 behind "
BROKEN = [
    ("table.jsonl", b'{"text": "the dog', "not valid JSON (first in line 4: Unterminated string"),
    ("table.jsonl", b'["the dog", "no"]', "no JSON object (first in line 4: it is a list)"),
    ("table.jsonl", b'{"text": "the dog"}', "no 'label' (first in line 4: it has text)"),
    ("table.jsonl", b'{"text": "caf\xe9", "label": "no"}', NOT_UTF8 + "13 characters; save it as UTF-8)"),
    ("table.jsonl", b'{"text": "a \\ud83d", "label": "no"}', "half a character (first in line 4: \\ud83d"),
    ("table.csv", b"the dog", "wrong number of fields (first in line 4: 1, and 2 columns)"),
    ("table.csv", b'a "b" c,"no"x', "not valid CSV (first in line 4"),
    ("table.csv", b"caf\xe9,no", NOT_UTF8 + "3 characters"),
    ("table.tsv", b"the\tdog\tno", "wrong number of fields (first in line 4: 3, and 2 columns)"),
    ("table.tsv", b"caf\xe9\tno", NOT_UTF8 + "3 characters"),
]


@pytest.mark.parametrize(("name", "line", "said"), BROKEN)
def test_a_broken_line_is_counted_and_many_are_refused(refuse, tmp_path, name, line, said):
    data = write_table(tmp_path / name, draw_rows("classification", 40, seed=1))
    lines = data.read_bytes().splitlines()
    data.write_bytes(b"\n".join([*lines[:3], line, *lines[3:]]) + b"\n")
    assert any(
        f"{name}: left out 1 line: {said}" in problem for problem in assign("classification", data).problems
    )
    data.write_bytes(b"\n".join([*lines[:3], *[line] * 6, *lines[3:]]) + b"\n")
    assert f"{name}: 6 of 46 lines cannot be read, and at most 10% may be left out: " in refuse(
        "classification", data
    )


def test_a_quote_that_is_never_closed_is_found_at_its_line_and_costs_no_other(tmp_path):
    data = write_table(tmp_path / "table.csv", draw_rows("classification", 20, seed=1))
    lines = data.read_text().splitlines()
    data.write_text("\n".join([*lines[:5], '"the dog,no', *lines[5:]]))
    problems = assign("classification", data).problems
    assert any(
        "left out 1 line: a quote that is opened and never closed (first in line 6" in each
        for each in problems
    )


@pytest.mark.parametrize("keep", [0, 40, -40])
def test_a_cut_parquet_file_is_refused(refuse, tmp_path, keep):
    data = write_table(tmp_path / "table.parquet", draw_rows("classification", 20, seed=1))
    data.write_bytes(data.read_bytes()[:keep])
    assert "table.parquet: no whole Parquet file (" in refuse("classification", data)


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl", "parquet"])
def test_an_empty_table_is_refused(refuse, tmp_path, format):
    said = {
        "jsonl": "holds no examples; check the path",
        "parquet": "no whole Parquet file (Parquet file size",
    }
    (tmp_path / f"table.{format}").touch()
    expected = said.get(format, "empty; its first line should name the columns")
    assert f"table.{format}: {expected}" in refuse("classification", tmp_path / f"table.{format}")


def test_what_is_no_table_is_refused(refuse, tmp_path):
    data = write_tables(tmp_path / "data", "classification", num_train=20)
    (tmp_path / "folder" / "train.csv").mkdir(parents=True)
    train, folder = data / "train.jsonl", tmp_path / "folder"
    task = "classification"
    assert "nowhere.csv: does not exist; give a table, or a folder with" in refuse(
        task, tmp_path / "nowhere.csv"
    )
    assert "train.csv: is a folder, and a table is needed; give a file" in refuse(task, folder)
    assert f"{folder}: is a folder, and a table is needed; give a file with --dev" in refuse(
        task, train, "--dev", folder
    )
    assert "nowhere.csv: does not exist; give a table with --dev" in refuse(
        task, train, "--dev", tmp_path / "nowhere.csv"
    )
    (folder / "train.csv").rmdir()
    assert "folder: has no train.csv, train.tsv, train.jsonl" in refuse(task, folder)
    assert "table.xlsx: a kind of file that is not read; albert reads csv, tsv" in refuse(
        task, shutil.copy(train, tmp_path / "table.xlsx")
    )
    shutil.copy(train, data / "train.csv")
    assert "train.csv and train.jsonl: which one?" in refuse(task, data)
