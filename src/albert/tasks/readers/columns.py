# ruff: noqa: D102 - the methods are documented in `Columns`
"""The columns of a user's table for each task type, and how its rows become examples."""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from albert.data.problems import BadRow, Problems, quote
from albert.data.rows import Row, Wanted
from albert.settings import Settings
from albert.tasks.examples import ChoiceExample, Label, SpanExample, TextExample, TokenExample
from albert.tasks.labels import Labels, plain_label
from albert.tasks.readers.cells import (
    note_answers,
    read_answers,
    read_id,
    read_label,
    read_name,
    read_number,
    read_several,
    read_text,
    read_texts,
)

MAX_NUMBER = 1e15  # sums of squares of larger ones overflow 32-bit floats
_MAX_PLACE_DIGITS = 9  # longer numbers name no option


class Columns(Settings):
    """The names of a table's columns."""

    def wanted(self, *, is_labelled: bool) -> Wanted:
        """Return the columns to read; those of the labels only if `is_labelled`."""
        raise NotImplementedError

    def build(self, row: Row, labels: Labels | None, *, is_labelled: bool) -> Any:
        """Build the example of a row, with or without its label; raise `BadRow` if it is unusable."""
        raise NotImplementedError

    def note(self, example: Any, line: int, problems: Problems) -> None:
        """Count warnings about an example."""

    def list_labels(self, row: Row) -> Iterable[str]:
        """Return the names of a row's labels, if they have names."""
        return ()

    @property
    def least_labels(self) -> int:
        """How many different labels a table must have; 0 if labels have no names."""
        return 0


def _want(required: Iterable[str | None], optional: Iterable[str | None] = ()) -> Wanted:
    return Wanted(*(tuple(name for name in names if name is not None) for names in (required, optional)))


class TextColumns(Columns):
    """One text or a pair: `label_kind` says whether a row has one label, several, or a number.

    Several labels are a list, or one text in which `label_separator` stands between them.
    """

    text: str = "text"
    text_pair: str | None = None
    label: str = "label"
    label_kind: Literal["one", "several", "number"] = "one"
    label_separator: str = Field(default=",", min_length=1)
    id: str | None = None

    def wanted(self, *, is_labelled: bool) -> Wanted:
        return _want((self.text, self.text_pair, self.id, self.label if is_labelled else None))

    def build(
        self, row: Row, labels: Labels | None, *, is_labelled: bool, keeps_empty: bool = False
    ) -> TextExample:
        first = read_text(row, self.text)
        second = read_text(row, self.text_pair) if self.text_pair is not None else None
        label = self._read_label(row, labels) if is_labelled else None
        example = TextExample(read_id(row, self.id), first, second, label)
        if not keeps_empty and not f"{first}{second or ''}".strip():
            raise BadRow("an empty text")
        return example

    def _read_label(self, row: Row, labels: Labels | None) -> Label:
        if self.label_kind == "number":
            number = read_number(row, self.label)
            if abs(number) > MAX_NUMBER:
                reason = f"a number in column {self.label!r} that is too large"
                raise BadRow(reason, f"{number:g}; divide them")
            return number
        assert labels is not None
        places = [labels.place(name) for name in self.list_labels(row)]
        return places[0] if self.label_kind == "one" else tuple(sorted(set(places)))

    def note(self, example: TextExample, line: int, problems: Problems) -> None:
        if not example.first.strip() or (example.second is not None and not example.second.strip()):
            problems.note("an empty text", line=line)

    def list_labels(self, row: Row) -> list[str]:
        if self.label_kind == "several":
            return read_several(row, self.label, separator=self.label_separator)
        return [read_label(row, self.label)]

    @property
    def least_labels(self) -> int:
        return {"one": 2, "several": 1, "number": 0}[self.label_kind]


class SimilarityColumns(Columns):
    """Texts, or pairs that mean the same; how similar a pair is, in numbers, where the table tells."""

    text: str = "text"
    text_pair: str | None = None
    score: str = "score"
    id: str | None = None

    def wanted(self, *, is_labelled: bool) -> Wanted:
        # The second text is optional: single texts are evaluated on pairs of another table.
        return _want((self.text, self.id), (self.text_pair, self.score if is_labelled else None))

    def build(self, row: Row, labels: Labels | None, *, is_labelled: bool) -> TextExample:
        first = read_text(row, self.text)
        has_second = self.text_pair is not None and self.text_pair in row.values
        second = read_text(row, str(self.text_pair)) if has_second else None
        if not first.strip() or (second is not None and not second.strip()):
            raise BadRow("an empty text")
        has_score = is_labelled and row.values.get(self.score) not in (None, "")
        score = read_number(row, self.score) if has_score else None
        return TextExample(read_id(row, self.id), first, second, score)


