"""Tables: labels, columns and rows of every task type, in every format."""

import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.data.rows import Problems
from albert.errors import FileFormatError
from albert.settings import apply_overrides
from albert.tasks.classification import TextColumns, TextExample
from albert.tasks.data import TaskData, open_task_data
from albert.tasks.multiple_choice import ChoiceColumns, ChoiceExample
from albert.tasks.question_answering import Answer, SpanColumns, SpanExample
from albert.tasks.tables import Labels, Numbered, build_labels, iter_table, normalize_label, read_table
from albert.tasks.token_classification import TokenExample, WordColumns
from tests.tasks.formats import list_settings, name_line, write_table
from tests.tasks.tables import OWN_TABLES, draw_rows, write_rows


@settings(deadline=None)
@given(st.lists(st.text(min_size=1), min_size=2, unique=True), st.randoms())
def test_labels_do_not_depend_on_the_order_of_rows(names, random):
    shuffled = names * 2
    random.shuffle(shuffled)
    assert build_labels(shuffled, source="train.csv") == build_labels(names, source="train.csv")


def test_labels_are_sorted_by_value_and_then_by_alphabet():
    assert build_labels(["10", "9", "-1"], source="x").names == ("-1", "9", "10")
    assert build_labels(["b", "10", "a", "9"], source="x").names == ("9", "10", "a", "b")
    assert normalize_label("-12.00") == "-12"
    for names, value in ((["a", "a"], "'a'"), (map(str, range(1001)), "1,001.* 1,000 .*regression")):
        with pytest.raises(FileFormatError, match=f"x.csv: .*{value}"):
            build_labels(names, source="x.csv")


