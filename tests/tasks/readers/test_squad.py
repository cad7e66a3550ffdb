"""SQuAD's JSON, 1.1 and 2.0: answers stay as they are, and what is wrong with them is counted."""

import json

import pytest
from albert.tasks.examples import Answer, SpanExample
from albert.tasks.readers.published import iter_squad

from albert.data.rows import Problems
from albert.errors import FileFormatError

CONTEXT = "Paris is large. Paris is old."


def question(name: str, *answers: tuple[str, int], **more):
    found = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": f"{name}?", "answers": found, **more}


def read(folder, *questions, has_impossible: bool = True):
    paragraphs = [{"context": CONTEXT, "qas": list(questions)}]
    path = folder / "dev.json"
    path.write_text(json.dumps({"version": "x", "data": [{"title": "T", "paragraphs": paragraphs}]}))
    problems = Problems(path, unit="question")
    examples = [each.example for each in iter_squad(path, has_impossible=has_impossible, problems=problems)]
    return examples, problems


def test_both_versions(tmp_path):
    plausible = [{"text": "old", "answer_start": 25}]
    examples, problems = read(
        tmp_path,
        question("a", ("Paris", 0), ("Paris", 16)),
        question("b", ("old", 25), is_impossible=True, plausible_answers=plausible),
        question("c"),
    )
    assert examples == [
        SpanExample("a", "a?", CONTEXT, (Answer("Paris", 0), Answer("Paris", 16)), False, "T"),
        SpanExample("b", "b?", CONTEXT, (), True, "T"),
        SpanExample("c", "c?", CONTEXT, (), False, "T"),
    ]
    assert problems.describe() == []


def test_answers_that_are_not_at_their_place_are_kept_and_counted(tmp_path):
    examples, problems = read(
        tmp_path, question("a", ("old", 24), ("Paris", 0)), question("b", ("Rome", 3)), question("c", ("", 0))
    )
    assert [len(example.answers) for example in examples] == [2, 1, 1]
    assert [example.places for example in examples] == [(Answer("Paris", 0),), (), ()]
    path = tmp_path / "dev.json"
    assert problems.describe() == [
        f"{path}: 2 questions with an answer that is nowhere in the context "
        "(first in question 2: question 'b', answer 'Rome' at 3)",
        f"{path}: 1 question with an answer that is not at its place in the context, but elsewhere in it "
        "(first in question 1: question 'a', answer 'old' at 24, found at 25)",
    ]


def test_an_impossible_question_has_no_place_in_1_1(tmp_path):
    examples, problems = read(
        tmp_path, question("a", ("Paris", 0)), question("b", is_impossible=True), has_impossible=False
    )
    assert [example.id for example in examples] == ["a"]
    assert problems.num_skipped == 1
    assert "which SQuAD 1.1 does not have (first in question 2: 'b')" in problems.describe()[0]


def test_broken_questions_are_left_out_and_counted(tmp_path):
    bad = [
        {"id": "x"},
        question("y", is_impossible="no"),
        {"id": "z", "question": "z?", "answers": [{"text": "Paris"}]},
        {"id": "w", "question": "w?", "answers": "Paris"},
    ]
    examples, problems = read(tmp_path, question("a", ("Paris", 0)), *bad)
    assert [example.id for example in examples] == ["a"]
    assert problems.num_skipped == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"data": [{]}', "dev.json: line 1 is not valid JSON"),
        ("[]", "dev.json has no list 'data'; is it a SQuAD file?"),
        ('{"data": [{"title": "T"}]}', "dev.json: article 1 has no list 'paragraphs'"),
        (
            '{"data": [{"paragraphs": [{"qas": []}]}]}',
            "dev.json: article 1 has a paragraph without a context",
        ),
    ],
)
def test_another_file_is_refused_by_its_place(tmp_path, content, message):
    path = tmp_path / "dev.json"
    path.write_text(content)
    with pytest.raises(FileFormatError) as caught:
        list(iter_squad(path, has_impossible=True, problems=Problems(path)))
    assert message in str(caught.value)


def test_an_id_names_one_question(tmp_path):
    with pytest.raises(FileFormatError, match="question 2: an id that occurs twice .'a'."):
        read(tmp_path, question("a", ("Paris", 0)), question("a", ("Paris", 16)))
