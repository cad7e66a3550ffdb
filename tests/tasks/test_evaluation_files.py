"""The official files of GLUE and SQuAD, byte by byte."""

import numpy as np
import pytest

from albert.errors import InputError
from albert.files import read_json
from albert.tasks.catalogue import find_task
from albert.tasks.evaluation_files import write_glue_file, write_squad_files
from albert.tasks.examples import SpanExample, TextExample
from albert.tasks.kinds.span_answers import FoundSpan, SpanAnswer
from albert.tasks.kinds.spans import SpanKind

TEXTS = [TextExample(str(place), "a text") for place in range(3)]


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
    path = write_glue_file(tmp_path, rows, examples=TEXTS, task=find_task(task), split=split)
    assert path == tmp_path / name
    assert path.read_bytes() == f"index\tprediction\n{content}".encode()
    assert [each.name for each in tmp_path.iterdir()] == [name]


EXAMPLES = [SpanExample(name, "Who?", "the old man \ud800") for name in ("a", "b", "c")]
ANSWERS = [
    SpanAnswer((FoundSpan("old man", 4, 11, 2.0), FoundSpan("man \ud800", 8, 13, 2.0)), -1.0),
    SpanAnswer((FoundSpan("man", 8, 11, 1.0),), 1.0),
    SpanAnswer((), 0.0),
]


def test_three_files_hold_all_there_is_to_tell(tmp_path):
    kind = SpanKind(has_impossible=True, threshold=0.5)
    (tmp_path / "other.txt").write_text("stays")
    paths = write_squad_files(tmp_path, ANSWERS, examples=EXAMPLES, kind=kind)
    assert {path.name for path in paths} == {
        "predictions.json", "nbest_predictions.json", "null_odds.json",
    }  # fmt: skip
    assert read_json(tmp_path / "predictions.json") == {"a": "old man", "b": "", "c": ""}
    assert read_json(tmp_path / "null_odds.json") == {"a": -1.0, "b": 1.0, "c": 0.0}
    best = read_json(tmp_path / "nbest_predictions.json")
    assert best["a"] == [
        {"text": "old man", "probability": 0.5, "score": 2.0, "start": 4, "end": 11},
        {"text": "man \ud800", "probability": 0.5, "score": 2.0, "start": 8, "end": 13},
    ]
    assert best["c"] == [{"text": "", "probability": 1.0, "score": 0.0, "start": 0, "end": 0}]
    assert (tmp_path / "other.txt").exists()


def test_without_impossible_questions_all_are_answered_and_there_are_no_odds(tmp_path):
    folder = tmp_path / "new"
    write_squad_files(folder, ANSWERS, examples=EXAMPLES, kind=SpanKind(threshold=-9.0))
    assert read_json(folder / "predictions.json") == {"a": "old man", "b": "man", "c": ""}
    assert sorted(path.name for path in folder.iterdir()) == ["nbest_predictions.json", "predictions.json"]


def test_two_questions_of_one_id_are_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(InputError, match="two questions have the id 'a'"):
        write_squad_files(tmp_path / "new", ANSWERS[:2], examples=EXAMPLES[:1] * 2, kind=SpanKind())
    assert not (tmp_path / "new").exists()
