"""RACE's folders: a passage in each file, questions in the order of the files' numbers."""

import json

import pytest

from albert.errors import FileFormatError
from albert.tasks.catalogue import find_task
from albert.tasks.examples import ChoiceExample
from albert.tasks.readers.published import read_split

OPTIONS = ["a", "b", "c", "d"]


def write(folder, level: str, name: str, **changes) -> None:
    content = {"article": f"Text {name}.", "questions": ["Why?"], "options": [OPTIONS], "answers": ["C"]}
    path = folder / "dev" / level / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**content, "id": name, **changes}))


def read(folder):
    return read_split(find_task("race"), folder, split="dev")


def test_levels_files_and_questions_in_order(tmp_path):
    for name in ("10.txt", "9.txt"):
        write(tmp_path, "high", name)
    write(tmp_path, "middle", "77.txt", questions=["A?", "B?"], options=[OPTIONS] * 2, answers=["A", "D"])
    (tmp_path / "dev" / "high" / ".DS_Store").touch()
    examples = read(tmp_path).examples
    assert [example.id for example in examples] == [
        "middle/77.txt/0", "middle/77.txt/1", "high/9.txt/0", "high/10.txt/0",
    ]  # fmt: skip
    assert examples[1] == ChoiceExample("middle/77.txt/1", "Text 77.txt.", "B?", tuple(OPTIONS), 3, "middle")


def test_answers_may_be_missing_and_empty_options_are_told(tmp_path):
    write(tmp_path, "middle", "1.txt")
    path = tmp_path / "dev" / "high" / "2.txt"
    path.parent.mkdir()
    path.write_text(json.dumps({"article": "Text.", "questions": ["Why?"], "options": [["a", ""]]}))
    split = read(tmp_path)
    assert [example.label for example in split.examples] == [2, None]
    assert (
        "1 question with an empty passage or option (first in question 2: high/2.txt/0)"
        in (split.problems.describe()[0])
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": ["E"]}, "1.txt: question 1 has a label that is no option ('E' of 4: letters from A"),
        ({"answers": []}, "1.txt: has 1 questions, 1 lists of options and 0 answers"),
        ({"options": [["a"]]}, "1.txt: question 1 is not a text with a list of at least two options"),
        ({"article": None}, "1.txt: has no text 'article'"),
        ({"questions": None}, "1.txt: has no list 'questions'"),
    ],
)
def test_a_broken_passage_is_refused_by_its_file(tmp_path, changes, message):
    write(tmp_path, "high", "2.txt")
    write(tmp_path, "middle", "1.txt", **changes)
    with pytest.raises(FileFormatError) as caught:
        read(tmp_path)
    assert message in str(caught.value)


def test_an_empty_folder_is_refused(tmp_path):
    write(tmp_path, "middle", "1.txt")
    with pytest.raises(FileFormatError, match="high: no passages .* there"):
        read(tmp_path)