@pytest.fixture
def write(tmp_path):
    """Write a file: a text as it is, rows as JSON lines or Parquet."""

    def write_file(name: str, content):
        path = tmp_path / name
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        elif name.endswith(".parquet"):
            pq.write_table(pa.Table.from_pylist(content), path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
        return path

    return write_file


def test_labels_written_as_floats_and_booleans_are_normalized(write):
    """pandas writes 1.0 for 1 if a cell of the column is empty, and True for true."""
    path = write("a.csv", "text,label\na,1.0\nb,-2.00\nc,0.5\nd,1.0.0\ne,1\n")
    assert read_table(path, TextColumns()).labels == Labels(("-2", "0.5", "1", "1.0.0"))
    floats = [{"text": f"a{i}", "label": float(i)} for i in (0, 1, 2)]
    assert read_table(write("a.parquet", floats), TextColumns()).labels == Labels(("0", "1", "2"))
    files = [
        write("b.csv", "text,label\na,True\nb,False\n"),
        write("b.jsonl", [{"text": "a", "label": True}, {"text": "b", "label": False}]),
    ]
    for path in files:
        table = read_table(path, TextColumns())
        assert (table.labels, table.examples[0].label) == (Labels(("false", "true")), 1)
    several = write("c.csv", "text,label\na,1.0;True\nb,1\n")
    table = read_table(several, TextColumns(label_kind="several", label_separator=";"))
    assert table.labels == Labels(("1", "true"))


@pytest.mark.parametrize("value", ["", "four", "nan", "4,5"])
def test_cells_that_are_no_numbers_are_rejected(write, value):
    path = write("train.csv", f'text,label\none,1.5\ntwo,"{value}"\n')
    with pytest.raises(FileFormatError, match=f"train.csv: 1 of 2 .*'label'.* line 3.*'{value}'"):
        read_table(path, TextColumns(label_kind="number"))


def test_several_labels_are_a_list_or_have_separators(write):
    columns = TextColumns(label_kind="several", label_separator=";")
    rows = [
        {"text": "x", "label": ["b", "a", "b"]},
        {"text": "y", "label": []},
        {"text": "z", "label": ["c"]},
    ]
    lines = "text\tlabel\nx\tb; a\ny\t\nz\tc\n"
    for path in (write("a.jsonl", rows), write("a.parquet", rows), write("a.tsv", lines)):
        table = read_table(path, columns)
        assert table.labels == Labels(("a", "b", "c"))
        assert [example.label for example in table.examples] == [(0, 1), (), (2,)]


def test_streams_without_labels_have_line_numbers():
    problems = Problems("stdin")
    stream = io.BytesIO(b'{"text": "one"}\nbroken\n{"text": "two", "label": "unheard of"}\n')
    found = list(iter_table(stream, TextColumns(), problems=problems, format="jsonl"))
    assert found == [Numbered(1, TextExample("1", "one")), Numbered(3, TextExample("3", "two"))]
    assert problems.num_skipped == 1


CONLL = """-DOCSTART- -X- O O

EU NNP B-ORG
rejects VBZ O

Peter NNP B-PER
Blackburn NNP I-PER
"""


def test_words_and_labels_in_every_format(write):
    rows = [
        {"words": ["EU", "rejects"], "labels": ["B-ORG", "O"]},
        {"words": ["Peter", "Blackburn"], "labels": ["B-PER", "I-PER"]},
    ]
    spaced = "words\tlabels\nEU rejects\tB-ORG O\nPeter Blackburn\tB-PER I-PER\n"
    tabbed = CONLL.replace(" ", "\t")
    files = [
        write("a.jsonl", rows), write("a.parquet", rows), write("a.tsv", spaced), write("a.conll", CONLL),
        write("a.txt", tabbed),
    ]  # fmt: skip
    for path in files:
        table = read_table(path, WordColumns())
        assert table.labels == Labels(("B-ORG", "B-PER", "I-PER", "O"))
        assert [(each.words, each.labels) for each in table.examples] == [
            (("EU", "rejects"), (0, 3)),
            (("Peter", "Blackburn"), (1, 2)),
        ]
    assert read_table(files[3], WordColumns()).examples[1].id == "6"  # its first line


@pytest.mark.parametrize(
    ("comments", "words"),
    [
        ("# id s0\tdomain=en\n", "EU _ _ B-ORG\nrejects _ _ O\n"),  # MultiCoNER
        # CoNLL-U: as many words as there are columns
        ("# sent_id = 1\n# text = EU\n", "EU\tX\tY\tB-ORG\nrejects\tX\tY\tO\n"),
    ],
)
def test_comments_of_conll_files_are_ignored_and_counted(write, comments, words):
    table = read_table(write("a.conll", f"{comments}{words}\n" * 2), WordColumns())
    assert table.labels == Labels(("B-ORG", "O"))
    assert [each.words for each in table.examples] == [("EU", "rejects")] * 2
    num_comments = comments.count("\n")
    assert table.examples[0].id == str(num_comments + 1)
    assert list(table.problems.noted.values()) == [2 * num_comments]


@pytest.mark.parametrize("blank", ["\t", "\u00a0"])
def test_a_line_of_white_space_ends_a_sentence(write, blank):
    table = read_table(write("a.conll", f"one A\n{blank}\ntwo B\n"), WordColumns())
    assert [each.words for each in table.examples] == [("one",), ("two",)]


def test_words_are_enough_to_predict(write):
    path = write("a.conll", "EU\nrejects\n\nPeter\n")
    found = [each.example for each in iter_table(path, WordColumns(), problems=Problems(path))]
    assert found == [TokenExample("1", ("EU", "rejects")), TokenExample("4", ("Peter",))]
    with pytest.raises(FileFormatError, match=r"a\.conll: .*'labels'.*'words'"):
        read_table(path, WordColumns())


def test_words_without_labels_are_skipped_and_counted(write):
    fine = "one A\ntwo B\n\n" * 20
    table = read_table(write("a.conll", fine + "three\nfour A\n"), WordColumns())
    assert (len(table.examples), table.problems.num_skipped) == (20, 1)
    assert "line 61" in table.problems.describe()[0]
    rows = [{"words": ["a", "b"], "labels": ["A", "B"]}] * 20 + [{"words": ["a"], "labels": ["A", "B"]}]
    table = read_table(write("a.jsonl", rows), WordColumns())
    assert re.search("line 21.*1 .*2 ", table.problems.describe()[0])


def test_answers_as_in_squad_and_datasets(write):
    asked = {"question": "Where?", "context": "In Rome, not in Rome."}
    like_squad = {**asked, "answers": [{"text": "Rome", "answer_start": 16}]}
    like_datasets = {**asked, "answers": {"text": ["Rome"], "answer_start": [16]}}
    none = {**asked, "answers": []}
    expected = SpanExample("1", "Where?", asked["context"], (Answer("Rome", 16),))
    for path in (
        write("a.jsonl", [like_squad, none]),
        write("a.parquet", [like_squad, none]),
        write("b.jsonl", [like_datasets, {**asked, "answers": None}]),
        write("b.parquet", [like_datasets, {**asked, "answers": None}]),
    ):
        first, second = read_table(path, SpanColumns()).examples
        assert first == expected
        assert (second.answers, second.is_impossible) == ((), True)


def test_answers_in_columns_with_and_without_their_start(write):
    columns = SpanColumns(answers="answer")
    context = '"In Rome, not in Rome."'
    path = write(
        "a.csv", f"question,context,answer,answer_start\nWhere?,{context},Rome,16\nWho?,{context},,\n"
    )
    examples = read_table(path, columns).examples
    assert [example.answers for example in examples] == [(Answer("Rome", 16),), ()]
    path = write("b.csv", f"question,context,answer\nWhere?,{context},Rome\nWho?,{context},Nero\n")
    table = read_table(path, columns)
    assert [example.answers for example in table.examples] == [(Answer("Rome", 3),), (Answer("Nero", -1),)]
    (problem,) = table.problems.describe()
    assert re.search("line 3.*'Nero'", problem)


def test_carriage_returns_count_in_the_start_of_an_answer(write):
    context = "One.\r\nTwo.\r\nIn Rome."
    path = write("a.csv", "")
    path.write_bytes(f'question,context,answers,answer_start\r\nWhere?,"{context}",Rome,15\r\n'.encode())
    table = read_table(path, SpanColumns())
    assert table.examples[0].answers == (Answer("Rome", 15),)
    assert table.problems.describe() == []


def test_starts_written_by_pandas(write):
    """pandas writes 16.0 for 16 if a cell of the column is empty."""
    lines = "".join(f'Where?,"In Rome, not in Rome.",Rome,{start}\n' for start in ("16.0", "", "16", "nan"))
    path = write("a.csv", f"question,context,answers,answer_start\n{lines}")
    starts = [example.answers[0].start for example in read_table(path, SpanColumns()).examples]
    assert starts == [16, 3, 16, 3]


@pytest.mark.parametrize("start", ["16.5", "there", float("inf")])
def test_a_start_that_is_no_whole_number_is_rejected(write, start):
    row = {"question": "Where?", "context": "In Rome."}
    flat = {"answers": "Rome", "answer_start": str(start)}
    for answers in (flat, {"answers": [{"text": "Rome", "answer_start": start}]}):
        with pytest.raises(FileFormatError, match="1 of 1 .*answer_start"):
            read_table(write("a.jsonl", [{**row, **answers}]), SpanColumns())


@pytest.mark.parametrize("label", ["b", 1, "1", 1.0, "in Rome"])
def test_labels_of_choices_are_letters_indices_or_texts(write, label):
    row = {"passage": "P", "question": "Where?", "options": ["in Paris", "in Rome"], "label": label}
    example = ChoiceExample("1", "P", "Where?", ("in Paris", "in Rome"), 1)
    for name in ("a.jsonl", "a.parquet"):
        assert read_table(write(name, [row]), ChoiceColumns()).examples == (example,)
    path = write("a.csv", f"q,one,two,label\nWhere?,in Paris,in Rome,{label}\n")
    columns = ChoiceColumns(passage=None, question="q", options=("one", "two"))
    assert read_table(path, columns).examples[0].label == 1


@pytest.mark.parametrize("label", ["C", 2, -1, "in London", None])
def test_a_label_that_is_no_option_is_rejected(write, label):
    row = {"passage": "P", "question": "Where?", "options": ["in Paris", "in Rome"], "label": label}
    with pytest.raises(FileFormatError, match=r"a\.jsonl: 1 of 1"):
        read_table(write("a.jsonl", [row]), ChoiceColumns())


Row = dict[str, Any]
NUM_ROWS = {"train": 30, "dev": 12}
INDEX = 3  # of the bad row
NO_ANSWER: dict[str, list[Any]] = {"text": [], "answer_start": []}
ABSENT, ELSEWHERE = {"text": ["zebra"], "answer_start": [4]}, {"text": ["the"], "answer_start": [5]}


@dataclass(frozen=True)
class Bad:
    """A row of a split that is changed, and what the message about it must contain."""

    split: str
    task: str
    change: Callable[[Row], Row]
    message: str
    is_skipped: bool = True

    def write(self, folder: Path, format: str) -> Path:
        """Write train.FORMAT and dev.FORMAT."""
        for split, seed in (("train", 1), ("dev", 2)):
            rows = draw_rows(self.task, NUM_ROWS[split], seed=seed)
            if split == self.split:
                rows[INDEX] = self.change(rows[INDEX])
            write_table(folder / f"{split}.{format}", rows)
        return folder


def put(**values: Any) -> Callable[[Row], Row]:
    return lambda row: {**row, **values}


def open_data(task: str, data: Path, *overrides: str, dev: Path | None = None) -> TaskData:
    format = next(data.glob("train.*")).suffix if data.is_dir() else data.suffix
    words = [*list_settings(task, format.removeprefix(".")), *overrides]
    columns = apply_overrides({}, words).get("columns", {})
    return open_task_data(task, data, dev=dev, columns=columns, dev_share=0.1)


REJECTED = [
    Bad("dev", "classification", put(label="zebra"), "'zebra'.* no, yes"),
    Bad("dev", "classification", put(label="YES"), "'YES'.* no, yes.*'yes'"),
    Bad("dev", "multilabel", put(label=["big", "zebra"]), "'zebra'.* big, new, old, small"),
    Bad("dev", "token-classification", put(words=["dog"], labels=["I-X"]), "'I-X'.* B-THING, O"),
]


@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("bad", REJECTED, ids=lambda bad: bad.task)
def test_unknown_labels_of_the_dev_set_are_rejected_with_their_line(tmp_path, bad, format):
    with pytest.raises(FileFormatError, match=rf"dev\.{format}: {name_line(format, INDEX)}: .*{bad.message}"):
        open_data(bad.task, bad.write(tmp_path, format))


def test_a_dev_question_without_an_answer_needs_such_training_questions(tmp_path):
    bad = Bad("dev", "question-answering", put(answers=NO_ANSWER), "")
    with pytest.raises(FileFormatError, match=rf"dev\.jsonl: .*'{INDEX + 1}'"):
        open_data("question-answering", bad.write(tmp_path, "jsonl"))


def empty_first_option(row: Row) -> Row:
    return {**row, "options": ["", *row["options"][1:]]}


COUNTED = [
    Bad("train", "classification", put(text=" "), "empty text"),
    Bad("dev", "multilabel", put(text=" "), "empty text"),
    Bad("train", "token-classification", put(words=[], labels=[]), "empty text"),
    Bad("train", "question-answering", put(context=" "), "context"),
    Bad("dev", "question-answering", put(question=""), "question"),
    Bad("train", "multiple-choice", put(passage="", question=" "), "passage"),
    Bad("train", "multiple-choice", empty_first_option, "option", is_skipped=False),
    Bad("dev", "multiple-choice", put(label="F"), "'F'"),
    Bad("train", "classification", put(label=None), "'label'"),
    Bad("train", "token-classification", put(labels=["O"]), "1 labels"),
    Bad("train", "question-answering", put(answers=ABSENT), "'zebra' at 4", is_skipped=False),
    Bad("dev", "question-answering", put(answers=ELSEWHERE), "'the' at 5", is_skipped=False),
    Bad("train", "regression", put(label=float("nan")), "'label'"),
    Bad("dev", "regression", put(label=None), "'label'"),
    Bad("train", "regression", put(label=1e30), "1e+30"),
]


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("bad", COUNTED, ids=lambda bad: f"{bad.task}, {bad.message}")
def test_a_bad_row_is_counted_with_its_line(tmp_path, bad, format):
    found = open_data(bad.task, bad.write(tmp_path, format))
    problems = [each for each in found.problems if f"{bad.split}.{format}: " in each and bad.message in each]
    assert [each for each in problems if f"1 {name_line(format, 0).split()[0]}" in each]
    assert [each for each in problems if name_line(format, INDEX) in each]
    numbers = {"train": len(found.train), "dev": len(found.dev)}
    assert numbers == {**NUM_ROWS, bad.split: NUM_ROWS[bad.split] - bad.is_skipped}


@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("task", OWN_TABLES)
def test_a_table_with_many_empty_rows_is_rejected(tmp_path, task, format):
    names = {
        "token-classification": ("words", "labels"), "question-answering": ("context",),
        "multiple-choice": ("passage", "question"),
    }  # fmt: skip
    empty: Any = [] if task == "token-classification" else ""
    blank = dict.fromkeys(names.get(task, ("text",)), empty)
    rows = draw_rows(task, 20, seed=1)
    rows = [rows[0], *({**row, **blank} for row in rows[1:5]), *rows]
    data = write_table(tmp_path / f"table.{format}", rows)
    unit = name_line(format, 0).split()[0]
    with pytest.raises(FileFormatError, match=rf"4 of 25 {unit}s .*10%.*{name_line(format, 1)}"):
        open_data(task, data)


@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("task", "column"),
    [
        ("classification", "text"), ("classification", "label"), ("multilabel", "label"),
        ("regression", "text"), ("token-classification", "labels"), ("question-answering", "answers"),
        ("multiple-choice", "question"),
    ],
)  # fmt: skip
def test_a_missing_column_is_named_with_those_of_the_table(tmp_path, task, column, format):
    rows = [{key: row[key] for key in row if key != column} for row in draw_rows(task, 20, seed=1)]
    data = write_table(tmp_path / f"table.{format}", rows)
    with pytest.raises(FileFormatError, match=rf"table\.{format}: .*'{column}'.*'{next(iter(rows[0]))}'"):
        open_data(task, data)


