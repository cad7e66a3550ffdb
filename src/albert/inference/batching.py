"""Sequences of any lengths come in; batches of similar length, within a budget of tokens, go out."""

from collections.abc import Iterator, Sequence


def iter_batches(lengths: Sequence[int], *, max_tokens: int) -> Iterator[list[int]]:
    """Yield indices, shortest sequences first, at most `max_tokens` tokens together.

    A sequence longer than the budget gets a batch of its own.
    """
    batch: list[int] = []
    total = 0
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batch and total + lengths[index] > max_tokens:
            yield batch
            batch, total = [], 0
        batch.append(index)
        total += lengths[index]
    if batch:
        yield batch
