"""A folder of RACE in its official layout comes in, its questions go out, each with its passage."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from albert.errors import FileFormatError
from albert.files import read_json
from albert.tasks.examples import RACE_LEVELS, ChoiceExample, Numbered
from albert.tasks.problems import BadRow, Problems
from albert.tasks.readers.kinds import place_letter


def iter_race(
    folder: Path, *, problems: Problems, levels: Sequence[str] = RACE_LEVELS
) -> Iterator[Numbered[ChoiceExample]]:
    """The questions of a split's folder, `{middle,high}/*.txt`; `problems` counts questions.

    Files go in the order of their numbers. A question is called by its file and its place in it, from 0. The
    answers are letters, and may be missing altogether, as in a test.
    """
    number = 0
    for level in levels:
        for path in find_passages(folder, level=level):
            for example in _read_passage(path, level=level):
                number += 1
                if not example.passage.strip() or not all(option.strip() for option in example.options):
                    problems.note("an empty passage or option", line=number, detail=example.id)
                yield Numbered(number, example)


def find_passages(folder: Path, *, level: str) -> list[Path]:
    """The files of one level, one passage each, in the order of their numbers."""
    paths = sorted((Path(folder) / level).glob("*.txt"), key=lambda path: (len(path.name), path.name))
    if not paths:
        raise FileFormatError(
            f"{Path(folder) / level}: no passages (*.txt) there; give the folder that has train/middle"
        )
    return paths


def _read_passage(path: Path, *, level: str) -> list[ChoiceExample]:
    content = read_json(path)
    article = content.get("article") if isinstance(content, dict) else None
    if not isinstance(article, str):
        raise FileFormatError(f"{path}: has no text 'article'; is it a passage of RACE?")
    questions, options = (_read_list(content, key, path=path) for key in ("questions", "options"))
    answers = _read_list(content, "answers", path=path) if "answers" in content else [None] * len(questions)
    if not len(questions) == len(options) == len(answers):
        raise FileFormatError(
            f"{path}: has {len(questions)} questions, {len(options)} lists of options and {len(answers)} "
            "answers; there should be as many of each"
        )
    rows = enumerate(zip(questions, options, answers, strict=True))
    return [_build_example(path, level, article, place, *row) for place, row in rows]


def _build_example(
    path: Path, level: str, article: str, place: int, question: Any, options: Any, answer: Any
) -> ChoiceExample:
    where = f"{path}: question {place + 1}"
    texts = [question, *options] if isinstance(options, list) else []
    if len(texts) < 3 or not all(isinstance(text, str) for text in texts):
        raise FileFormatError(f"{where} is not a text with a list of at least two options; fetch it again")
    try:
        label = None if answer is None else place_letter(str(answer), tuple(options))
    except BadRow as bad:
        raise FileFormatError(f"{where} has {bad.reason} ({bad.detail}); mend it") from bad
    return ChoiceExample(f"{level}/{path.name}/{place}", article, question, tuple(options), label, level)


def _read_list(content: Any, key: str, *, path: Path) -> list[Any]:
    found = content.get(key)
    if not isinstance(found, list):
        raise FileFormatError(f"{path}: has no list {key!r}; is it a passage of RACE?")
    return found
