"""Items come in one by one, lists of some weight go out: documents of a batch, sentences of a block."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def iter_groups(items: Iterable[Item], *limits: tuple[Callable[[Item], int], int]) -> Iterator[list[Item]]:
    """Whole items together until they reach a limit: a way to weigh one, and the weight that ends a group.

    The item that reaches it still belongs to the group; the last group is what is left.
    """
    group: list[Item] = []
    weights = [0] * len(limits)
    for item in items:
        group.append(item)
        is_full = False
        for number, (weigh, limit) in enumerate(limits):
            weights[number] += weigh(item)
            is_full = is_full or weights[number] >= limit
        if is_full:
            yield group
            group, weights = [], [0] * len(limits)
    if group:
        yield group
