"""A file in SQuAD's JSON, 1.1 or 2.0, comes in; its questions go out, each with its context."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert.errors import FileFormatError
from albert.files import read_json
from albert.tasks.examples import Numbered, SpanExample
from albert.tasks.problems import BadRow, Problems, iter_good, quote
from albert.tasks.readers.answers import note_answers, parse_answers


@dataclass(frozen=True, slots=True)
class _Question:
    """A question as it stands in the file, and its number there, counted from 1."""

    line: int
    title: str
    context: str
    content: Any


def iter_squad(path: Path, *, has_impossible: bool, problems: Problems) -> Iterator[Numbered[SpanExample]]:
    """The questions in the order of the file; `problems` counts questions.

    Answers stay as they are; those that are not at their place in the context are counted. Without
    `has_impossible`, as in 1.1, a question that the file calls impossible is left out and counted.
    """
    seen: set[str] = set()

    def build(question: _Question) -> Numbered[SpanExample]:
        example = _build_example(question, has_impossible=has_impossible)
        if example.id in seen:
            raise BadRow("an id that occurs twice", quote(example.id), is_fatal=True)
        seen.add(example.id)
        note_answers(example, line=question.line, problems=problems)
        return Numbered(question.line, example)

    return iter_good(_iter_questions(path), build, problems=problems)


def _build_example(question: _Question, *, has_impossible: bool) -> SpanExample:
    content = question.content
    if not isinstance(content, dict) or not all(
        isinstance(content.get(key), str) for key in ("id", "question")
    ):
        raise BadRow("a question without an id or a text")
    is_impossible = content.get("is_impossible", False)
    if not isinstance(is_impossible, bool):
        raise BadRow("is_impossible is neither true nor false", quote(content["id"]))
    if is_impossible and not has_impossible:
        raise BadRow("a question without an answer, which SQuAD 1.1 does not have", quote(content["id"]))
    return SpanExample(
        id=content["id"],
        question=content["question"],
        context=question.context,
        # An impossible question may have plausible answers, which answer another one.
        answers=() if is_impossible else parse_answers(content.get("answers", []), context=question.context),
        is_impossible=is_impossible,
        title=question.title,
    )


def _iter_questions(path: Path) -> Iterator[_Question]:
    number = 0
    for place, article in enumerate(_read_list(read_json(path), "data", where=str(path)), start=1):
        where = f"{path}: article {place}"
        for paragraph in _read_list(article, "paragraphs", where=where):
            context = paragraph.get("context") if isinstance(paragraph, dict) else None
            if not isinstance(context, str):
                raise FileFormatError(f"{where} has a paragraph without a context; is it a SQuAD file?")
            for content in _read_list(paragraph, "qas", where=where):
                number += 1
                yield _Question(number, str(article.get("title", "")), context, content)


def _read_list(value: Any, key: str, *, where: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise FileFormatError(f"{where} has no list {key!r}; is it a SQuAD file?")
    return found
