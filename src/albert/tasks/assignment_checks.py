"""Examples to learn from and to be asked about come in; a refusal, or words about what is odd, go out."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from albert.data.problems import BadRow, quote
from albert.errors import FileFormatError, InputError
from albert.tasks.examples import ChoiceExample, Example, SpanExample, TextExample, list_label_places
from albert.tasks.labels import Labels
from albert.tasks.task_facts import TaskFacts

_WIDE_NUMBER = 100.0  # a fresh head answers about 0, and goes a few units a hundred steps


def check_table(path: Path, *, option: str) -> None:
    """Refuse what is no file."""
    if not path.exists():
        raise FileFormatError(f"{path}: does not exist; give a table with {option}")
    if path.is_dir():
        raise FileFormatError(f"{path}: is a folder, and a table is needed; give a file with {option}")


def require_answer(example: SpanExample) -> None:
    """Reject a question without an answer."""
    if example.is_impossible:
        raise BadRow("a question without an answer", "those to learn from all have one", is_fatal=True)


def check_learnable(facts: TaskFacts, examples: Sequence[Example], *, source: object) -> None:
    """Refuse numbers that are all the same, and questions of which none has an answer."""
    check_numbers(facts, examples, source=source)
    spans = [each for each in examples if isinstance(each, SpanExample)]
    if spans and not any(each.answers for each in spans):
        raise FileFormatError(
            f"{source}: none of its {len(spans):,} questions has an answer; check the column of the answers"
        )


def check_numbers(facts: TaskFacts, examples: Sequence[Example], *, source: object) -> None:
    """Refuse numbers that are all the same: they have no correlation with anything."""
    if facts.label_kind != "number" or facts.kind != "texts":
        return
    numbers = {each.label for each in examples if isinstance(each, TextExample)}
    if len(numbers) == 1:
        raise FileFormatError(
            f"{source}: every number of its {len(examples):,} examples is {numbers.pop()}, and at least 2 "
            "different ones are needed; check the column of the labels"
        )


def check_pairs(facts: TaskFacts, examples: Sequence[Example], *, source: object) -> None:
    """Refuse texts by which no encoder of sentences can be chosen: single ones, and half of them numbered."""
    texts = [each for each in examples if isinstance(each, TextExample)] if facts.kind == "embedding" else []
    for text in texts:
        if text.second is None:
            raise InputError(
                f"{source}: the text {quote(text.id)} has no second to be compared with, and a model is "
                "chosen by pairs; give pairs with --dev, and their column as in columns.text_pair=paraphrase"
            )
        if (text.label is None) != (texts[0].label is None):
            raise InputError(
                f"{source}: the pairs {quote(texts[0].id)} and {quote(text.id)}: one has a number that says "
                "how similar it is, and the other has none; give all of them one, or none"
            )


def check_scorable(examples: Sequence[Example], *, source: object) -> None:
    """Refuse an example of a published task that comes without its answer: no score could count it."""
    for example in examples:
        if (isinstance(example, SpanExample) and not example.answers and not example.is_impossible) or (
            isinstance(example, ChoiceExample) and example.label is None
        ):
            raise InputError(
                f"{source}: question {quote(example.id)} comes without its answer, and a model is chosen by "
                "how it answers here; give a development set with answers"
            )


def list_oddities(facts: TaskFacts, train: Sequence[Example], *, source: object) -> Iterator[str]:
    """What is no mistake, but may be meant otherwise; a line each."""
    for one, other in Labels(facts.labels).find_alike():
        yield (
            f"{source}: {quote(one)} and {quote(other)} are two labels, and differ only in capitals or spaces"
            "; if they are one, spell them alike"
        )
    if facts.labels:
        taught = {place for example in train for place in list_label_places(example)}
        missing = [name for place, name in enumerate(facts.labels) if place not in taught]
        if missing:
            yield f"{source}: no example is left to learn the label {', '.join(map(quote, missing[:5]))} from"
    widest = max(map(_measure, train), default=0.0) if facts.label_kind == "number" else 0.0
    if widest > _WIDE_NUMBER:
        yield (
            f"{source}: numbers reach {widest:,.0f}; a model learns a few units best, so divide them by "
            f"{widest / 5:,.0f} or so"
        )


def list_one_sided(facts: TaskFacts, asked: Sequence[Example], *, source: object) -> Iterator[str]:
    """What cannot be chosen where the questions asked about all have an answer, or none of them has."""
    kinds = {each.is_impossible for each in asked if isinstance(each, SpanExample)}
    if facts.has_impossible and len(kinds) == 1:
        which = "none" if kinds.pop() else "all"
        yield (
            f"{source}: {which} of {len(asked):,} questions have an answer, so that no threshold can be "
            "chosen by them: those likelier to have none than one stay unanswered; give both kinds with --dev"
        )


def _measure(example: Example) -> float:
    is_number = isinstance(example, TextExample) and isinstance(example.label, int | float)
    return abs(example.label) if is_number else 0.0  # type: ignore[union-attr, arg-type]