class WordColumns(Columns):
    """Words and their labels, as lists or as texts with white space between; CoNLL files have these two."""

    words: str = "words"
    labels: str = "labels"
    id: str | None = None

    def wanted(self, *, is_labelled: bool) -> Wanted:
        return _want((self.words, self.id, self.labels if is_labelled else None))

    def build(self, row: Row, labels: Labels | None, *, is_labelled: bool) -> TokenExample:
        value = row.values.get(self.words)
        words = tuple(value.split()) if isinstance(value, str) else read_texts(row, self.words)
        if not words:
            raise BadRow("an empty text")
        name = read_id(row, self.id)
        if not is_labelled:
            return TokenExample(name, words)
        assert labels is not None
        names = self.list_labels(row)
        if len(names) != len(words):
            raise BadRow("not one label for each word", f"{len(words)} words and {len(names)} labels")
        return TokenExample(name, words, tuple(labels.place(each) for each in names))

    def list_labels(self, row: Row) -> list[str]:
        return read_several(row, self.labels, separator=None)

    @property
    def least_labels(self) -> int:
        return 2


class SpanColumns(Columns):
    """Questions on contexts. `answers` is a text, or as in SQuAD or `datasets`; without one, there is none.

    A text's first character is `answer_start`; where the table has no such column, its first occurrence.
    """

    question: str = "question"
    context: str = "context"
    answers: str = "answers"
    answer_start: str = "answer_start"
    title: str | None = None
    id: str | None = None

    def wanted(self, *, is_labelled: bool) -> Wanted:
        inputs = self.question, self.context, self.title, self.id
        return _want((*inputs, self.answers), (self.answer_start,)) if is_labelled else _want(inputs)

    def build(self, row: Row, labels: Labels | None, *, is_labelled: bool) -> SpanExample:
        question, context = read_text(row, self.question), read_text(row, self.context)
        if not question.strip() or not context.strip():
            raise BadRow("an empty question or context")
        names = {"text_column": self.answers, "start_column": self.answer_start}
        found = read_answers(row, context=context, **names) if is_labelled else ()
        title = read_text(row, self.title) if self.title is not None else ""
        is_impossible = is_labelled and not found
        return SpanExample(read_id(row, self.id), question, context, found, is_impossible, title)

    def note(self, example: SpanExample, line: int, problems: Problems) -> None:
        note_answers(example, line, problems)


class ChoiceColumns(Columns):
    """Questions with options: one column that is a list, or one column for each option.

    The label is a letter from A, a number from 0, or the text of the option.
    """

    passage: str | None = "passage"
    question: str = "question"
    options: tuple[str, ...] = Field(default=("options",), min_length=1)
    label: str = "label"
    level: str | None = None
    id: str | None = None

    def wanted(self, *, is_labelled: bool) -> Wanted:
        label = self.label if is_labelled else None
        return _want((self.passage, self.question, *self.options, self.level, self.id, label))

    def build(self, row: Row, labels: Labels | None, *, is_labelled: bool) -> ChoiceExample:
        if len(self.options) == 1:
            options = read_texts(row, self.options[0])
        else:
            options = tuple(read_text(row, name) for name in self.options)
        if len(options) < 2:
            raise BadRow("fewer than two options", f"{len(options)}")
        passage = read_text(row, self.passage) if self.passage is not None else ""
        question = read_text(row, self.question)
        if not f"{passage}{question}".strip():
            raise BadRow("an empty passage and question")
        label = None
        if is_labelled:
            label = place_option(read_name(row.values.get(self.label), self.label), options)
        level = read_label(row, self.level) if self.level is not None else ""
        return ChoiceExample(read_id(row, self.id), passage, question, options, label, level)

    def note(self, example: ChoiceExample, line: int, problems: Problems) -> None:
        if not all(option.strip() for option in example.options):
            problems.note("an empty option", line=line)


def place_option(name: str, options: tuple[str, ...]) -> int:
    """Return the index of the option that a letter from A, a number from 0 or its own text means."""
    by_text = next((place for place, option in enumerate(options) if option.strip() == name), None)
    by_name = _read_place(name, options)
    if by_text is not None and by_name is not None and by_text != by_name:
        raise BadRow(
            "a label that means two options",
            f"{quote(name)} is the text of option {by_text} and the place of option {by_name}, counted from "
            "0; write letters from A, or whole texts of options that are neither letters nor numbers",
            is_fatal=True,
        )
    place = by_text if by_name is None else by_name
    return place_letter(plain_label(name), options) if place is None else place  # 1.0 is 1, unless a text


def place_letter(name: str, options: tuple[str, ...]) -> int:
    """Return the index of the option that a letter from A means, as in RACE, whatever the options are."""
    place = _read_place(name, options)
    if place is None:
        raise BadRow(
            "a label that is no option", f"{quote(name)} of {len(options)}: letters from A, numbers from 0"
        )
    return place


def _read_place(name: str, options: tuple[str, ...]) -> int | None:
    if len(name) == 1 and name.isascii() and name.isalpha():
        place = ord(name.upper()) - ord("A")
    elif name.isdecimal() and len(name) <= _MAX_PLACE_DIGITS:
        place = int(name)
    else:
        return None
    return place if place < len(options) else None
