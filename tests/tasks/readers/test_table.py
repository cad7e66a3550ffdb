"""A user's own data: columns by name, labels found by themselves, every kind of task."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from albert.tasks.examples import Answer, ChoiceExample, Numbered, SpanExample, TextExample, TokenExample
from albert.tasks.labels import Labels
from albert.tasks.readers.columns import (
    ChoiceColumns,
    SpanColumns,
    TextColumns,
    WordColumns,
)
from albert.tasks.readers.table import iter_table, read_table

from albert.data import rows as module
from albert.data.rows import Problems
from albert.errors import FileFormatError


@pytest.fixture
def write(tmp_path):
    """A file of the given name: a text as it is, other values as JSON lines or Parquet."""

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


def test_labels_are_found_and_sorted_whatever_their_order(write):
    columns = TextColumns(text="review", label="stars")
    for order in ([3, 10, 1], [1, 3, 10]):
        path = write(
            "train.jsonl", [{"review": f"film {i}", "stars": stars} for i, stars in enumerate(order)]
        )
        table = read_table(path, columns)
        assert table.labels == Labels(("1", "3", "10"))
        assert [int(table.labels.names[each.label]) for each in table.examples] == order


def test_labels_have_the_same_names_in_every_format(write):
    values = [0, 1, 2]
    rows = [{"text": f"a{i}", "label": i} for i in values]
    floats = [{"text": f"a{i}", "label": float(i)} for i in values]
    lines = "text,label\n" + "".join(f"a{i},{i}\n" for i in values)
    files = [write("a.jsonl", rows), write("a.parquet", floats), write("a.csv", lines)]
    found = [read_table(path, TextColumns()).labels for path in files]
    assert found == [Labels(("0", "1", "2"))] * 3


def test_texts_of_numbers_and_truth_values_are_called_as_these_are(write):
    """pandas makes 1.0 of 1 as soon as one cell of a column is empty, and writes True."""
    path = write("a.csv", "text,label\na,1.0\nb,-2.00\nc,0.5\nd,1.0.0\ne,1\n")
    assert read_table(path, TextColumns()).labels == Labels(("-2", "0.5", "1", "1.0.0"))
    said = [
        write("b.csv", "text,label\na,True\nb,False\n"),
        write("b.jsonl", [{"text": "a", "label": True}, {"text": "b", "label": False}]),
    ]
    for path in said:
        table = read_table(path, TextColumns())
        assert (table.labels, table.examples[0].label) == (Labels(("false", "true")), 1)
    several = write("c.csv", "text,label\na,1.0;True\nb,1\n")
    table = read_table(several, TextColumns(label_kind="several", label_separator=";"))
    assert table.labels == Labels(("1", "true"))


def test_a_model_that_learned_names_as_a_table_wrote_them_still_knows_them(write):
    path = write("a.csv", "text,label\na,1.0\nb,True\n")
    labels = Labels(("1.0", "2.0", "True"))
    table = read_table(path, TextColumns(), labels=labels)
    assert [each.label for each in table.examples] == [0, 2]
    assert Labels(("1.0", "1")).place("1") == 1


def test_an_option_is_known_by_its_text_as_it_is_written(write):
    rows = [{"passage": "P", "question": "?", "options": ["1.0", "True", "x"], "label": name}
            for name in ("1.0", "True", "2.0")]  # fmt: skip
    table = read_table(write("a.jsonl", rows), ChoiceColumns())
    assert [each.label for each in table.examples] == [0, 1, 2]


def test_pairs_ids_and_truth_values(write):
    rows = [{"q": "one", "a": "two", "is": True, "key": 5}, {"q": "one", "a": "", "is": False, "key": 6}]
    columns = TextColumns(text="q", text_pair="a", label="is", id="key")
    table = read_table(write("train.jsonl", rows), columns)
    assert table.labels == Labels(("false", "true"))
    assert table.examples == (TextExample("5", "one", "two", 1), TextExample("6", "one", "", 0))
    assert "1 line with an empty text (first in line 2)" in table.problems.describe()[0]


def test_numbers_are_regression_when_asked_for(write):
    path = write("train.csv", "text,label\none,1.5\ntwo,-3\n")
    table = read_table(path, TextColumns(label_kind="number"))
    assert table.labels is None
    assert [example.label for example in table.examples] == [1.5, -3.0]


@pytest.mark.parametrize("value", ["", "four", "nan", "inf", "4,5"])
def test_what_is_no_number_is_told(write, value):
    path = write("train.csv", f'text,label\none,1.5\ntwo,"{value}"\n')
    with pytest.raises(
        FileFormatError, match=f"no number in column 'label' .first in line 3: it holds '{value}'"
    ):
        read_table(path, TextColumns(label_kind="number"))


def test_several_labels_are_a_list_or_have_a_separator_between(write):
    columns = TextColumns(label_kind="several", label_separator=";")
    rows = [{"text": "x", "label": ["b", "a"]}, {"text": "y", "label": []}, {"text": "z", "label": ["c"]}]
    lines = "text\tlabel\nx\tb; a\ny\t\nz\tc\n"
    for path in (write("a.jsonl", rows), write("a.parquet", rows), write("a.tsv", lines)):
        table = read_table(path, columns)
        assert table.labels == Labels(("a", "b", "c"))
        assert [example.label for example in table.examples] == [(0, 1), (), (2,)]


def test_several_labels_are_in_the_order_of_the_table(write):
    names = list("abcdefghijklmnopqrst")
    rows = [{"text": "x", "label": list(reversed(names))}, {"text": "y", "label": ["q", "i", "b", "i"]}]
    table = read_table(write("a.jsonl", rows), TextColumns(label_kind="several"))
    assert [example.label for example in table.examples] == [tuple(range(20)), (1, 8, 16)]


def test_a_label_in_dev_that_train_lacks_is_refused_with_its_line(write):
    train = read_table(write("train.csv", "text,label\na,x\nb,y\n"), TextColumns())
    dev = write("dev.csv", "text,label\na,x\nb,z\n")
    with pytest.raises(
        FileFormatError, match="dev.csv: line 3: the label 'z' is unknown .known: x, y.; mend"
    ):
        read_table(dev, TextColumns(), labels=train.labels)


def test_empty_texts_and_missing_values_are_left_out_and_counted(write):
    good = [{"text": f"fine {i}", "label": i % 2} for i in range(40)]
    bad = [{"text": " \t", "label": 0}, {"text": None, "label": 1}, {"text": "no label", "label": None}]
    table = read_table(write("train.jsonl", good + bad), TextColumns())
    assert len(table.examples) == 40
    assert table.problems.skipped == {
        "an empty text": 1, "no text in column 'text'": 1, "no label in column 'label'": 1,
    }  # fmt: skip
    assert any("first in line 41" in line for line in table.problems.describe())


def test_a_file_of_mostly_broken_rows_is_refused_before_anything_else(write):
    with pytest.raises(FileFormatError, match="3 of 3 lines cannot be read.*not valid JSON .first in line 1"):
        read_table(write("train.jsonl", "one\ntwo\nthree\n"), TextColumns())
    with pytest.raises(FileFormatError, match="train.jsonl: holds no examples"):
        read_table(write("train.jsonl", "\n"), TextColumns())


def test_a_text_of_100_000_characters_is_a_text(write):
    long = "word " * 20_000
    for path in (
        write("a.csv", f"text,label\n{long},1\nshort,0\n"),
        write("a.jsonl", [{"text": long, "label": 1}, {"text": "short", "label": 0}]),
    ):
        assert len(read_table(path, TextColumns()).examples[0].first) == 100_000


def test_prediction_needs_no_labels_and_streams_with_line_numbers():
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


def test_words_with_labels_in_every_form(write):
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
        ("# id s0 domain=en\n", "EU B-ORG\nrejects O\n"),
        # CoNLL-U: as many words as there are columns
        ("# sent_id = 1\n# text = EU\n", "EU\tX\tY\tB-ORG\nrejects\tX\tY\tO\n"),
    ],
)
def test_comments_above_the_words_are_passed_over_and_counted(write, comments, words):
    table = read_table(write("a.conll", f"{comments}{words}\n" * 2), WordColumns())
    assert table.labels == Labels(("B-ORG", "O"))
    assert [each.words for each in table.examples] == [("EU", "rejects")] * 2
    num_comments = comments.count("\n")
    assert table.examples[0].id == str(num_comments + 1)
    (told,) = table.problems.describe()
    first = comments.partition("\n")[0]
    assert (
        f"{2 * num_comments} lines with a comment, which is passed over (first in line 1: {first!r})" in told
    )


@pytest.mark.parametrize("words", ["# O\n1 B-NUM\n", "#\tO\n1\tB-NUM\n", "# O\n\n1 B-NUM\n"])
def test_a_word_may_be_the_mark_of_a_comment(write, words):
    table = read_table(write("a.conll", words), WordColumns())
    assert [word for each in table.examples for word in each.words] == ["#", "1"]
    assert table.problems.describe() == []


def test_a_space_of_unicode_is_part_of_a_word(write):
    path = write("a.conll", "10\u00a0000  B-NUM \na\u3000b O\n \t\nend O\n")
    table = read_table(path, WordColumns())
    assert [each.words for each in table.examples] == [("10\u00a0000", "a\u3000b"), ("end",)]
    assert table.labels == Labels(("B-NUM", "O"))


@pytest.mark.parametrize("blank", [" ", "\t", "\u00a0", "\u3000 "])
def test_a_line_of_white_space_ends_a_sentence(write, blank):
    table = read_table(write("a.conll", f"one A\n{blank}\ntwo B\n"), WordColumns())
    assert [each.words for each in table.examples] == [("one",), ("two",)]


def test_a_sentence_without_an_end_is_refused(write, monkeypatch):
    monkeypatch.setattr(module, "MAX_RECORD_LINES", 1000)
    most = "one A\ntwo B\n" * 500
    assert len(read_table(write("a.conll", f"{most}\n{most}"), WordColumns()).examples) == 2
    path = write("b.conll", f"one A\ntwo B\n\n{most}one A\n")
    said = "b.conll: line 4: a sentence of more than 1,000 lines; put a blank line between sentences"
    with pytest.raises(FileFormatError, match=said):
        read_table(path, WordColumns())


def test_words_alone_are_enough_to_predict(write):
    path = write("a.conll", "EU\nrejects\n\nPeter\n")
    table = read_table(path, WordColumns(), is_labelled=False)
    assert table.examples == (TokenExample("1", ("EU", "rejects")), TokenExample("4", ("Peter",)))
    with pytest.raises(FileFormatError, match="a.conll: no column 'labels' but 'words'"):
        read_table(path, WordColumns())


def test_words_without_their_labels_are_counted(write):
    fine = "one A\ntwo B\n\n" * 20
    table = read_table(write("a.conll", fine + "three\nfour A\n"), WordColumns())
    assert (
        "left out 1 line: a word without a label (first in line 61: line 61)" in table.problems.describe()[0]
    )
    rows = [{"words": ["a", "b"], "labels": ["A", "B"]}] * 20 + [{"words": ["a"], "labels": ["A", "B"]}]
    table = read_table(write("a.jsonl", rows), WordColumns())
    assert (
        "not one label for each word (first in line 21: 1 words and 2 labels)" in table.problems.describe()[0]
    )


def test_questions_with_answers_in_every_form(write):
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


def test_answers_in_columns_with_and_without_their_place(write):
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
    assert (
        "1 line with an answer that is nowhere in the context (first in line 3"
        in table.problems.describe()[0]
    )


def test_an_answer_of_white_space_is_none(write):
    asked = {"question": "Who?", "context": "In Rome, not in Rome."}
    like_squad = [{"text": " ", "answer_start": 2}, {"text": "", "answer_start": 0}]
    some = [*like_squad, {"text": "Rome", "answer_start": 3}]
    path = write("a.jsonl", [{**asked, "answers": each} for each in (" ", "\t\n", like_squad, some)])
    table = read_table(path, SpanColumns())
    assert [each.answers for each in table.examples] == [(), (), (), (Answer("Rome", 3),)]
    assert [each.is_impossible for each in table.examples] == [True, True, True, False]
    assert table.problems.describe() == []


def test_an_answer_behind_the_end_of_a_line_of_windows_is_at_its_place(write):
    context = "One.\r\nTwo.\r\nIn Rome."
    path = write("a.csv", "")
    path.write_bytes(f'question,context,answers,answer_start\r\nWhere?,"{context}",Rome,15\r\n'.encode())
    table = read_table(path, SpanColumns())
    assert table.examples[0].places == (Answer("Rome", 15),)
    assert table.problems.describe() == []


def test_places_as_other_programs_write_them(write):
    """pandas makes 16.0 of 16 as soon as one cell of a column is empty."""
    asked = {"question": "Where?", "context": "In Rome, not in Rome."}
    lines = "".join(f'Where?,"{asked["context"]}",Rome,{start}\n' for start in ("16.0", "", "16", "nan"))
    csv = write("a.csv", f"question,context,answers,answer_start\n{lines}")
    starts = [16.0, None, "16", float("nan")]
    listed = write(
        "a.jsonl", [{**asked, "answers": [{"text": "Rome", "answer_start": start}]} for start in starts]
    )
    columns = write(
        "a.parquet", [{**asked, "answers": "Rome", "answer_start": each} for each in (16.0, None)]
    )
    for path, wanted in ((csv, [16, 3, 16, 3]), (listed, [16, 3, 16, 3]), (columns, [16, 3])):
        examples = read_table(path, SpanColumns()).examples
        assert [example.answers for example in examples] == [(Answer("Rome", start),) for start in wanted]


@pytest.mark.parametrize("start", ["16.5", "there", True, float("inf")])
def test_a_place_that_is_no_whole_number_is_refused(write, start):
    row = {"question": "Where?", "context": "In Rome."}
    flat = write("a.jsonl", [{**row, "answers": "Rome", "answer_start": str(start)}])
    with pytest.raises(FileFormatError, match="no whole number in column 'answer_start'"):
        read_table(flat, SpanColumns())
    nested = write("b.jsonl", [{**row, "answers": [{"text": "Rome", "answer_start": start}]}])
    with pytest.raises(FileFormatError, match="each needs a text and a number answer_start"):
        read_table(nested, SpanColumns())


@pytest.mark.parametrize("column", ["answers", "answer_start"])
def test_a_place_that_no_text_reaches_is_refused(write, column):
    row = {"question": "Where?", "context": "In Rome.", "answers": "Rome", "answer_start": 10**400}
    if column == "answers":
        row["answers"] = [{"text": "Rome", "answer_start": 10**400}]
    with pytest.raises(FileFormatError, match="1 of 1 lines cannot be read"):
        read_table(write("a.jsonl", [row]), SpanColumns())


@pytest.mark.parametrize("label", ["B", "b", 1, "1", 1.0, "1.0", "in Rome"])
def test_choices_are_named_by_letter_number_or_text(write, label):
    row = {"passage": "P", "question": "Where?", "options": ["in Paris", "in Rome"], "label": label}
    example = ChoiceExample("1", "P", "Where?", ("in Paris", "in Rome"), 1)
    for name in ("a.jsonl", "a.parquet"):
        assert read_table(write(name, [row]), ChoiceColumns()).examples == (example,)
    path = write("a.csv", f"q,one,two,label\nWhere?,in Paris,in Rome,{label}\n")
    columns = ChoiceColumns(passage=None, question="q", options=("one", "two"))
    assert read_table(path, columns).examples[0].label == 1


@pytest.mark.parametrize("label", ["C", 2, -1, "in London", None, "1" * 5000, "1" * 5000 + ".0"])
def test_a_choice_that_is_no_option_is_told(write, label):
    row = {"passage": "P", "question": "Where?", "options": ["in Paris", "in Rome"], "label": label}
    with pytest.raises(FileFormatError, match="a.jsonl: 1 of 1 lines cannot be read.*(no option|no label)"):
        read_table(write("a.jsonl", [row]), ChoiceColumns())
