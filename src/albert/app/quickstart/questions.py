"""Held-out text comes in; words to guess and sentences to order go out, and what models say to them."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from albert.app.quickstart.hashing import find_share

if TYPE_CHECKING:
    from albert.corpus.corpus import Corpus
    from albert.inference.predictor import Candidate
    from albert.text.tokenizer import Tokenizer

MASK = "[MASK]"
NUM_QUESTIONS = 8
_TOP = 3
_NUM_PIECES = range(6, 26)  # of a sentence that is read at a glance, in any script
# Shorter words are mostly guessed without reading; scripts without capitals write a word with fewer signs.
_MIN_LETTERS, _MIN_SIGNS = 4, 2
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
class ModelAnswers:
    """What a model says: guesses for each mask, best first, and how likely each pair is in order.

    None where the model has no head for it, or cannot read so long a text.
    """

    guesses: tuple[tuple["Candidate", ...], ...] | None
    in_order: tuple[float, ...] | None


def list_questions(
    corpus: "Corpus", tokenizer: "Tokenizer"
) -> tuple[list[MaskQuestion], list[OrderQuestion]]:
    """Questions from all over a text: the same text, the same questions."""
    documents = [
        [_spell_short(pieces, tokenizer) for pieces in document] for document in _iter_documents(corpus)
    ]
    singles = [text for document in documents for text in document if text is not None]
    pairs = [
        (first, second)
        for document in documents
        for first, second in pairwise(document)
        if first is not None and second is not None
    ]
    masks = [_mask_word(text, tokenizer) for text in spread(singles, 4 * NUM_QUESTIONS)]
    orders = [
        OrderQuestion(second, first, True) if number % 2 else OrderQuestion(first, second, False)
        for number, (first, second) in enumerate(spread(pairs, NUM_QUESTIONS))
    ]
    return spread([mask for mask in masks if mask is not None], NUM_QUESTIONS), orders


def iter_sentences(corpus: "Corpus", tokenizer: "Tokenizer") -> Iterator[list[str]]:
    """The documents of a corpus as sentences of text, as the vocabulary spells them."""
    for document in _iter_documents(corpus):
        yield [tokenizer.decode(pieces) for pieces in document]


def _iter_documents(corpus: "Corpus") -> Iterator[list[list[int]]]:
    """The documents of a corpus as sentences of pieces."""
    for part in corpus.parts:
        starts = part.sentence_starts
        for first, last in zip(part.document_starts[:-1], part.document_starts[1:], strict=True):
            yield [part.pieces[starts[number] : starts[number + 1]].tolist() for number in range(first, last)]


def spread(items: Sequence[T], number: int) -> list[T]:
    """So many of them, evenly spread; all where there are fewer."""
    if len(items) <= number:
        return list(items)
    return [items[place * len(items) // number] for place in range(number)]


def _spell_short(pieces: Sequence[int], tokenizer: "Tokenizer") -> str | None:
    """The text of a short sentence; None for others, and where a piece is unknown and cannot be spelled."""
    is_short = len(pieces) in _NUM_PIECES and tokenizer.unk_id not in pieces
    return tokenizer.decode(pieces) if is_short else None


def _mask_word(text: str, tokenizer: "Tokenizer") -> MaskQuestion | None:
    """Hide one word that is a single piece; which one goes by the text's hash."""
    if MASK in text:
        return None
    encoding = tokenizer.encode(text)
    whole = [
        (start, end)
        for piece, (start, end) in zip(encoding.ids, encoding.spans, strict=True)
        if tokenizer.begins_word(piece)
        and _is_worth_asking(text[start:end])
        # A letter right behind the mask would be read as the beginning of a word.
        and not (text[end : end + 1].isalnum() or _is_letter(text[end : end + 1]))
    ]
    if not whole:
        return None
    start, end = whole[int(find_share(text) * len(whole))]
    return MaskQuestion(f"{text[:start]}{MASK}{text[end:]}", text[start:end])


def _is_worth_asking(word: str) -> bool:
    least = _MIN_LETTERS if word.lower() != word.upper() else _MIN_SIGNS
    return len(word) >= least and all(map(_is_letter, word))


def _is_letter(sign: str) -> bool:
    """Letters, and the marks that are part of one: vowels of Hindi and Thai, accents."""
    return sign != "" and unicodedata.category(sign)[0] in "LM"


def ask_model(source: Path, masks: Sequence[MaskQuestion], orders: Sequence[OrderQuestion]) -> ModelAnswers:
    """What the model in a folder says to all of them."""
    from albert.tasks.task_predictor import load

    predictor = load(source)
    heads = predictor.model.heads
    return ModelAnswers(
        _fill(predictor, masks) if "mlm" in heads else None,
        _order(predictor, orders) if "sop" in heads else None,
    )


def _fill(predictor: Any, masks: Sequence[MaskQuestion]) -> tuple[tuple["Candidate", ...], ...] | None:
    from albert.errors import InputError

    try:
        answers = predictor.fill_mask([mask.text for mask in masks], top=_TOP)
    except InputError:  # longer than the model reads
        return None
    return tuple(tuple(candidates) for candidates, *_ in answers)


def _order(predictor: Any, orders: Sequence[OrderQuestion]) -> tuple[float, ...] | None:
    from albert.errors import InputError

    try:
        answers = predictor.sentence_order([(each.first, each.second) for each in orders])
    except InputError:
        return None
    return tuple(answer.in_order for answer in answers)
