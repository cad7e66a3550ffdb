"""The catalogue of tasks, and the official files of GLUE, SQuAD and RACE."""

import json
import re
from collections import Counter

import pytest

from albert.errors import FileFormatError, InputError
from albert.tasks.catalogue import PUBLISHED_TASKS, Split, find_task
from albert.tasks.classification import TextExample
from albert.tasks.multiple_choice import ChoiceExample, iter_encoded_choices
from albert.tasks.question_answering import Answer, SpanExample
from tests.real_data import unpack

GLUE = ("cola", "sst-2", "mrpc", "qqp", "sts-b", "mnli", "qnli", "rte", "wnli", "ax")


def test_labels_are_in_the_order_of_glue():
    labels = {name: task.config.labels for name, task in PUBLISHED_TASKS.items() if task.config.labels}
    assert labels == {
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
    for name, names in labels.items():
        assert len(PUBLISHED_TASKS[name].official_labels) == len(names)


def test_a_split_is_found_in_the_folder_of_the_task_or_above_it(tmp_path):
    path = tmp_path / "glue" / "RTE" / "dev.tsv"
    path.parent.mkdir(parents=True)
    path.touch()
    for folder in (tmp_path, tmp_path / "glue", tmp_path / "glue" / "RTE"):
        name, found = find_task("rte").find_split(folder, None)
        assert name == "dev"
        assert found.samefile(path)
    with pytest.raises(InputError, match="'valid'.* train, dev, test"):
        find_task("rte").find_split(tmp_path, "valid")
    with pytest.raises(FileFormatError, match=r"RTE/train\.tsv"):
        find_task("rte").find_split(tmp_path, "train")


def read_glue(folder, name: str, split: str, content: str | bytes) -> Split:
    task = PUBLISHED_TASKS[name]
    path = folder / task.folder / task.files[split]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return task.read_split(folder, split)


MNLI = "index\tpromptID\tgenre\tsentence1_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
MNLI_ROW = "3\t5\tfiction\t( a )\tA.\tB.\tneutral\tcontradiction\n"


@pytest.mark.parametrize(
    ("name", "split", "content", "examples"),
    [
        (  # no header, and quotes are plain characters
            "cola", "dev", 'gj04\t1\t\tHe said "no.\ngj04\t0\t*\t"Him said" no.',
            [TextExample("0", 'He said "no.', None, 1), TextExample("1", '"Him said" no.', None, 0)],
        ),
        ("cola", "test", "index\tsentence\n7\tBill left.\n", [TextExample("7", "Bill left.")]),
        (  # fields are not stripped
            "sst-2", "train", 'sentence\tlabel\n"a ""good"" film \t1\nit \'s bad "\t0\n',
            [TextExample("0", '"a ""good"" film ', None, 1), TextExample("1", "it 's bad \"", None, 0)],
        ),
        (  # only line feeds end a line
            "sst-2", "dev", "sentence\tlabel\none\u2028two\x85three\x0bfour\t1\n",
            [TextExample("0", "one\u2028two\x85three\x0bfour", None, 1)],
        ),
        (  # a byte order mark
            "mrpc", "dev",
            "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t12\t34\tOne .\tTwo .\r\n",
            [TextExample("0", "One .", "Two .", 1)],
        ),
        *(
            ("mnli", split, MNLI + MNLI_ROW, [TextExample("3", "A.", "B.", 2)])
            for split in ("train", "dev", "dev-mismatched")
        ),
        (
            "mnli", "dev", "index\tsentence1\tsentence2\tgold_label\n3\tA.\tB.\tentailment\n",
            [TextExample("3", "A.", "B.", 0)],
        ),
        (
            "mnli", "test-mismatched", "index\tgenre\tsentence1\tsentence2\n9\tfiction\tA.\tB.\n",
            [TextExample("9", "A.", "B.")],
        ),
        (
            "sts-b", "dev", "index\tgenre\tsentence1\tsentence2\tscore\n0\tnews\tA.\tB.\t3.800\n",
            [TextExample("0", "A.", "B.", 3.8)],
        ),
        (
            "ax", "test", "index\tsentence1\tsentence2\n0\tA.\tB.\n1\tC.\tD.",
            [TextExample("0", "A.", "B."), TextExample("1", "C.", "D.")],
        ),
    ],
)  # fmt: skip
def test_glue_files_are_read_as_they_are_published(tmp_path, name, split, content, examples):
    assert read_glue(tmp_path, name, split, content).examples == tuple(examples)


def test_empty_texts_of_glue_are_kept_and_a_few_broken_rows_skipped(tmp_path):
    split = read_glue(tmp_path, "qqp", "dev", "id\tquestion1\tquestion2\tis_duplicate\n4\tWhy?\t\t0\n")
    assert split.examples == (TextExample("4", "Why?", "", 0),)
    (problem,) = split.problems
    assert re.search("QQP/dev.tsv.*line 2", problem)
    rows = ["sentence\tlabel", *["fine\t1"] * 50, "torn", *["good\t0"] * 9]
    split = read_glue(tmp_path, "sst-2", "train", "\n".join(rows))
    assert len(split.examples) == 59
    (problem,) = split.problems
    assert re.search("SST-2/train.tsv.*line 52", problem)


@pytest.mark.parametrize(
    ("split", "content", "message"),
    [
        ("dev", "text\tlabel\nfine\t1\n", "dev.tsv: .*'sentence'.*'text'"),
        ("dev", "sentence\nfine\n", "dev.tsv: .*'label'"),
        ("dev", "sentence\tlabel\nfine\t1\nodd\t2\n", "dev.tsv: line 3: .*'2'.* 0, 1"),
        ("dev", "", "dev.tsv"),
        ("dev", "sentence\tlabel\na\t1\nb\n", "dev.tsv: 1 of 2"),
        ("test", "index\tsentence\n0\tfine\n1\n", "test.tsv: line 3"),
        ("test", b"index\tsentence\n0\tcaf\xe9\n", "test.tsv: line 2: .*0xe9"),
        ("dev", "sentence\tlabel\tlabel\na\t1\t1\n", "dev.tsv: .*'label'"),
    ],
)  # fmt: skip
def test_broken_glue_files_are_rejected_in_one_line(tmp_path, split, content, message):
    with pytest.raises(FileFormatError, match=message) as caught:
        read_glue(tmp_path, "sst-2", split, content)
    assert "\n" not in str(caught.value)


PARIS = "Paris is large. Paris is old."


def question(name: str, *answers: tuple[str, int], **more):
    found = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": f"{name}?", "answers": found, **more}


def read_squad(folder, *questions, version: str = "2.0") -> Split:
    """At most a tenth of the questions may be skipped: forty good ones come first."""
    good = [question(f"good {number}", ("Paris", 0)) for number in range(40)]
    paragraphs = [{"context": PARIS, "qas": [*good, *questions]}]
    content = {"version": "x", "data": [{"title": "T", "paragraphs": paragraphs}]}
    (folder / f"dev-v{version}.json").write_text(json.dumps(content))
    split = PUBLISHED_TASKS[f"squad-{version}"].read_split(folder, "dev")
    return Split(split.name, split.path, split.examples[40:], split.problems)


def test_squad_questions_with_and_without_answers(tmp_path):
    plausible = [{"text": "old", "answer_start": 25}]
    split = read_squad(
        tmp_path,
        question("a", ("Paris", 0), ("Paris", 16)),
        question("b", ("old", 25), is_impossible=True, plausible_answers=plausible),
        question("c"),
    )
    assert split.examples == (
        SpanExample("a", "a?", PARIS, (Answer("Paris", 0), Answer("Paris", 16)), False, "T"),
        SpanExample("b", "b?", PARIS, (), True, "T"),
        SpanExample("c", "c?", PARIS, (), False, "T"),
    )
    assert split.problems == ()


def test_misplaced_answers_of_squad_are_kept_and_counted(tmp_path):
    bad = [question("a", ("old", 24), ("Paris", 0)), question("b", ("Rome", 3)), question("c", ("", 0))]
    split = read_squad(tmp_path, *bad)
    assert [len(example.answers) for example in split.examples] == [2, 1, 1]
    absent, elsewhere = split.problems
    assert re.search("dev-v2.0.json: 2 .*'b'.*'Rome' at 3", absent)
    assert re.search("dev-v2.0.json: 1 .*'a'.*'old' at 24.* 25", elsewhere)


def test_impossible_questions_are_skipped_in_squad_1_1(tmp_path):
    split = read_squad(
        tmp_path, question("a", ("Paris", 0)), question("b", is_impossible=True), version="1.1"
    )
    assert [example.id for example in split.examples] == ["a"]
    (problem,) = split.problems
    assert "question 42: 'b'" in problem


@pytest.mark.parametrize(
    "bad",
    [
        {"id": "x"},
        {"id": "z", "question": "z?", "answers": [{"text": "Paris"}]},
        {"id": "w", "question": "w?", "answers": "Paris"},
    ],
)
def test_broken_questions_of_squad_are_skipped_and_counted(tmp_path, bad):
    split = read_squad(tmp_path, bad, question("a", ("Paris", 0)))
    assert [example.id for example in split.examples] == ["a"]
    (problem,) = split.problems
    assert "question 41" in problem


def test_an_id_that_occurs_twice_in_squad_is_rejected(tmp_path):
    with pytest.raises(FileFormatError, match="question 42: .*'a'"):
        read_squad(tmp_path, question("a", ("Paris", 0)), question("a", ("Paris", 16)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"data": [{]}', "line 1"),
        ("[]", "'data'"),
        ('{"data": [{"title": "T"}]}', "article 1: .*'paragraphs'"),
    ],
)
def test_other_files_than_squad_are_rejected(tmp_path, content, message):
    (tmp_path / "dev-v2.0.json").write_text(content)
    with pytest.raises(FileFormatError, match=f"dev-v2.0.json.* {message}"):
        PUBLISHED_TASKS["squad-2.0"].read_split(tmp_path, "dev")


OPTIONS = ["a", "b", "c", "d"]


def write_race(folder, level: str, name: str, **changes) -> None:
    content = {"article": f"Text {name}.", "questions": ["Why?"], "options": [OPTIONS], "answers": ["C"]}
    path = folder / "dev" / level / name
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {key: value for key, value in {**content, "id": name, **changes}.items() if value is not None}
    path.write_text(json.dumps(kept))


def read_race(folder) -> Split:
    return PUBLISHED_TASKS["race"].read_split(folder, "dev")


def test_race_is_read_in_the_order_of_levels_files_and_questions(tmp_path):
    for name in ("10.txt", "9.txt"):
        write_race(tmp_path, "high", name)
    two = {"questions": ["A?", "B?"], "options": [OPTIONS] * 2, "answers": ["A", "D"]}
    write_race(tmp_path, "middle", "77.txt", **two)
    (tmp_path / "dev" / "high" / ".DS_Store").touch()
    examples = read_race(tmp_path).examples
    assert [example.id for example in examples] == [
        "middle/77.txt/0", "middle/77.txt/1", "high/9.txt/0", "high/10.txt/0",
    ]  # fmt: skip
    assert examples[1] == ChoiceExample("middle/77.txt/1", "Text 77.txt.", "B?", tuple(OPTIONS), 3, "middle")


def test_answers_of_race_may_be_missing_and_empty_options_are_counted(tmp_path):
    write_race(tmp_path, "middle", "1.txt")
    write_race(tmp_path, "high", "2.txt", options=[["a", ""]], answers=None)
    split = read_race(tmp_path)
    assert [example.label for example in split.examples] == [2, None]
    (problem,) = split.problems
    assert "high/2.txt/0" in problem


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": ["E"]}, "question 1\\b.*'E'"),
        ({"answers": []}, "0 answers"),
        ({"options": [["a"]]}, "question 1\\b"),
        ({"article": None}, "'article'"),
    ],
)
def test_a_broken_passage_of_race_is_rejected(tmp_path, changes, message):
    write_race(tmp_path, "high", "2.txt")
    write_race(tmp_path, "middle", "1.txt", **changes)
    with pytest.raises(FileFormatError, match=f"1.txt: .*{message}"):
        read_race(tmp_path)


