"""The groups of examples come in; which of the examples are in the first half goes out."""

from collections.abc import Hashable, Sequence

from albert.errors import InputError
from albert.tasks.metrics.streams import Stream, build_generator


def halve(groups: Sequence[Hashable], *, seed: int) -> tuple[bool, ...]:
    """Which questions are in the first half; what shares a group (an article, a passage) stays together."""
    names = list(dict.fromkeys(groups))
    if len(names) < 2:
        raise InputError(f"{len(names)} group of questions cannot be halved; there must be at least 2")
    order = build_generator(seed, stream=Stream.HALVING).permutation(len(names))
    first = {names[place] for place in order[: len(names) // 2]}
    return tuple(group in first for group in groups)
