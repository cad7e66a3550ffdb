"""Input sequences: `[CLS] first [SEP]`, `[CLS] first [SEP] second [SEP]`, and windows over long texts.

Windows overlap. Each token is *owned* by the window that gives it the most context, so that exactly one
window makes predictions for it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from albert.errors import InputError
from albert.text.tokenizer import Tokenizer

T = TypeVar("T")
# Tokenized at a time: enough to make the tokenizer's fixed costs small, but little memory.
_GROUP_ITEMS = 512
_GROUP_CHARACTERS = 1 << 20


@dataclass(frozen=True, slots=True)
class TaskSequence:
    """One input sequence; the first `num_first` ids have segment 0, the others segment 1."""

    ids: tuple[int, ...]
    num_first: int


@dataclass(frozen=True, slots=True)
class Frame:
    """Adds [CLS] and [SEP], and holds one shared object for each id of the vocabulary."""

    cls_id: int
    sep_id: int
    pool: tuple[int, ...] = field(repr=False, compare=False)

    @staticmethod
    def of(tokenizer: Tokenizer) -> "Frame":
        return Frame(tokenizer.cls_id, tokenizer.sep_id, tuple(range(tokenizer.vocab_size)))

    def intern(self, ids: Iterable[int]) -> tuple[int, ...]:
        """Replace ids by shared objects, so that a data set in memory takes 8 bytes per token."""
        return tuple(map(self.pool.__getitem__, ids))

    def join(self, first: Iterable[int], second: Iterable[int] | None = None) -> TaskSequence:
        """Build the sequence of one or two texts."""
        head = (self.cls_id, *first, self.sep_id)
        ids = head if second is None else (*head, *second, self.sep_id)
        return TaskSequence(ids, len(head))


def check_length(max_length: int, *, minimum: int, hint: str = "") -> None:
    """Raise `InputError` if a length leaves no space for text; `hint` names an alternative fix."""
    if max_length < minimum:
        raise InputError(f"max_length is {max_length}; set it to at least {minimum}{hint}")


def truncate_pair(num_first: int, num_second: int, *, max_tokens: int) -> tuple[int, int]:
    """Compute how many tokens of each text are kept: the longer one is truncated until both fit.

    Of equally long texts the second is truncated, as in the published code.
    """
    if num_first + num_second <= max_tokens:
        return num_first, num_second
    keep_first = min(num_first, max(max_tokens - num_second, (max_tokens + 1) // 2))
    return keep_first, max_tokens - keep_first


def iter_groups(
    items: Iterable[T],
    *,
    count_characters: Callable[[T], int],
    max_items: int = _GROUP_ITEMS,
    max_characters: int = _GROUP_CHARACTERS,
) -> Iterator[list[T]]:
    """Yield lists of items, each up to the item that reaches a limit."""
    group: list[T] = []
    num_characters = 0
    for item in items:
        group.append(item)
        num_characters += count_characters(item)
        if len(group) == max_items or num_characters >= max_characters:
            yield group
            group, num_characters = [], 0
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class TokenWindow:
    """A window of the tokens `[first, end)` of a text, of which it owns `[own_first, own_end)`."""

    first: int
    end: int
    own_first: int
    own_end: int

    @property
    def num_tokens(self) -> int:
        return self.end - self.first


def build_windows(num_tokens: int, *, size: int, stride: int) -> tuple[TokenWindow, ...]:
    """Build windows of `size` tokens, each `stride` tokens after the previous, until one reaches the end.

    An empty text has one window. A stride longer than a window is reduced to its size.
    """
    if num_tokens <= size:
        return (TokenWindow(0, num_tokens, 0, num_tokens),)
    step = min(stride, size)
    firsts = np.arange(0, num_tokens - size + step, step)
    ends = np.minimum(firsts + size, num_tokens)
    owners = _find_owners(firsts, ends)
    indices = np.arange(len(firsts))
    # Owners increase with the tokens, so a window owns one range.
    own_firsts, own_ends = (np.searchsorted(owners, indices, side=side) for side in ("left", "right"))
    rows = zip(*(each.tolist() for each in (firsts, ends, own_firsts, own_ends)), strict=True)
    return tuple(TokenWindow(*row) for row in rows)


def _find_owners(firsts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find the window of each token with the most context, scored as in the published SQuAD code.

    The score is the distance to the nearer end of the window plus 0.01 times its number of tokens, so that a
    full window is preferred to the shorter last one. Of equal scores the first is chosen.
    """
    best = np.full(ends[-1], -1.0)
    owners = np.zeros(ends[-1], np.int64)
    for index, (first, end) in enumerate(zip(firsts.tolist(), ends.tolist(), strict=True)):
        distances = np.arange(end - first)
        scores = np.minimum(distances, distances[::-1]) + 0.01 * (end - first)
        is_better = scores > best[first:end]
        best[first:end][is_better] = scores[is_better]
        owners[first:end][is_better] = index
    return owners
