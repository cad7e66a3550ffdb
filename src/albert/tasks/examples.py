"""The examples of each task type, as readers build and encoders take them, and how they are grouped."""

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from albert.tasks.metrics.intervals import halve

# The place of a class, a number, or the places of several classes; None where nothing is known.
Label = int | float | tuple[int, ...] | None
RACE_LEVELS = ("middle", "high")


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


def halve_examples(examples: Sequence[Example], *, seed: int) -> tuple[list[int], list[int]]:
    """Draw two halves of rows; questions on one article or one passage stay together.

    One context or passage for all cannot be halved; one text shared by most rows does not tie them.
    """
    has_passages = any(
        isinstance(each, SpanExample) or (isinstance(each, ChoiceExample) and each.passage)
        for each in examples
    )
    most = len(examples) if has_passages else len(examples) // 2
    is_first = halve(group_examples(examples, most=most), seed=seed)
    first = [place for place, own in enumerate(is_first) if own]
    return first, [place for place, own in enumerate(is_first) if not own]


def group_examples(examples: Sequence[Example], *, most: int) -> list[int]:
    """Group the examples that share a text, directly or through others; a group is named by a row in it.

    Articles (if there are several), contexts and passages tie as texts do. A text that would tie more than
    `most` examples together does not; the rarest come first.
    """
    titles = {example.title for example in examples if isinstance(example, SpanExample)}
    has_articles = len(titles) > 1 and "" not in titles
    sharers: dict[Hashable, list[int]] = {}
    for place, example in enumerate(examples):
        if has_articles and isinstance(example, SpanExample):
            sharers.setdefault(("title", example.title), []).append(place)
        for text in list_texts(example):
            sharers.setdefault(text, []).append(place)
    groups = list(range(len(examples)))
    members = {place: [place] for place in groups}
    for places in sorted(sharers.values(), key=len):
        tied = dict.fromkeys(groups[place] for place in places)
        if len(tied) == 1 or sum(len(members[group]) for group in tied) > most:
            continue
        # The largest takes the others in, so that no example moves often.
        largest = max(tied, key=lambda group: len(members[group]))
        for group in tied:
            if group != largest:
                for place in members[group]:
                    groups[place] = largest
                members[largest] += members.pop(group)
    return groups


def list_texts(example: Example) -> list[Hashable]:
    """The texts that identify an example: both of a pair; of a question, its context or passage."""
    if isinstance(example, SpanExample):
        return [example.context]
    if isinstance(example, ChoiceExample):
        return [example.passage or example.question]
    if isinstance(example, TokenExample):
        return [example.words]
    return [example.first] if example.second is None else [example.first, example.second]
