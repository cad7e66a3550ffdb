"""Pieces of one text or two come in, framed sequences for the model go out."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from albert.data import rows
from albert.errors import InputError
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
