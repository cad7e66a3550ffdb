"""The files that GLUE's server takes, byte by byte."""

import numpy as np
import pytest

from albert.errors import InputError
from albert.tasks.catalogue import find_task
from albert.tasks.examples import TextExample
from albert.tasks.evaluation_files import write_glue_file

EXAMPLES = [TextExample(str(place), "a text") for place in range(3)]


@pytest.mark.parametrize(
    ("task", "split", "answers", "name", "content"),
    [
        ("sst-2", "test", [[1, 0], [0, 1], [0, 2]], "SST-2.tsv", "0\t0\n1\t1\n2\t1\n"),
        (
            "mnli",
            "test-mismatched",
            [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
            "MNLI-mm.tsv",
            "0\tentailment\n1\tneutral\n2\tcontradiction\n",
        ),
        ("ax", "test", [[0, 0, 1]] * 3, "AX.tsv", "0\tcontradiction\n1\tcontradiction\n2\tcontradiction\n"),
        ("qnli", "test", [[0, 1], [1, 0], [0, 1]], "QNLI.tsv",
         "0\tnot_entailment\n1\tentailment\n2\tnot_entailment\n"),
        ("wnli", "test", [[0, 1], [1, 0], [0, 1]], "WNLI.tsv", "0\t1\n1\t0\n2\t1\n"),
        ("sts-b", "test", [[-0.2], [2.34567], [5.5]], "STS-B.tsv", "0\t0.000\n1\t2.346\n2\t5.000\n"),
    ],
)  # fmt: skip
def test_answers_are_spelled_as_in_the_data(task, split, answers, name, content, tmp_path):
    rows = [np.array(answer, dtype=np.float64) for answer in answers]
    path = write_glue_file(tmp_path, rows, examples=EXAMPLES, task=find_task(task), split=split)
    assert path == tmp_path / name
    assert path.read_bytes() == f"index\tprediction\n{content}".encode()
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_split_that_is_not_handed_in_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"split 'dev' are not handed in; of its splits: test$"):
        write_glue_file(tmp_path, [np.zeros(2)] * 3, examples=EXAMPLES, task=find_task("rte"), split="dev")
    assert not list(tmp_path.iterdir())