@pytest.mark.parametrize(
    ("task", "values", "message"),
    [
        ("classification", {"label": "x"}, "'x'.* 2 "),
        ("multilabel", {"label": []}, ""),
        ("regression", {"label": 3}, r"20 .* 3\.0\b.* 2 "),
        ("question-answering", {"answers": NO_ANSWER}, "20 "),
    ],
)
def test_labels_without_differences_are_rejected(tmp_path, task, values, message):
    rows = draw_rows(task, 20, seed=1)
    path = write_rows(tmp_path / "same.jsonl", [{**row, **values} for row in rows])
    with pytest.raises(FileFormatError, match=rf"same\.jsonl: .*{message}"):
        open_data(task, path, dev=path)


def test_labels_that_differ_in_case_are_kept_with_a_warning_and_spaces_are_stripped(tmp_path):
    rows = draw_rows("classification", 40, seed=1)
    lower = rows[1]["label"]
    rows[0]["label"], rows[1]["label"] = f" {rows[0]['label']} ", lower.upper()
    found = open_data("classification", write_rows(tmp_path / "table.csv", rows))
    assert sorted(found.config.labels) == sorted(("no", "yes", lower.upper()))
    assert any(f"'{lower.upper()}' and '{lower}'" in problem for problem in found.problems)


