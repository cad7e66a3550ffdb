"""GLUE's official files, with all that is odd about them."""

import pytest

from albert.errors import FileFormatError
from albert.tasks.catalogue import find_task
from albert.tasks.examples import TextExample
from albert.tasks.readers.published import Split, read_split


def read(folder, name: str, split: str, content: str | bytes) -> Split[TextExample]:
    task = find_task(name)
    path = folder / task.folder / task.files[split]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_split(task, folder, split=split)


def test_cola_has_no_header_but_in_its_test(tmp_path):
    dev = read(tmp_path, "cola", "dev", 'gj04\t1\t\tHe said "no.\ngj04\t0\t*\t"Him said" no.')
    assert dev.examples == (
        TextExample("0", 'He said "no.', None, 1),
        TextExample("1", '"Him said" no.', None, 0),
    )
    test = read(tmp_path, "cola", "test", "index\tsentence\n7\tBill left.\n")
    assert test.examples == (TextExample("7", "Bill left."),)


def test_quotes_are_plain_characters_and_fields_are_not_stripped(tmp_path):
    found = read(tmp_path, "sst-2", "train", 'sentence\tlabel\n"a ""good"" film \t1\nit \'s bad "\t0\n')
    assert [example.first for example in found.examples] == ['"a ""good"" film ', "it 's bad \""]


def test_mrpc_begins_with_a_byte_order_mark_and_numbers_its_columns(tmp_path):
    content = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t12\t34\tOne .\tTwo .\r\n"
    assert read(tmp_path, "mrpc", "dev", content).examples == (TextExample("0", "One .", "Two .", 1),)


def test_mnli_is_read_by_the_names_of_its_columns(tmp_path):
    header = "index\tpromptID\tgenre\tsentence1_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
    row = "3\t5\tfiction\t( a )\tA.\tB.\tneutral\tcontradiction\n"
    for split in ("train", "dev", "dev-mismatched"):
        assert read(tmp_path, "mnli", split, header + row).examples == (TextExample("3", "A.", "B.", 2),)
    reduced = "index\tsentence1\tsentence2\tgold_label\n3\tA.\tB.\tentailment\n"
    assert read(tmp_path, "mnli", "dev", reduced).examples == (TextExample("3", "A.", "B.", 0),)
    test = "index\tgenre\tsentence1\tsentence2\n9\tfiction\tA.\tB.\n"
    assert read(tmp_path, "mnli", "test-mismatched", test).examples == (TextExample("9", "A.", "B."),)


def test_sts_b_is_a_number_and_the_diagnostic_set_has_no_labels(tmp_path):
    sts = "index\tgenre\tsentence1\tsentence2\tscore\n0\tnews\tA.\tB.\t3.800\n"
    assert read(tmp_path, "sts-b", "dev", sts).examples[0].label == 3.8
    diagnostic = "index\tsentence1\tsentence2\n0\tA.\tB.\n1\tC.\tD."
    assert read(tmp_path, "ax", "test", diagnostic).examples[1] == TextExample("1", "C.", "D.")


def test_only_line_feeds_end_a_line(tmp_path):
    text = "one\u2028two\x85three\x0bfour"
    assert read(tmp_path, "sst-2", "dev", f"sentence\tlabel\n{text}\t1\n").examples[0].first == text


def test_an_empty_text_stays_and_is_told(tmp_path):
    split = read(tmp_path, "qqp", "dev", "id\tquestion1\tquestion2\tis_duplicate\n4\tWhy?\t\t0\n")
    assert split.examples == (TextExample("4", "Why?", "", 0),)
    path = tmp_path / "QQP" / "dev.tsv"
    assert split.problems.describe() == [f"{path}: 1 line with an empty text (first in line 2)"]


def test_a_few_broken_rows_are_left_out_and_told(tmp_path):
    rows = ["sentence\tlabel", *["fine\t1"] * 50, "torn", *["good\t0"] * 9]
    split = read(tmp_path, "sst-2", "train", "\n".join(rows))
    assert len(split.examples) == 59
    assert split.problems.describe() == [
        f"{tmp_path / 'SST-2' / 'train.tsv'}: left out 1 line: wrong number of fields "
        "(first in line 52: 1, and 2 columns)"
    ]


@pytest.mark.parametrize(
    ("split", "content", "message"),
    [
        ("dev", "text\tlabel\nfine\t1\n", "dev.tsv: no column 'sentence' but 'text', 'label'; give"),
        ("dev", "sentence\nfine\n", "dev.tsv: no column 'label' but 'sentence'"),
        ("dev", "sentence\tlabel\nfine\t1\nodd\t2\n", "dev.tsv: line 3: the label '2' is unknown (known: 0"),
        ("dev", "sentence\tlabel\n", "dev.tsv: holds no examples; check the path"),
        ("dev", "", "dev.tsv: empty; its first line should name the columns"),
        ("dev", "sentence\tlabel\na\t1\nb\n", "dev.tsv: 1 of 2 lines cannot be read, and at most 10% may be"),
        ("test", "index\tsentence\n0\tfine\n1\n", "test.tsv: line 3: wrong number of fields (1, and 2"),
        ("test", b"index\tsentence\n0\tcaf\xe9\n", "test.tsv: line 2: bytes that are not UTF-8 (0xe9 behin"),
        ("dev", "sentence\tlabel\n".encode("utf-16"), "dev.tsv: line 1: bytes that are not UTF-8 (0xff"),
        ("dev", "sentence\tlabel\tlabel\na\t1\t1\n", "dev.tsv: has the column 'label' twice"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_line(tmp_path, split, content, message):
    with pytest.raises(FileFormatError) as caught:
        read(tmp_path, "sst-2", split, content)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
