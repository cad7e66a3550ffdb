"""A row and the names of its columns come in, the example of one kind of task goes out."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from albert.settings import Settings
from albert.tasks.examples import ChoiceExample, Example, Label, SpanExample, TextExample, TokenExample
from albert.tasks.labels import Labels, plain_label
from albert.tasks.problems import BadRow, Problems, quote
from albert.tasks.readers.answers import note_answers, read_answers
from albert.tasks.readers.cells import (
    read_id,
    read_label,
    read_name,
    read_number,
    read_several,
    read_text,
    read_texts,
    read_words,
)
from albert.tasks.readers.columns import ChoiceColumns, SpanColumns, TextColumns, WordColumns
from albert.tasks.readers.rows import Row, Wanted

C = TypeVar("C", bound=Settings)
E = TypeVar("E", bound=Example)
MAX_NUMBER = 1e15  # the squares of larger ones, added up, are no 32-bit floats
_MAX_PLACE_DIGITS = 9  # more name no option, and Python refuses to read thousands


@dataclass(frozen=True)
class TableKind(Generic[C, E]):
    """How tables of one kind are read.

    `inputs` names the columns that are always read and `outputs` those of the labels; `more` are read where
    a table has them. `build` makes the example, with labels or without, and `note` counts its oddities.
    `names` are the labels of a row, of which a table must have `least_names`; 0 where they have none.
    """

    inputs: Callable[[C], Iterable[str | None]]
    outputs: Callable[[C], Wanted]
    build: Callable[[Row, C, Labels | None, bool], E]
    note: Callable[[E, int, Problems], None]
    names: Callable[[Row, C], Iterable[str]] = lambda row, columns: ()
    least_names: Callable[[C], int] = lambda columns: 0
    more: Callable[[C], Iterable[str | None]] = lambda columns: ()

    def wanted(self, columns: C, *, is_labelled: bool) -> Wanted:
        """The columns to read; without labels, those of the labels need not be there."""
        inputs, more = (
            tuple(name for name in names if name is not None)
            for names in (self.inputs(columns), self.more(columns))
        )
        outputs = self.outputs(columns) if is_labelled else Wanted(())
        return Wanted((*inputs, *outputs.required), (*more, *outputs.optional))


def _read_one(row: Row, columns: TextColumns, labels: Labels | None) -> Label:
    assert labels is not None
    return labels.place(read_label(row, columns.label))


def _read_several(row: Row, columns: TextColumns, labels: Labels | None) -> Label:
    assert labels is not None
    names = read_several(row, columns.label, separator=columns.label_separator)
    return tuple(sorted({labels.place(name) for name in names}))


def _read_number(row: Row, columns: TextColumns, labels: Labels | None) -> Label:
    number = read_number(row, columns.label)
    if abs(number) > MAX_NUMBER:
        raise BadRow(f"a number in column {columns.label!r} that is too large", f"{number:g}; divide them")
    return number


LABEL_READERS: dict[str, Callable[[Row, TextColumns, Labels | None], Label]] = {
    "one": _read_one,
    "several": _read_several,
    "number": _read_number,
}


def build_text(row: Row, columns: TextColumns, labels: Labels | None, is_labelled: bool) -> TextExample:
    """One text or two, with what the label's kind says."""
    first = read_text(row, columns.text)
    second = read_text(row, columns.text_pair) if columns.text_pair is not None else None
    label = LABEL_READERS[columns.label_kind](row, columns, labels) if is_labelled else None
    return TextExample(read_id(row, columns.id), first, second, label)


def _build_filled_text(
    row: Row, columns: TextColumns, labels: Labels | None, is_labelled: bool
) -> TextExample:
    example = build_text(row, columns, labels, is_labelled)
    if not f"{example.first}{example.second or ''}".strip():
        raise BadRow("an empty text")
    return example


def _iter_text_names(row: Row, columns: TextColumns) -> Iterable[str]:
    if columns.label_kind == "several":
        return read_several(row, columns.label, separator=columns.label_separator)
    return [read_label(row, columns.label)]


