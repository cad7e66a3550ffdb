"""What the readers hand out and the encoders take in: one small frozen example for each kind of task."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

# The place of a class, a number, or the places of several classes; None where nothing is known.
Label = int | float | tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class TextExample:
    """One text or a pair of them, to be put into a class or given a number."""

    id: str
    first: str
    second: str | None = None
    label: Label = None


@dataclass(frozen=True, slots=True)
class TokenExample:
    """A text cut into words, and the place of each word's label; None where nothing is known."""

    id: str
    words: tuple[str, ...]
    labels: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A text that answers a question, and the character of the context at which it begins."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class SpanExample:
    """A question whose answer is a piece of the context.

    Without answers and not `is_impossible`, nothing is known. Answers are kept as they were found, also those
    that do not stand at their place: a score compares their texts. `places` leaves these out.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] = ()
    is_impossible: bool = False
    title: str = ""

    @property
    def places(self) -> tuple[Answer, ...]:
        """The answers that the context has where they say."""
        return tuple(answer for answer in self.answers if stands_at(answer, self.context))


@dataclass(frozen=True, slots=True)
class ChoiceExample:
    """A question on a passage with several options, and the place of the right one; None where unknown."""

    id: str
    passage: str
    question: str
    options: tuple[str, ...]
    label: int | None = None
    level: str = ""


Example = TextExample | TokenExample | SpanExample | ChoiceExample
E = TypeVar("E", bound=Example, covariant=True)


@dataclass(frozen=True, slots=True)
class Numbered(Generic[E]):
    """An example and the line (of a Parquet file, the row) at which it begins, counted from 1."""

    line: int
    example: E


def stands_at(answer: Answer, context: str) -> bool:
    """Whether the context has the answer's text at its place, and the text is not empty."""
    return answer.start >= 0 and answer.text != "" and context.startswith(answer.text, answer.start)


def list_places(label: Label) -> tuple[int, ...]:
    """The places of the classes that a label names; none where nothing is known."""
    if label is None:
        return ()
    return label if isinstance(label, tuple) else (int(label),)


def list_label_places(example: Example) -> tuple[int, ...]:
    """The places of all labels of a text, or of its words; other examples have none."""
    if isinstance(example, TokenExample):
        return example.labels or ()
    return list_places(example.label) if isinstance(example, TextExample) else ()


def identify_examples(examples: Iterable[Example]) -> str:
    """A hash of examples, whatever their order: by it a model knows what it has learned from."""
    digests = sorted(hashlib.sha256(repr(example).encode()).digest() for example in examples)
    return hashlib.sha256(b"".join(digests)).hexdigest()
