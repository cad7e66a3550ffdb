"""Examples of one text or two come in; a sequence for each text by itself goes out, for embeddings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from albert.tasks.encoding.sequence import TaskSequence
from albert.tasks.encoding.texts import iter_encoded_texts
from albert.tasks.examples import Label, TextExample
from albert.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class EncodedPair:
    """The sequences of an example's texts, its label, and how many pieces were cut off to make them fit."""

    id: str
    first: TaskSequence
    second: TaskSequence | None
    label: Label
    num_cut: int


def iter_encoded_pairs(
    examples: Sequence[TextExample], *, tokenizer: Tokenizer, max_length: int
) -> Iterator[EncodedPair]:
    """`[CLS] text [SEP]` of each text, of `max_length` pieces at most."""
    firsts = iter_encoded_texts(
        (TextExample(each.id, each.first) for each in examples), tokenizer=tokenizer, max_length=max_length
    )
    seconds = iter_encoded_texts(
        (TextExample(each.id, each.second) for each in examples if each.second is not None),
        tokenizer=tokenizer,
        max_length=max_length,
    )
    for example, first in zip(examples, firsts, strict=True):
        second = None if example.second is None else next(seconds)
        num_cut = first.num_cut + (0 if second is None else second.num_cut)
        yield EncodedPair(
            example.id, first.sequence, None if second is None else second.sequence, example.label, num_cut
        )
