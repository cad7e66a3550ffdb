"""The names of a user's columns come in as settings; one closed class for each kind of task goes out."""

from typing import Literal

from pydantic import Field

from albert.settings import Settings


class TextColumns(Settings):
    """One text or a pair: `label_kind` says whether a row has one label, several, or a number.

    Several labels are a list, or one text in which `label_separator` stands between them.
    """

    text: str = "text"
    text_pair: str | None = None
    label: str = "label"
    label_kind: Literal["one", "several", "number"] = "one"
    label_separator: str = Field(default=",", min_length=1)
    id: str | None = None


class SimilarityColumns(Settings):
    """Texts, or pairs that mean the same; how similar a pair is, in numbers, where the table tells."""

    text: str = "text"
    text_pair: str | None = None
    score: str = "score"
    id: str | None = None


class WordColumns(Settings):
    """Words and their labels, as lists or as texts with white space between; CoNLL files have these two."""

    words: str = "words"
    labels: str = "labels"
    id: str | None = None


class SpanColumns(Settings):
    """Questions on contexts. `answers` is a text, or as in SQuAD or `datasets`; without one, there is none.

    A text's first character is `answer_start`; where the table has no such column, its first occurrence.
    """

    question: str = "question"
    context: str = "context"
    answers: str = "answers"
    answer_start: str = "answer_start"
    title: str | None = None
    id: str | None = None


class ChoiceColumns(Settings):
    """Questions with options: one column that is a list, or one column for each option.

    The label is a letter from A, a number from 0, or the text of the option.
    """

    passage: str | None = "passage"
    question: str = "question"
    options: tuple[str, ...] = Field(default=("options",), min_length=1)
    label: str = "label"
    level: str | None = None
    id: str | None = None
