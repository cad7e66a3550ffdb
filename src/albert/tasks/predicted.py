"""What `TaskPredictor` takes and returns: Python inputs become examples, predictions become records."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from albert.errors import InputError
from albert.tasks.examples import ChoiceExample, SpanExample, TextExample

# One text, or two that belong together.
TextOrPair = str | tuple[str, str]
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Classification:
    """The likeliest label of a text, and the probability of each, which sum to 1."""

    label: str
    probability: float
    probabilities: Mapping[str, float]


@dataclass(frozen=True)
class LabelSet:
    """Every label of a text with a probability above 0.5; the probabilities are independent."""

    labels: tuple[str, ...]
    probabilities: Mapping[str, float]


@dataclass(frozen=True)
class ContextAnswer:
    """The characters `[start, end)` of a context that answer a question, and their probability.

    A question without an answer has the text "", and neither characters nor a probability. `null_odds` are
    the odds for no answer, of a model that knows of questions without one.
    """

    text: str
    start: int | None
    end: int | None
    probability: float | None
    null_odds: float | None = None

    @property
    def is_found(self) -> bool:
        """Whether there is an answer."""
        return self.start is not None


@dataclass(frozen=True)
class Choice:
    """The index of the likeliest option, its text, and the probability of each option."""

    place: int
    option: str
    probability: float
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class TaggedWord:
    """A word, its characters `[start, end)` in the text, and its likeliest label."""

    text: str
    start: int
    end: int
    label: str
    probability: float


@dataclass(frozen=True)
class FoundEntity:
    """Neighboring words that the labels mark as one entity, and their characters in the text.

    `probability` is that of all its labels together.
    """

    type: str
    text: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True)
class Tagging:
    """The words of a text with their labels, and the entities where the labels are O, B-… and I-…"""

    words: tuple[TaggedWord, ...]
    entities: tuple[FoundEntity, ...] = ()

    @staticmethod
    def of(row: Mapping[str, Any], text: "WordText") -> "Tagging":
        """Build the record of a described answer, with the characters of its words."""
        parts = zip(text.words, text.starts, row["labels"], row["probabilities"], strict=True)
        words = tuple(TaggedWord(word, at, at + len(word), label, sure) for word, at, label, sure in parts)
        entities = []
        for found in row.get("entities", ()):
            start, end = words[found["first"]].start, words[found["last"]].end
            entities.append(
                FoundEntity(found["type"], text.text[start:end], start, end, found["probability"])
            )
        return Tagging(words, tuple(entities))


@dataclass(frozen=True)
class WordText:
    """A text, its words, and the character at which each begins."""

    text: str
    words: tuple[str, ...]
    starts: tuple[int, ...]


def read_texts(texts: Iterable[TextOrPair]) -> list[TextExample]:
    """Read texts and pairs; a single string, which would be read letter by letter, is rejected."""
    examples = []
    for number, text in _number(texts, "texts or of pairs"):
        parts: Any = (text,) if isinstance(text, str) else text
        is_read = isinstance(parts, tuple | list) and len(parts) in (1, 2)
        if not is_read or not all(isinstance(part, str) for part in parts):
            raise InputError(f"text {number} is {repr(text)[:80]}; give a text (str), or a pair of texts")
        examples.append(TextExample(str(number), *parts))
    return examples


def read_words(texts: Iterable[str | Sequence[str]]) -> list[WordText]:
    """Read texts, whose words have white space between them, and lists of words, joined by spaces."""
    found = []
    for number, text in _number(texts, "texts, or of lists of words"):
        if isinstance(text, str):
            matches = list(_WORD.finditer(text))
            spans = tuple(each[0] for each in matches), tuple(each.start() for each in matches)
            found.append(WordText(text, *spans))
            continue
        words = tuple(text) if isinstance(text, Iterable) else (text,)
        for word in words:
            if not isinstance(word, str) or not word.strip():
                raise InputError(f"text {number} has {word!r} among its words; give words that are not empty")
        starts = accumulate((len(word) + 1 for word in words), initial=0)
        found.append(WordText(" ".join(words), words, tuple(starts)[: len(words)]))
    return found


def read_questions(questions: str | Sequence[str], contexts: str | Sequence[str]) -> list[SpanExample]:
    """Read each question with its context, or all with the same."""
    asked, read = _list_texts(questions, "question"), _list_texts(contexts, "context")
    read = read * len(asked) if isinstance(contexts, str) else read
    if len(asked) != len(read):
        raise InputError(f"{len(asked)} questions and {len(read)} contexts; give as many, or one context")
    pairs = zip(asked, read, strict=True)
    return [SpanExample(str(place), question, context) for place, (question, context) in enumerate(pairs)]


def read_choices(
    questions: str | Sequence[str], options: Iterable[Any], passages: str | Sequence[str]
) -> list[ChoiceExample]:
    """Read each question with its options and its passage, or all with the same passage."""
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
