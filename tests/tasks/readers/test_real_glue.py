"""Every GLUE file of the real data: as many examples as the file has rows, counted another way."""

from collections import Counter

import pytest

from albert.tasks.catalogue import TASKS, find_task
from albert.tasks.encoding.sequence import iter_encoded_texts
from albert.tasks.readers.published import read_split

GLUE = [task for task in TASKS.values() if task.kind == "texts"]
# Of the official files; for the reduced ones, of the cut.
ROWS = {
    "cola": {"train": 8551, "dev": 1043, "test": 1063},
    "sst-2": {"train": 67349, "dev": 872, "test": 1821},
    "mrpc": {"train": 3668, "dev": 408, "test": 1725},
    "qqp": {"train": 9000, "dev": 1000},
    "sts-b": {"train": 5749, "dev": 1500, "test": 1379},
    "mnli": {"train": 7815, "dev": 1000},
    "qnli": {"train": 3963, "dev": 500},
    "rte": {"train": 2490, "dev": 277, "test": 3000},
    "wnli": {"train": 635, "dev": 71, "test": 146},
    "ax": {"test": 1104},
}


def find_files(folder, task) -> dict[str, str]:
    return {
        split: name for split, name in task.files.items() if (folder / "glue" / task.folder / name).exists()
    }


def test_all_files_of_the_data_are_known(real_glue):
    files = {str(path.relative_to(real_glue / "glue")) for path in (real_glue / "glue").rglob("*.tsv")}
    known = {f"{task.folder}/{name}" for task in GLUE for name in find_files(real_glue, task).values()}
    assert known == files
    assert {task.name: set(find_files(real_glue, task)) for task in GLUE} == {
        name: set(rows) for name, rows in ROWS.items()
    }


@pytest.mark.parametrize("task", GLUE, ids=lambda task: task.name)
def test_every_row_is_an_example_and_every_field_is_whole(real_glue, task):
    for split, name in find_files(real_glue, task).items():
        lines = (real_glue / "glue" / task.folder / name).read_bytes().rstrip(b"\n").split(b"\n")
        if split not in task.headless:
            lines = lines[1:]
        found = read_split(task, real_glue, split=split)
        assert len(found.examples) == len(lines) == ROWS[task.name][split]
        assert found.problems.describe() == []
        for line, example in zip(lines, found.examples, strict=True):
            fields = line.decode().split("\t")
            assert example.first in fields
            assert example.second is None or example.second in fields
        has_labels = not split.startswith("test")
        assert all((example.label is not None) == has_labels for example in found.examples)


def test_labels_are_where_the_task_says(real_glue):
    counts = {
        name: Counter(
            example.label for example in read_split(find_task(name), real_glue, split="dev").examples
        )
        for name in ("cola", "mrpc", "rte", "mnli")
    }
    assert counts["cola"] == {1: 721, 0: 322}
    assert counts["mrpc"] == {1: 279, 0: 129}
    assert counts["rte"] == {0: 146, 1: 131}
    assert set(counts["mnli"]) == {0, 1, 2}
    scores = [example.label for example in read_split(find_task("sts-b"), real_glue, split="train").examples]
    assert (min(scores), max(scores)) == (0.0, 5.0)


def test_pairs_of_the_data_fit_and_cuts_are_counted(real_glue, published):
    examples = read_split(find_task("rte"), real_glue, split="dev").examples
    encoded = list(iter_encoded_texts(examples, tokenizer=published, max_length=128))
    assert max(len(each.sequence.ids) for each in encoded) == 128
    assert sum(each.num_cut > 0 for each in encoded) == 35
    whole = list(iter_encoded_texts(examples, tokenizer=published, max_length=512))
    assert not any(each.num_cut for each in whole)
