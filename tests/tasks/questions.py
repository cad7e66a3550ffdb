"""Questions that the tiny model can learn to answer."""

import random
from typing import Any

from albert.tasks.question_answering import (
    Answer,
    QuestionAnsweringConfig,
    QuestionAnsweringTask,
    SpanExample,
)

NOUNS = ("dog", "man", "house", "ship")
THINGS = [f"{size}{noun}" for size in ("big ", "small ", "") for noun in NOUNS]
OTHERS = ("it was cold .", "they came by night .", "we went to sea .")
QUESTION = "he found ?"
PREFIX = "he found the "


def build_qa(*, has_impossible: bool = False, max_length: int = 40, **changes: Any) -> QuestionAnsweringTask:
    """Windows for the 40 positions of the tiny model, with a stride of 8 tokens."""
    values = {"task": "question-answering", "stride": 8, "max_question": 6, **changes}
    return QuestionAnsweringTask(
        QuestionAnsweringConfig(has_impossible=has_impossible, max_length=max_length, **values)
    )


def write_questions(
    number: int, *, seed: int, impossible_share: float = 0.0, num_others: int = 0
) -> list[SpanExample]:
    """Contexts with "he found the … ." if there is an answer, among "he had the … ." or other sentences."""
    draw = random.Random(seed)
    examples = []
    for index in range(number):
        is_impossible = draw.random() < impossible_share
        thing, other = draw.sample(NOUNS if num_others else THINGS, 2)
        sentences = [draw.choice(OTHERS) for _ in range(num_others)]
        sentences += [f"he had the {other} ."] * (num_others == 0) + [f"{PREFIX}{thing} ."] * (
            not is_impossible
        )
        draw.shuffle(sentences)
        context = " ".join(sentences)
        answers = () if is_impossible else (Answer(thing, context.index(PREFIX) + len(PREFIX)),)
        examples.append(SpanExample(str(index), QUESTION, context, answers, is_impossible))
    return examples
