"""Held-out text comes in; words to guess and sentences to order go out, and what models say to them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from albert.app.quickstart.hashing import find_share

if TYPE_CHECKING:
    from albert.corpus.corpus import Corpus
    from albert.text.tokenizer import Tokenizer

MASK = "[MASK]"
NUM_QUESTIONS = 8
_TOP = 3
_NUM_WORDS = range(5, 21)  # of a sentence that is read at a glance
_MIN_LETTERS = 4  # shorter words are mostly guessed without reading
_WORD = re.compile(r"[^\W\d_]+")
T = TypeVar("T")


@dataclass(frozen=True)
class MaskQuestion:
    """A sentence with a mask, and the word that stood there."""

    text: str
    word: str


@dataclass(frozen=True)
class OrderQuestion:
    """Two sentences that stand together in a text, in their order or swapped."""

    first: str
    second: str
    is_swapped: bool


@dataclass(frozen=True)
class Guess:
    """A word for a mask, and how likely the model finds it."""

    text: str
    probability: float


@dataclass(frozen=True)
class ModelAnswers:
    """What a model says: guesses for each mask, best first, and how likely each pair is in order.

    None where the model has no head for it, or cannot read so long a text.
    """

    guesses: tuple[tuple[Guess, ...], ...] | None
    in_order: tuple[float, ...] | None


def list_questions(
    corpus: "Corpus", tokenizer: "Tokenizer"
) -> tuple[list[MaskQuestion], list[OrderQuestion]]:
    """Questions from all over a text: the same text, the same questions."""
    documents = list(iter_sentences(corpus, tokenizer))
    pairs = [
        (first, second)
        for document in documents
        for first, second in pairwise(document)
        if _is_short(first) and _is_short(second)
    ]
    # Text without a pair has words to guess all the same.
    singles = [first for first, _ in pairs] or [
        text for document in documents for text in document if _is_short(text)
    ]
    masks = [_mask_word(text, tokenizer) for text in spread(singles, 4 * NUM_QUESTIONS)]
    orders = [
        OrderQuestion(second, first, True) if number % 2 else OrderQuestion(first, second, False)
        for number, (first, second) in enumerate(spread(pairs, NUM_QUESTIONS))
    ]
    return spread([mask for mask in masks if mask is not None], NUM_QUESTIONS), orders


def iter_sentences(corpus: "Corpus", tokenizer: "Tokenizer") -> Iterator[list[str]]:
    """The documents of a corpus as sentences of text, as the vocabulary spells them."""
    for part in corpus.parts:
        starts = part.sentence_starts
        for first, last in zip(part.document_starts[:-1], part.document_starts[1:], strict=True):
            yield [
                tokenizer.decode(part.pieces[starts[number] : starts[number + 1]].tolist())
                for number in range(first, last)
            ]


def spread(items: Sequence[T], number: int) -> list[T]:
    """So many of them, evenly spread; all where there are fewer."""
    if len(items) <= number:
        return list(items)
    return [items[place * len(items) // number] for place in range(number)]


def _is_short(text: str) -> bool:
    return len(text.split()) in _NUM_WORDS


def _mask_word(text: str, tokenizer: "Tokenizer") -> MaskQuestion | None:
    """Hide one word that is a single piece; which one goes by the text's hash."""
    words = [match for match in _WORD.finditer(text) if len(match[0]) >= _MIN_LETTERS]
    whole = [match for match in words if len(tokenizer.encode_ids([match[0]])[0]) == 1]
    if not whole or MASK in text:
        return None
    chosen = whole[int(find_share(text) * len(whole))]
    return MaskQuestion(f"{text[: chosen.start()]}{MASK}{text[chosen.end() :]}", chosen[0])


def ask_model(source: Path, masks: Sequence[MaskQuestion], orders: Sequence[OrderQuestion]) -> ModelAnswers:
    """What the model in a folder says to all of them."""
    from albert.tasks.task_predictor import load

    predictor = load(source)
    heads = predictor.model.heads
    return ModelAnswers(
        _fill(predictor, masks) if "mlm" in heads else None,
        _order(predictor, orders) if "sop" in heads else None,
    )


def _fill(predictor: Any, masks: Sequence[MaskQuestion]) -> tuple[tuple[Guess, ...], ...] | None:
    from albert.errors import InputError

    try:
        answers = predictor.fill_mask([mask.text for mask in masks], top=_TOP)
    except InputError:  # longer than the model reads
        return None
    return tuple(tuple(Guess(found.text, found.probability) for found in first) for first, *_ in answers)


def _order(predictor: Any, orders: Sequence[OrderQuestion]) -> tuple[float, ...] | None:
    from albert.errors import InputError

    try:
        answers = predictor.sentence_order([(each.first, each.second) for each in orders])
    except InputError:
        return None
    return tuple(answer.in_order for answer in answers)