def test_an_empty_cell_is_no_label(tmp_path):
    rows = [{"text": "the dog", "label": float(index % 2)} for index in range(20)]
    rows[4]["label"] = float("nan")
    found = open_data("classification", write_table(tmp_path / "table.parquet", rows))
    assert found.config.labels == ("0", "1")
    assert any(re.search("'label'.*row 5.*nan", each) for each in found.problems)


def test_repeated_ids_are_counted_if_ids_are_read(tmp_path):
    rows = [
        {**row, "id": str(index % 10)}
        for index, row in enumerate(draw_rows("question-answering", 20, seed=1))
    ]
    data = write_rows(tmp_path / "table.jsonl", rows)
    found = open_data("question-answering", data, "columns.id=id")
    assert re.search("10 .*line 11.*'0'", found.problems[0])
    assert open_data("question-answering", data).problems == found.problems[1:]


def test_large_numbers_and_training_data_as_dev_set_are_reported(tmp_path):
    rows = [{**row, "label": 1e5 * row["label"]} for row in draw_rows("regression", 20, seed=1)]
    data = write_rows(tmp_path / "table.jsonl", rows)
    problems = open_data("regression", data, dev=data).problems
    assert [each for each in problems if "350,000" in each]
    assert [each for each in problems if "training data" in each]
