"""Show an example as text: its segments, masked spans and label."""

from dataclasses import dataclass

import numpy as np

from albert.errors import InputError
from albert.examples.source import ExampleSource
from albert.text.tokenizer import Tokenizer

ANSWERS = {
    "sop": ("in the order of the text", "swapped: the second came first in the text"),
    "nsp": ("the second follows the first", "the second is from another document"),
    "none": ("in the order of the text, no sentence is asked for",) * 2,
}


@dataclass(frozen=True)
class PieceView:
    """A piece as the model sees it, what it was, and the span it is predicted in (0: none)."""

    shown: str
    original: str
    span: int


@dataclass(frozen=True)
class ExampleView:
    """One example: both segments, piece by piece, and the answer to the sentence question."""

    number: int
    epoch: int
    first: tuple[PieceView, ...]
    second: tuple[PieceView, ...]
    label: int
    answer: str
    num_pieces: int
    num_predicted: int


def describe_example(
    source: ExampleSource, tokenizer: Tokenizer, number: int, *, epoch: int = 0
) -> ExampleView:
    """Build an example and decode it."""
    if not 0 <= number < source.num_examples:
        raise InputError(f"example {number} is not there; an epoch has 0 to {source.num_examples - 1}")
    batch = source.build(np.array([number]), epoch=epoch)
    if not len(batch.lengths):
        raise InputError(
            f"example {number} is left out: its document is a single sentence, and the objective "
            f"{source.settings.objective} needs two; choose another"
        )
    originals = batch.ids_T.copy()
    originals[batch.places_M] = batch.targets_M
    span_of = np.zeros(len(originals), dtype=np.int64)
    for index, (start, end) in enumerate(zip(batch.spans.start, batch.spans.end, strict=True), start=1):
        span_of[start:end] = index
    pieces = [
        PieceView(tokenizer.token(shown), tokenizer.token(original), span)
        for shown, original, span in zip(
            batch.ids_T.tolist(), originals.tolist(), span_of.tolist(), strict=True
        )
    ]
    border = 1 + int((batch.segments_T == 0).sum()) - 2  # place of the first [SEP]
    label = int(batch.labels_B[0])
    return ExampleView(
        number=number,
        epoch=epoch,
        first=tuple(pieces[1:border]),
        second=tuple(pieces[border + 1 : -1]),
        label=label,
        answer=ANSWERS[source.settings.objective][label],
        num_pieces=len(pieces),
        num_predicted=len(batch.places_M),
    )


def format_segment(pieces: tuple[PieceView, ...]) -> str:
    """The pieces in a row; a predicted span stands in braces, as {what is shown = what it was}."""
    words: list[str] = []
    place = 0
    while place < len(pieces):
        span = pieces[place].span
        end = place + 1
        while span and end < len(pieces) and pieces[end].span == span:
            end += 1
        group = pieces[place:end]
        shown, original = (" ".join(getattr(piece, key) for piece in group) for key in ("shown", "original"))
        words.append(f"{{{shown} = {original}}}" if span else shown)
        place = end
    return " ".join(words)
