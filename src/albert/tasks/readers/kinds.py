"""Build the examples of each task type from the rows of a table, by the names of its columns."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from pydantic import Field

from albert.data.problems import BadRow, Problems, quote
from albert.data.rows import Row, Wanted
from albert.settings import Settings
from albert.tasks.examples import ChoiceExample, Example, Label, SpanExample, TextExample, TokenExample
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

C = TypeVar("C", bound=Settings)
E = TypeVar("E", bound=Example)
MAX_NUMBER = 1e15  # sums of squares of larger ones overflow 32-bit floats
_MAX_PLACE_DIGITS = 9  # longer numbers name no option


@dataclass(frozen=True)
class TableKind(Generic[C, E]):
    """How tables of one task type are read.

    Attributes:
        inputs: The columns that are always read.
        outputs: The columns of the labels.
        build: Builds the example of a row, with or without labels.
        note: Counts warnings about an example.
        names: The names of a row's labels.
        least_names: How many different labels a table must have; 0 if labels have no names.
        more: Columns that are read if the table has them.
    """

    inputs: Callable[[C], Iterable[str | None]]
    outputs: Callable[[C], Wanted]
    build: Callable[[Row, C, Labels | None, bool], E]
    note: Callable[[E, int, Problems], None]
    names: Callable[[Row, C], Iterable[str]] = lambda row, columns: ()
    least_names: Callable[[C], int] = lambda columns: 0
    more: Callable[[C], Iterable[str | None]] = lambda columns: ()

    def wanted(self, columns: C, *, is_labelled: bool) -> Wanted:
        """Return the columns to read; those of the labels only if `is_labelled`."""
        inputs, more = (
            tuple(name for name in names if name is not None)
            for names in (self.inputs(columns), self.more(columns))
        )
        outputs = self.outputs(columns) if is_labelled else Wanted(())
        return Wanted((*inputs, *outputs.required), (*more, *outputs.optional))


# Classification, multilabel, regression


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


def build_text(row: Row, columns: TextColumns, labels: Labels | None, is_labelled: bool) -> TextExample:
    """Build an example of one text or two, with the label that `label_kind` says."""
    first = read_text(row, columns.text)
    second = read_text(row, columns.text_pair) if columns.text_pair is not None else None
    label = _read_text_label(row, columns, labels) if is_labelled else None
    return TextExample(read_id(row, columns.id), first, second, label)


def _read_text_label(row: Row, columns: TextColumns, labels: Labels | None) -> Label:
    if columns.label_kind == "number":
        number = read_number(row, columns.label)
        if abs(number) > MAX_NUMBER:
            raise BadRow(
                f"a number in column {columns.label!r} that is too large", f"{number:g}; divide them"
            )
        return number
    assert labels is not None
    places = [labels.place(name) for name in _list_text_names(row, columns)]
    return places[0] if columns.label_kind == "one" else tuple(sorted(set(places)))


def _list_text_names(row: Row, columns: TextColumns) -> list[str]:
    if columns.label_kind == "several":
        return read_several(row, columns.label, separator=columns.label_separator)
    return [read_label(row, columns.label)]


def _build_filled_text(
    row: Row, columns: TextColumns, labels: Labels | None, is_labelled: bool
) -> TextExample:
    example = build_text(row, columns, labels, is_labelled)
    if not f"{example.first}{example.second or ''}".strip():
        raise BadRow("an empty text")
    return example


def note_empty_text(example: TextExample, line: int, problems: Problems) -> None:
    """Count an empty text that is kept."""
    if not example.first.strip() or (example.second is not None and not example.second.strip()):
        problems.note("an empty text", line=line)


TEXTS: TableKind[TextColumns, TextExample] = TableKind(
    inputs=lambda columns: (columns.text, columns.text_pair, columns.id),
    outputs=lambda columns: Wanted((columns.label,)),
    build=_build_filled_text,
    note=note_empty_text,
    names=_list_text_names,
    least_names=lambda columns: {"one": 2, "several": 1, "number": 0}[columns.label_kind],
)


# Sentence embeddings


class SimilarityColumns(Settings):
    """Texts, or pairs that mean the same; how similar a pair is, in numbers, where the table tells."""

    text: str = "text"
    text_pair: str | None = None
    score: str = "score"
    id: str | None = None


def _build_similarity(
    row: Row, columns: SimilarityColumns, labels: Labels | None, is_labelled: bool
) -> TextExample:
    first = read_text(row, columns.text)
    has_second = columns.text_pair is not None and columns.text_pair in row.values
    second = read_text(row, str(columns.text_pair)) if has_second else None
    if not first.strip() or (second is not None and not second.strip()):
        raise BadRow("an empty text")
    has_score = is_labelled and row.values.get(columns.score) not in (None, "")
    score = read_number(row, columns.score) if has_score else None
    return TextExample(read_id(row, columns.id), first, second, score)


SIMILARITY: TableKind[SimilarityColumns, TextExample] = TableKind(
    inputs=lambda columns: (columns.text, columns.id),
    more=lambda columns: (columns.text_pair,),  # single texts are evaluated on pairs of another table
    outputs=lambda columns: Wanted((), (columns.score,)),
    build=_build_similarity,
    note=note_empty_text,
)


# Token classification


class WordColumns(Settings):
    """Words and their labels, as lists or as texts with white space between; CoNLL files have these two."""

    words: str = "words"
    labels: str = "labels"
    id: str | None = None


def _build_words(row: Row, columns: WordColumns, labels: Labels | None, is_labelled: bool) -> TokenExample:
    value = row.values.get(columns.words)
    words = tuple(value.split()) if isinstance(value, str) else read_texts(row, columns.words)
    if not words:
        raise BadRow("an empty text")
    name = read_id(row, columns.id)
    if not is_labelled:
        return TokenExample(name, words)
    assert labels is not None
    names = read_several(row, columns.labels, separator=None)
    if len(names) != len(words):
        raise BadRow("not one label for each word", f"{len(words)} words and {len(names)} labels")
    return TokenExample(name, words, tuple(labels.place(each) for each in names))


WORDS: TableKind[WordColumns, TokenExample] = TableKind(
    inputs=lambda columns: (columns.words, columns.id),
    outputs=lambda columns: Wanted((columns.labels,)),
    build=_build_words,
    note=lambda example, line, problems: None,
    names=lambda row, columns: read_several(row, columns.labels, separator=None),
    least_names=lambda columns: 2,
)


# Question answering


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


def _build_span(row: Row, columns: SpanColumns, labels: Labels | None, is_labelled: bool) -> SpanExample:
    question, context = read_text(row, columns.question), read_text(row, columns.context)
    if not question.strip() or not context.strip():
        raise BadRow("an empty question or context")
    names = {"text_column": columns.answers, "start_column": columns.answer_start}
    found = read_answers(row, context=context, **names) if is_labelled else ()
    title = read_text(row, columns.title) if columns.title is not None else ""
    is_impossible = is_labelled and not found
    return SpanExample(read_id(row, columns.id), question, context, found, is_impossible, title)


SPANS: TableKind[SpanColumns, SpanExample] = TableKind(
    inputs=lambda columns: (columns.question, columns.context, columns.title, columns.id),
    outputs=lambda columns: Wanted((columns.answers,), (columns.answer_start,)),
    build=_build_span,
    note=note_answers,
)


# Multiple choice


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


def _build_choice(
    row: Row, columns: ChoiceColumns, labels: Labels | None, is_labelled: bool
) -> ChoiceExample:
    names = columns.options
    options = read_texts(row, names[0]) if len(names) == 1 else tuple(read_text(row, name) for name in names)
    if len(options) < 2:
        raise BadRow("fewer than two options", f"{len(options)}")
    passage = read_text(row, columns.passage) if columns.passage is not None else ""
    question = read_text(row, columns.question)
    if not f"{passage}{question}".strip():
        raise BadRow("an empty passage and question")
    label = None
    if is_labelled:
        label = place_option(read_name(row.values.get(columns.label), columns.label), options)
    level = read_label(row, columns.level) if columns.level is not None else ""
    return ChoiceExample(read_id(row, columns.id), passage, question, options, label, level)


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


def _note_choice(example: ChoiceExample, line: int, problems: Problems) -> None:
    if not all(option.strip() for option in example.options):
        problems.note("an empty option", line=line)


CHOICES: TableKind[ChoiceColumns, ChoiceExample] = TableKind(
    inputs=lambda columns: (
        columns.passage, columns.question, *columns.options, columns.level, columns.id,
    ),
    outputs=lambda columns: Wanted((columns.label,)),
    build=_build_choice,
    note=_note_choice,
)  # fmt: skip
