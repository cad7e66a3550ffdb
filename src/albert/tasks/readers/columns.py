"""The columns of a user's table for each task type, and how its rows become examples."""

import math
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from albert.data.rows import BadRow, Problems, Row, Wanted, quote
from albert.settings import Settings
from albert.tasks.examples import (
    Answer,
    ChoiceExample,
    Label,
    SpanExample,
    TextExample,
    TokenExample,
    stands_at,
)
from albert.tasks.labels import Labels, plain_label

MAX_NUMBER = 1e15  # sums of squares of larger ones overflow 32-bit floats
_TEXT, _START = "text", "answer_start"
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
    return Wanted(tuple(each for each in required if each is not None), tuple(filter(None, optional)))


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


def read_text(row: Row, column: str) -> str:
    """Return a text; it may be empty, but not missing."""
    value = row.values.get(column)
    if not isinstance(value, str):
        raise BadRow(f"no text in column {column!r}", f"it holds {_describe(value)}")
    return value


def read_id(row: Row, column: str | None) -> str:
    """Return the id of a row, by default the number of its line."""
    value = row.values.get(column) if column is not None else row.line
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadRow(f"no name in column {column!r}", f"it holds {_describe(value)}")
    return str(value)


def read_label(row: Row, column: str) -> str:
    """Return a label, spelled the same in every format: 1, 1.0, "1" and "1.0"; True, "True" and `true`."""
    return plain_label(read_name(row.values.get(column), column))


def read_name(value: Any, column: str) -> str:
    """Return a label as it is written; numbers and booleans are spelled the same in every format."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_name = isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    name = str(value).strip() if is_name else ""  # many tables have nan in an empty cell
    if not name:
        raise BadRow(f"no label in column {column!r}", f"it holds {_describe(value)}")
    return name


def read_number(row: Row, column: str) -> float:
    """Return a finite number, which may be written as a text."""
    value = row.values.get(column)
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise BadRow(f"no number in column {column!r}", f"it holds {_describe(value)}")
    return number


def read_several(row: Row, column: str, *, separator: str | None) -> list[str]:
    """Return a list of labels, which may be a text with separators (by default white space)."""
    value = row.values.get(column)
    if isinstance(value, str):
        parts: list[Any] = value.split(separator)
        value = [part for part in parts if part.strip()]
    if not isinstance(value, list | tuple):
        raise BadRow(f"no list in column {column!r}", f"it holds {_describe(value)}")
    return [plain_label(read_name(each, column)) for each in value]


def read_texts(row: Row, column: str) -> tuple[str, ...]:
    """Return a list of texts."""
    value = row.values.get(column)
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise BadRow(f"no list of texts in column {column!r}", f"it holds {_describe(value)}")
    return tuple(value)


def _describe(value: Any) -> str:
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int | float):
        return str(value)
    return "nothing" if value is None else f"a {type(value).__name__}"


def read_answers(row: Row, *, context: str, text_column: str, start_column: str) -> tuple[Answer, ...]:
    """Return the answers to a question: one text with its start, or lists as in SQuAD or `datasets`.

    A text without a start is looked up in the context. White space is no answer.
    """
    value = row.values.get(text_column)
    if not isinstance(value, str):
        answers = () if value is None else parse_answers(value, context=context)
        return tuple(answer for answer in answers if answer.text.strip())
    if not value.strip():
        return ()
    start = row.values.get(start_column)
    try:
        return (Answer(value, _find_start(start, text=value, context=context)),)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRow(
            f"no whole number in column {start_column!r}", f"it holds {quote(str(start))}"
        ) from error


def parse_answers(value: Any, *, context: str) -> tuple[Answer, ...]:
    """Parse `[{text, answer_start}, …]` as in SQuAD, or `{text: […], answer_start: […]}` as in `datasets`."""
    reason = "answers that are not understood"
    if isinstance(value, dict):
        texts, starts = value.get(_TEXT), value.get(_START)
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise BadRow(reason, f"lists of {_TEXT} and {_START} expected")
        value = [{_TEXT: text, _START: start} for text, start in zip(texts, starts, strict=True)]
    if not isinstance(value, list):
        raise BadRow(reason, f"a list expected, and it is a {type(value).__name__}")
    answers: list[Answer] = []
    for answer in value:
        text = answer.get(_TEXT) if isinstance(answer, dict) else None
        try:
            if not isinstance(text, str) or _START not in answer:
                raise ValueError
            answers.append(Answer(text, _find_start(answer[_START], text=text, context=context)))
        except (TypeError, ValueError, OverflowError) as error:
            raise BadRow(reason, f"each needs a {_TEXT} and a number {_START}") from error
    return tuple(answers)


def _find_start(value: Any, *, text: str, context: str) -> int:
    """Return a whole number, which may be written 3.0; if it is missing, the first occurrence."""
    if isinstance(value, bool):
        raise ValueError(value)
    number = math.nan if value is None or value == "" else float(value)
    if math.isnan(number):
        return context.find(text)
    if not number.is_integer():
        raise ValueError(value)
    return int(number)


def note_answers(example: SpanExample, line: int, problems: Problems) -> None:
    """Count answers that are not where they should be, apart from those that are nowhere in the context."""
    for answer in example.answers:
        if stands_at(answer, example.context):
            continue
        elsewhere = example.context.find(answer.text) if answer.text else -1
        detail = f"question {quote(example.id)}, answer {quote(answer.text)} at {answer.start}"
        if elsewhere >= 0:
            reason = "an answer that is not at its place in the context, but elsewhere in it"
            problems.note(reason, line=line, detail=f"{detail}, found at {elsewhere}")
        else:
            problems.note("an answer that is nowhere in the context", line=line, detail=detail)
    if not example.question.strip() or not example.context.strip():
        problems.note("an empty question or context", line=line, detail=f"question {quote(example.id)}")
