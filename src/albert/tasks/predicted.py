"""What a kind of task says of an answer comes in, by the names of its JSON; small frozen records go out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from albert.tasks.python_questions import WordText


@dataclass(frozen=True)
class Classification:
    """The likeliest label of a text, and how likely each is; together they are 1."""

    label: str
    probability: float
    probabilities: Mapping[str, float]

    @staticmethod
    def of(row: Mapping[str, Any]) -> "Classification":
        """The record of a described answer."""
        return Classification(row["label"], row["probabilities"][row["label"]], row["probabilities"])


@dataclass(frozen=True)
class LabelSet:
    """Every label that is likelier to hold of a text than not; each has a probability by itself."""

    labels: tuple[str, ...]
    probabilities: Mapping[str, float]

    @staticmethod
    def of(row: Mapping[str, Any]) -> "LabelSet":
        """The record of a described answer."""
        return LabelSet(tuple(row["labels"]), row["probabilities"])


@dataclass(frozen=True)
class ContextAnswer:
    """The characters `[start, end)` of a context that answer a question, and how likely among the best ones.

    A question without an answer has the text "", and neither characters nor a probability. `null_odds` speak
    for no answer, of a model that knows of questions without one.
    """

    text: str
    start: int | None
    end: int | None
    probability: float | None
    null_odds: float | None = None

    @staticmethod
    def of(row: Mapping[str, Any]) -> "ContextAnswer":
        """The record of a described answer."""
        place = (row["start"], row["end"])
        return ContextAnswer(row["answer"], *place, row["probability"], row.get("null_odds"))

    @property
    def is_found(self) -> bool:
        """Whether there is an answer."""
        return self.start is not None


@dataclass(frozen=True)
class Choice:
    """The place of the likeliest option, counted from 0, its text, and how likely each option is."""

    place: int
    option: str
    probability: float
    probabilities: tuple[float, ...]

    @staticmethod
    def of(row: Mapping[str, Any], options: Sequence[str]) -> "Choice":
        """The record of a described answer, with the options that it was chosen from."""
        found = tuple(row["probabilities"])
        place = max(range(len(found)), key=found.__getitem__)
        return Choice(place, options[place], found[place], found)


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
    """Neighbouring words that the labels mark as one thing, and the characters of the text that they are.

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
    def of(row: Mapping[str, Any], text: WordText) -> "Tagging":
        """The record of a described answer, with the text that its words are from."""
        parts = zip(text.words, text.starts, row["labels"], row["probabilities"], strict=True)
        words = tuple(TaggedWord(word, at, at + len(word), label, sure) for word, at, label, sure in parts)

        def build(found: Mapping[str, Any]) -> FoundEntity:
            start, end = words[found["first"]].start, words[found["last"]].end
            return FoundEntity(found["type"], text.text[start:end], start, end, found["probability"])

        return Tagging(words, tuple(build(found) for found in row.get("entities", ())))
