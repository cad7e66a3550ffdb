"""Pieces of one text or two come in, framed sequences for the model go out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from albert.data import rows
from albert.errors import InputError
from albert.tasks.examples import Label, TextExample
from albert.text.tokenizer import Tokenizer

T = TypeVar("T")
# What is cut into pieces together: enough to keep the tokenizer's fixed costs small, and never much memory.
_GROUP_ITEMS = 512
_GROUP_CHARACTERS = 1 << 20


@dataclass(frozen=True, slots=True)
class TaskSequence:
    """One input of the model; the first `num_first` ids are of segment 0, the others of segment 1."""

    ids: tuple[int, ...]
    num_first: int

    @property
    def segments(self) -> tuple[int, ...]:
        """The segment of each id."""
        return (0,) * self.num_first + (1,) * (len(self.ids) - self.num_first)


@dataclass(frozen=True, slots=True)
class Frame:
    """The ids that stand around the pieces, and one object for each id of the vocabulary."""

    cls_id: int
    sep_id: int
    pool: tuple[int, ...] = field(repr=False, compare=False)

    @staticmethod
    def of(tokenizer: Tokenizer) -> "Frame":
        """The frame of a vocabulary."""
        return Frame(tokenizer.cls_id, tokenizer.sep_id, tuple(range(tokenizer.vocab_size)))

    def share(self, ids: Iterable[int]) -> tuple[int, ...]:
        """The same ids as objects that all texts share: of a whole data set in memory, 8 bytes a piece."""
        return tuple(map(self.pool.__getitem__, ids))

    def join(self, first: Iterable[int], second: Iterable[int] | None = None) -> TaskSequence:
        """The sequence of one or two texts."""
        head = (self.cls_id, *first, self.sep_id)
        ids = head if second is None else (*head, *second, self.sep_id)
        return TaskSequence(ids, len(head))


def iter_groups(
    items: Iterable[T],
    *,
    count_characters: Callable[[T], int],
    max_items: int = _GROUP_ITEMS,
    max_characters: int = _GROUP_CHARACTERS,
) -> Iterator[list[T]]:
    """The items in lists, each of at most so many items and, but for its last item, characters."""
    return rows.iter_groups(items, (lambda _: 1, max_items), (count_characters, max_characters))


def check_length(max_length: int, *, least: int, hint: str = "") -> None:
    """Refuse a length that leaves no room for text beside the frame."""
    if max_length < least:
        raise InputError(
            f"max_length is {max_length}, and at least {least} is needed here; make it longer{hint}"
        )


@dataclass(frozen=True, slots=True)
class EncodedText:
    """The sequence of an example, its label, and how many pieces were cut off to make it fit."""

    id: str
    sequence: TaskSequence
    label: Label
    num_cut: int


def iter_encoded_texts(
    examples: Iterable[TextExample], *, tokenizer: Tokenizer, max_length: int
) -> Iterator[EncodedText]:
    """`[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]` of each, of `max_length` pieces at most."""
    check_length(max_length, least=5)
    frame = Frame.of(tokenizer)
    for group in iter_groups(
        examples, count_characters=lambda each: len(each.first) + len(each.second or "")
    ):
        firsts = tokenizer.encode_ids([example.first for example in group])
        seconds = iter(tokenizer.encode_ids([each.second for each in group if each.second is not None]))
        for example, first in zip(group, firsts, strict=True):
            second = None if example.second is None else next(seconds)
            yield _build(example, first, second, frame=frame, max_length=max_length)


def _build(
    example: TextExample, first: list[int], second: list[int] | None, *, frame: Frame, max_length: int
) -> EncodedText:
    if second is None:
        room = max_length - 2
        num_cut = max(0, len(first) - room)
        return EncodedText(example.id, frame.join(frame.share(first[:room])), example.label, num_cut)
    keep_first, keep_second = share_room(len(first), len(second), room=max_length - 3)
    num_cut = len(first) + len(second) - keep_first - keep_second
    sequence = frame.join(frame.share(first[:keep_first]), frame.share(second[:keep_second]))
    return EncodedText(example.id, sequence, example.label, num_cut)


def share_room(num_first: int, num_second: int, *, room: int) -> tuple[int, int]:
    """How many pieces of each text stay when, as published, the longer one loses its last until both fit.

    Of two that are equally long, the second does.
    """
    if num_first + num_second <= room:
        return num_first, num_second
    keep_first = min(num_first, max(room - num_second, (room + 1) // 2))
    return keep_first, room - keep_first


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
