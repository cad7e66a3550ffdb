"""The cells of a question's answers come in, in any of the usual forms; answers with their places go out."""

import math
from typing import Any

from albert.tasks.examples import Answer, SpanExample, stands_at
from albert.tasks.problems import BadRow, Problems, quote
from albert.tasks.readers.rows import Row

TEXT_KEY = "text"
START_KEY = "answer_start"


def parse_answers(value: Any, *, context: str) -> tuple[Answer, ...]:
    """`[{text, answer_start}, …]` as in SQuAD, or `{text: […], answer_start: […]}` as in `datasets`."""
    if isinstance(value, dict):
        texts, starts = value.get(TEXT_KEY), value.get(START_KEY)
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise BadRow("answers that are not understood", f"lists of {TEXT_KEY} and {START_KEY} expected")
        value = [{TEXT_KEY: text, START_KEY: start} for text, start in zip(texts, starts, strict=True)]
    if not isinstance(value, list):
        raise BadRow(
            "answers that are not understood", f"a list expected, and it is a {type(value).__name__}"
        )
    return tuple(_parse_one(answer, context=context) for answer in value)


def _parse_one(answer: Any, *, context: str) -> Answer:
    text = answer.get(TEXT_KEY) if isinstance(answer, dict) else None
    try:
        if isinstance(text, str) and START_KEY in answer:
            return Answer(text, _find_start(answer[START_KEY], text=text, context=context))
    except (TypeError, ValueError, OverflowError):
        pass
    raise BadRow("answers that are not understood", f"each needs a {TEXT_KEY} and a number {START_KEY}")


def read_answers(row: Row, *, context: str, text_column: str, start_column: str) -> tuple[Answer, ...]:
    """The answers of a row; a plain text without its place is put at its first occurrence in the context.

    Nothing but white space is no answer.
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


def _find_start(value: Any, *, text: str, context: str) -> int:
    """A whole number, also written 3.0; nothing, as tables write it, is the first occurrence."""
    if isinstance(value, bool):
        raise ValueError(value)
    number = math.nan if value is None or value == "" else float(value)
    if math.isnan(number):
        return context.find(text)
    if not number.is_integer():
        raise ValueError(value)
    return int(number)


def note_answers(example: SpanExample, *, line: int, problems: Problems) -> None:
    """Count the answers that are not at their place, apart from those that are nowhere in the context."""
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
