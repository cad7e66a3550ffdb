"""Read the text, label, number, list or answers in a cell of a row, or raise `BadRow`."""

import math
from typing import Any

from albert.data.problems import BadRow, Problems, quote
from albert.data.rows import Row
from albert.tasks.examples import Answer, SpanExample, stands_at
from albert.tasks.labels import plain_label

_TEXT, _START = "text", "answer_start"


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
