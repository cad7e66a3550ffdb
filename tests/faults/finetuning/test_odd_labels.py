"""Labels, numbers and ids that tell nothing apart are refused; those that look odd are told."""

from pathlib import Path
from typing import Any

from albert.tasks.assignment import open_assignment
from tests.faults.finetuning.asking import NO_ANSWER, NOWHERE, assign
from tests.tasks.formats import write_table
from tests.tasks.tables import draw_rows, write_rows


def test_labels_that_tell_nothing_apart_are_refused(refuse, tmp_path):
    def write(name: str, task: str, **values: Any) -> Path:
        return write_rows(tmp_path / name, [{**row, **values} for row in draw_rows(task, 20, seed=1)])

    one = refuse("classification", write("one.jsonl", "classification", label="x"))
    assert "one.jsonl: has only the label 'x', and at least 2 are needed; check the column" in one
    none = refuse("multilabel", write("none.jsonl", "multilabel", label=[]))
    assert "none.jsonl: has no label, and at least 1 are needed; check the column" in none
    same = refuse("regression", write("same.jsonl", "regression", label=3))
    assert "same.jsonl: every number of its 20 examples is 3.0, and at least 2 different ones" in same
    silent = refuse("questions", write("silent.jsonl", "questions", answers=NO_ANSWER))
    assert "silent.jsonl: none of its 20 questions has an answer; check the column of the answers" in silent
    good = write("good.jsonl", "regression", label=1)
    rows = draw_rows("regression", 20, seed=1)
    error = refuse("regression", write_rows(tmp_path / "train.jsonl", rows), "--dev", good)
    assert "good.jsonl: every number of its 20 examples is 1.0" in error  # the best step would be the first


def test_answers_that_are_all_misplaced_are_refused(finetune, tmp_path):
    rows = [{**row, "answers": NOWHERE} for row in draw_rows("questions", 20, seed=1)]
    outcome = finetune("questions", write_rows(tmp_path / "table.jsonl", rows))
    assert outcome.code == 2
    assert "none of the 18 examples of questions has an answer that can be learned" in outcome.err
    assert not (tmp_path / "run").exists()


def test_labels_that_differ_in_capitals_are_told_and_spaces_are_none(tmp_path):
    """' no ' is no label of its own in any format; 'NO' may be, and is taken for one with a word about it."""
    rows = draw_rows("classification", 40, seed=1)
    rows[0]["label"], rows[1]["label"] = f" {rows[0]['label']} ", rows[1]["label"].upper()
    found = assign("classification", write_rows(tmp_path / "table.csv", rows))
    upper, lower = rows[1]["label"], rows[1]["label"].lower()
    assert sorted(found.facts.labels) == sorted(("no", "yes", upper))
    said = f"'{upper}' and '{lower}' are two labels, and differ only in capitals or spaces"
    assert any(said in problem for problem in found.problems)


def test_a_label_without_an_example_left_to_learn_it_is_told(tmp_path):
    rows = draw_rows("classification", 20, seed=1)
    rows.append({"text": "  ", "label": "rare"})
    found = assign("classification", write_rows(tmp_path / "table.jsonl", rows))
    assert any("no example is left to learn the label 'rare' from" in problem for problem in found.problems)


def test_an_empty_cell_is_no_label_called_nan(tmp_path):
    """As programs write a missing number into a column of numbers."""
    rows = [{"text": "the dog", "label": float(place % 2)} for place in range(20)]
    rows[4]["label"] = float("nan")
    found = assign("classification", write_table(tmp_path / "table.parquet", rows))
    assert found.facts.labels == ("0", "1")
    assert any("no label in column 'label' (first in row 5: it holds nan)" in each for each in found.problems)


def test_an_id_that_occurs_twice_is_told(tmp_path):
    rows = [{**row, "id": str(place % 10)} for place, row in enumerate(draw_rows("questions", 20, seed=1))]
    data = write_rows(tmp_path / "table.jsonl", rows)
    found = assign("questions", data, "jsonl", "columns.id=id")
    assert any(
        "10 lines with an id that occurs before (first in line 11: '0')" in each for each in found.problems
    )
    assert assign("questions", data).problems == found.problems[1:]  # ids that are not asked for are nobody's


def test_large_numbers_are_told_and_the_table_of_training_asked_again(tmp_path):
    rows = [{**row, "label": 1e5 * row["label"]} for row in draw_rows("regression", 20, seed=1)]
    data = write_rows(tmp_path / "table.jsonl", rows)
    found = open_assignment("regression", data, dev=data, columns={}, dev_share=0.1)
    assert any("numbers reach 350,000; a model learns a few units best" in each for each in found.problems)
    assert any("is learned from as well" in each for each in found.problems)