# Of the official files; for qqp, mnli and qnli, of the reduced ones.
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


@pytest.mark.parametrize("name", GLUE)
def test_every_row_of_real_glue_is_an_example(real_glue, name):
    task = PUBLISHED_TASKS[name]
    for split, num_rows in ROWS[name].items():
        found = task.read_split(real_glue, split)
        assert (len(found.examples), found.problems) == (num_rows, ())
        assert found.is_labeled == (not split.startswith("test"))


def test_the_dev_set_of_real_race(tmp_path, published):
    found = PUBLISHED_TASKS["race"].read_split(unpack("race", tmp_path, under="dev"), "dev")
    examples = found.examples
    assert found.problems == ()
    assert Counter(example.level for example in examples) == {"middle": 1436, "high": 3451}
    assert {len(example.options) for example in examples} == {4}
    assert {example.label for example in examples} == {0, 1, 2, 3}
    assert len({example.id for example in examples}) == len(examples)
    encoded = iter_encoded_choices(examples[::20], tokenizer=published, max_length=512, max_ending=128)
    for example, each in zip(examples[::20], encoded, strict=True):
        assert len(each.sequences) == 4
        assert max(len(sequence.ids) for sequence in each.sequences) <= 512
        assert (each.id, each.label) == (example.id, example.label)