def note_empty_text(example: TextExample, line: int, problems: Problems) -> None:
    """Count a text that is empty beside another that is not, or in a file of which every row is answered."""
    if not example.first.strip() or (example.second is not None and not example.second.strip()):
        problems.note("an empty text", line=line)


def _build_words(row: Row, columns: WordColumns, labels: Labels | None, is_labelled: bool) -> TokenExample:
    words = read_words(row, columns.words)
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


def _build_span(row: Row, columns: SpanColumns, labels: Labels | None, is_labelled: bool) -> SpanExample:
    question, context = read_text(row, columns.question), read_text(row, columns.context)
    if not question.strip() or not context.strip():
        raise BadRow("an empty question or context")
    found = (
        read_answers(row, context=context, text_column=columns.answers, start_column=columns.answer_start)
        if is_labelled
        else ()
    )
    title = read_text(row, columns.title) if columns.title is not None else ""
    is_impossible = is_labelled and not found
    return SpanExample(read_id(row, columns.id), question, context, found, is_impossible, title)


def _find_choice_inputs(columns: ChoiceColumns) -> Iterable[str | None]:
    return columns.passage, columns.question, *columns.options, columns.level, columns.id


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
    return ChoiceExample(
        id=read_id(row, columns.id),
        passage=passage,
        question=question,
        options=options,
        label=place_option(read_name(row.values.get(columns.label), columns.label), options)
        if is_labelled
        else None,
        level=read_label(row, columns.level) if columns.level is not None else "",
    )


def place_option(name: str, options: tuple[str, ...]) -> int:
    """The option that a letter from A, a number from 0 or its own text means."""
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
    if place is None:
        place = _read_place(plain_label(name), options)  # 1.0 is a place unless it is a text
    if place is None:
        raise _no_option(name, options)
    return place


def place_letter(name: str, options: tuple[str, ...]) -> int:
    """The option that a letter from A means, as in RACE, whatever is written in the options."""
    place = _read_place(name, options)
    if place is None:
        raise _no_option(name, options)
    return place


def _read_place(name: str, options: tuple[str, ...]) -> int | None:
    if len(name) == 1 and name.isascii() and name.isalpha():
        place = ord(name.upper()) - ord("A")
    elif name.isdecimal() and len(name) <= _MAX_PLACE_DIGITS:
        place = int(name)
    else:
        return None
    return place if place < len(options) else None


def _no_option(name: str, options: tuple[str, ...]) -> BadRow:
    return BadRow(
        "a label that is no option", f"{quote(name)} of {len(options)}: letters from A, numbers from 0"
    )


def _note_choice(example: ChoiceExample, line: int, problems: Problems) -> None:
    if not all(option.strip() for option in example.options):
        problems.note("an empty option", line=line)


TEXTS: TableKind[TextColumns, TextExample] = TableKind(
    inputs=lambda columns: (columns.text, columns.text_pair, columns.id),
    outputs=lambda columns: Wanted((columns.label,)),
    build=_build_filled_text,
    note=note_empty_text,
    names=_iter_text_names,
    least_names=lambda columns: {"one": 2, "several": 1, "number": 0}[columns.label_kind],
)
WORDS: TableKind[WordColumns, TokenExample] = TableKind(
    inputs=lambda columns: (columns.words, columns.id),
    outputs=lambda columns: Wanted((columns.labels,)),
    build=_build_words,
    note=lambda example, line, problems: None,
    names=lambda row, columns: read_several(row, columns.labels, separator=None),
    least_names=lambda columns: 2,
)
SPANS: TableKind[SpanColumns, SpanExample] = TableKind(
    inputs=lambda columns: (columns.question, columns.context, columns.title, columns.id),
    outputs=lambda columns: Wanted((columns.answers,), (columns.answer_start,)),
    build=_build_span,
    note=lambda example, line, problems: note_answers(example, line=line, problems=problems),
)
CHOICES: TableKind[ChoiceColumns, ChoiceExample] = TableKind(
    inputs=_find_choice_inputs,
    outputs=lambda columns: Wanted((columns.label,)),
    build=_build_choice,
    note=_note_choice,
)
