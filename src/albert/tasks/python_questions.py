"""Texts, questions and options come in as a person has them in Python; examples go out, or what is wrong."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from albert.errors import InputError
from albert.tasks.examples import ChoiceExample, SpanExample, TextExample

# One text, or two that belong together.
TextOrPair = str | tuple[str, str]
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class WordText:
    """A text, its words, and the character at which each begins."""

    text: str
    words: tuple[str, ...]
    starts: tuple[int, ...]


def read_texts(texts: Iterable[TextOrPair]) -> list[TextExample]:
    """Texts and pairs; one text alone, which would be taken letter by letter, is refused."""
    return [_read_text(text, number) for number, text in _number(texts, "texts or of pairs")]


def read_words(texts: Iterable[str | Sequence[str]]) -> list[WordText]:
    """Texts, whose words have white space between them, and lists of words, which are joined by spaces."""
    return [_split(text, number) for number, text in _number(texts, "texts, or of lists of words")]


def read_questions(questions: str | Sequence[str], contexts: str | Sequence[str]) -> list[SpanExample]:
    """Each question with its context, or all with the same."""
    asked, read = _list_texts(questions, "question"), _list_texts(contexts, "context")
    read = read * len(asked) if isinstance(contexts, str) else read
    if len(asked) != len(read):
        raise InputError(f"{len(asked)} questions and {len(read)} contexts; give as many, or one context")
    pairs = zip(asked, read, strict=True)
    return [SpanExample(str(place), question, context) for place, (question, context) in enumerate(pairs)]


def read_choices(
    questions: str | Sequence[str], options: Iterable[Any], passages: str | Sequence[str]
) -> list[ChoiceExample]:
    """Each question with its options and its passage, or all with the same passage."""
    asked, read = _list_texts(questions, "question"), _list_texts(passages, "passage")
    rows = [options] if isinstance(questions, str) else list(options)
    read = read * len(asked) if isinstance(passages, str) else read
    if not len(asked) == len(rows) == len(read):
        raise InputError(
            f"{len(asked)} questions, {len(rows)} lists of options and {len(read)} passages; give as many of "
            "each, or one passage"
        )
    return [
        ChoiceExample(str(place), passage, question, _list_options(row, place + 1))
        for place, (question, row, passage) in enumerate(zip(asked, rows, read, strict=True))
    ]


def _number(texts: Iterable[Any], wanted: str) -> Iterable[tuple[int, Any]]:
    if isinstance(texts, str):
        raise InputError(f"{texts[:40]!r} is one text; give a list of {wanted}")
    return enumerate(texts, start=1)


def _read_text(text: Any, number: int) -> TextExample:
    parts = (text,) if isinstance(text, str) else text
    is_read = isinstance(parts, tuple | list) and len(parts) in (1, 2)
    if not is_read or not all(isinstance(part, str) for part in parts):
        raise InputError(f"text {number} is {repr(text)[:80]}; give a text (str), or a pair of texts")
    return TextExample(str(number), *parts)


def _split(text: Any, number: int) -> WordText:
    if isinstance(text, str):
        found = list(_WORD.finditer(text))
        return WordText(text, tuple(each[0] for each in found), tuple(each.start() for each in found))
    words = tuple(text) if isinstance(text, Iterable) else (text,)
    for word in words:
        if not isinstance(word, str) or not word.strip():
            raise InputError(f"text {number} has {word!r} among its words; give words that are not empty")
    starts = accumulate((len(word) + 1 for word in words), initial=0)
    return WordText(" ".join(words), words, tuple(starts)[: len(words)])


def _list_texts(texts: str | Sequence[str], name: str) -> list[str]:
    is_one = isinstance(texts, str) or not isinstance(texts, Iterable)
    listed: list[Any] = [texts] if is_one else list(texts)
    for number, text in enumerate(listed, start=1):
        if not isinstance(text, str):
            raise InputError(f"{name} {number} is {repr(text)[:80]}; give texts (str)")
    return listed


def _list_options(options: Any, number: int) -> tuple[str, ...]:
    if isinstance(options, str) or not isinstance(options, Iterable):
        raise InputError(f"the options of question {number} are {repr(options)[:80]}; give a list of texts")
    listed = tuple(_list_texts(tuple(options), f"of question {number}, option"))
    if len(listed) < 2:
        raise InputError(f"question {number} has {len(listed)} options; give at least two")
    return listed
