"""Questions that the tiny model can learn to answer: what was found, among what was not."""

import random

from albert.tasks.examples import Answer, SpanExample
from albert.tasks.kinds.spans import SpanKind

NOUNS = ("dog", "man", "house", "ship")
THINGS = [f"{size}{noun}" for size in ("big ", "small ", "") for noun in NOUNS]
OTHERS = ("it was cold .", "they came by night .", "we went to sea .")
QUESTION = "he found ?"
MARK = "he found the "


def build_kind(*, has_impossible: bool, max_length: int = 40) -> SpanKind:
    """Windows for the 40 positions of the tiny model, each 8 pieces further than the one before."""
    return SpanKind(has_impossible, max_length=max_length, stride=8, max_question=6)


def write_questions(
    number: int, *, seed: int, impossible_share: float = 0.0, num_others: int = 0
) -> list[SpanExample]:
    """`he found the … .`, where there is an answer, and `he had the … .`, or some sentences about nothing."""
    draw = random.Random(seed)
    return [
        write_question(
            str(place), draw, is_impossible=draw.random() < impossible_share, num_others=num_others
        )
        for place in range(number)
    ]


def write_question(
    name: str, draw: random.Random, *, is_impossible: bool = False, num_others: int = 0
) -> SpanExample:
    thing, other = draw.sample(NOUNS if num_others else THINGS, 2)
    sentences = [draw.choice(OTHERS) for _ in range(num_others)]
    sentences += [f"he had the {other} ."] * (num_others == 0) + [f"{MARK}{thing} ."] * (not is_impossible)
    draw.shuffle(sentences)
    context = " ".join(sentences)
    answers = () if is_impossible else (Answer(thing, context.index(MARK) + len(MARK)),)
    return SpanExample(name, QUESTION, context, answers, is_impossible)
