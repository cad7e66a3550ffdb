"""The cells of a question's answers come in, in any of the usual forms; answers with their places go out."""

from typing import Any

from albert.tasks.examples import Answer, SpanExample, stands_at
from albert.tasks.problems import BadRow, Problems, quote
from albert.tasks.readers.rows import Row

TEXT_KEY = "text"
START_KEY = "answer_start"


def parse_answers(value: Any) -> tuple[Answer, ...]:
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
    return tuple(_parse_one(answer) for answer in value)


def _parse_one(answer: Any) -> Answer:
    text = answer.get(TEXT_KEY) if isinstance(answer, dict) else None
    start = answer.get(START_KEY) if isinstance(answer, dict) else None
    if not isinstance(text, str) or isinstance(start, bool) or not isinstance(start, int):
        raise BadRow("answers that are not understood", f"each needs a {TEXT_KEY} and a number {START_KEY}")
    return Answer(text, start)


def read_answers(row: Row, *, context: str, text_column: str, start_column: str) -> tuple[Answer, ...]:
    """The answers of a row; a plain text without its place is put at its first occurrence in the context."""
    value = row.values.get(text_column)
    if not isinstance(value, str):
        return () if value is None else parse_answers(value)
    if not value:
        return ()
    start = row.values.get(start_column)
    if start is None:
        return (Answer(value, context.find(value)),)
    try:
        return (Answer(value, int(start)),)
    except (TypeError, ValueError) as error:
        raise BadRow(f"no number in column {start_column!r}", f"it holds {quote(str(start))}") from error


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
