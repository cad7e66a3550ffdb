"""The table of tasks: GLUE's order of labels, the published lengths, and where files are looked for."""

import pytest

from albert.errors import FileFormatError, InputError
from albert.tasks.catalogue import TASKS, find_split, find_task


def test_all_published_tasks_are_there():
    assert set(TASKS) == {
        "cola", "sst-2", "mrpc", "qqp", "sts-b", "mnli", "qnli", "rte", "wnli", "ax",
        "squad-1.1", "squad-2.0", "race",
    }  # fmt: skip
    assert find_task("Diagnostic") is TASKS["ax"]
    assert find_task("SST-2") is TASKS["sst-2"]


def test_labels_are_in_the_order_of_glue():
    named = {name: task.label_names for name, task in TASKS.items() if task.labels}
    assert named == {
        "cola": ("unacceptable", "acceptable"),
        "sst-2": ("negative", "positive"),
        "mrpc": ("not_equivalent", "equivalent"),
        "qqp": ("not_duplicate", "duplicate"),
        "mnli": ("entailment", "neutral", "contradiction"),
        "qnli": ("entailment", "not_entailment"),
        "rte": ("entailment", "not_entailment"),
        "wnli": ("not_entailment", "entailment"),
        "ax": ("entailment", "neutral", "contradiction"),
    }
    for task in TASKS.values():
        assert task.labels is None or len(task.labels.names) == len(task.label_names)


def test_every_test_of_glue_has_the_name_of_its_submission():
    for task in TASKS.values():
        tests = {split for split in task.files if split.startswith("test")}
        assert set(task.submissions) == (tests if task.kind == "texts" else set())


def test_lengths_are_those_of_the_papers_table_14():
    assert {name: task.max_length for name, task in TASKS.items() if task.max_length != 512} == {
        "squad-1.1": 384
    }


def test_a_split_is_found_in_the_tasks_folder_or_above_it(tmp_path):
    (tmp_path / "glue" / "RTE").mkdir(parents=True)
    path = tmp_path / "glue" / "RTE" / "dev.tsv"
    path.touch()
    for folder in (tmp_path, tmp_path / "glue", tmp_path / "glue" / "RTE"):
        assert find_split(find_task("rte"), folder, split="dev").samefile(path)


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="no task 'sst2'; did you mean sst-2?"):
        find_task("sst2")
    with pytest.raises(InputError, match="rte has no split 'valid' but train, dev, test"):
        find_split(find_task("rte"), tmp_path, split="valid")
    with pytest.raises(FileFormatError, match="RTE/dev.tsv: not there, .* give the folder that has RTE/"):
        find_split(find_task("rte"), tmp_path, split="dev")
