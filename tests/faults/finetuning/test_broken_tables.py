"""Tables that are cut, empty, or no tables: one line with the place and the hint."""

import shutil

from tests.faults.finetuning.asking import assign
from tests.tasks.formats import write_table
from tests.tasks.tables import draw_rows, write_tables


def test_broken_lines_are_counted_and_many_are_refused(refuse, tmp_path):
    """What is broken in which format: tests/data/test_rows.py."""
    data = write_table(tmp_path / "table.csv", draw_rows("classification", 40, seed=1))
    lines = data.read_text().splitlines()
    data.write_text("\n".join([*lines[:3], "the dog", *lines[3:]]))
    said = "table.csv: left out 1 line: wrong number of fields (first in line 4"
    assert any(said in problem for problem in assign("classification", data).problems)
    data.write_text("\n".join([*lines[:3], *["the dog"] * 6, *lines[3:]]))
    assert "table.csv: 6 of 46 lines cannot be read" in refuse("classification", data)


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
