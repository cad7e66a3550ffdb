"""Pretraining examples in the published style: documents in memory, Python lists, masks drawn once.

The plain alternative that bench/examples.py measures against.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class Example:
    """A masked pair."""

    ids: list[int]
    segments: list[int]
    positions: list[int]
    targets: list[int]
    is_swapped: bool


def build_examples(
    documents: Sequence[Sequence[Sequence[int]]],
    *,
    max_length: int,
    begins_word: Sequence[bool],
    cls_id: int,
    sep_id: int,
    mask_id: int,
    vocab_size: int,
    seed: int = 0,
) -> list[Example]:
    """Build all examples of all documents in memory."""
    draw = random.Random(seed)
    examples = []
    for document in documents:
        chunk: list[Sequence[int]] = []
        target = _draw_target(max_length - 3, draw)
        for number, sentence in enumerate(document):
            chunk.append(sentence)
            is_last = number == len(document) - 1
            if sum(len(s) for s in chunk) >= target or is_last:
                if len(chunk) > 1:
                    border = draw.randint(1, len(chunk) - 1)
                    first = [token for s in chunk[:border] for token in s]
                    second = [token for s in chunk[border:] for token in s]
                    _truncate(first, second, max_length - 3, draw)
                    is_swapped = draw.random() < 0.5
                    if is_swapped:
                        first, second = second, first
                    ids = [cls_id, *first, sep_id, *second, sep_id]
                    segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
                    positions, targets = _mask(ids, begins_word, {cls_id, sep_id}, mask_id, vocab_size, draw)
                    examples.append(Example(ids, segments, positions, targets, is_swapped))
                chunk = []
                target = _draw_target(max_length - 3, draw)
    return examples


def _draw_target(full: int, draw: random.Random) -> int:
    return draw.randint(2, full) if draw.random() < 0.1 else full


def _truncate(first: list[int], second: list[int], limit: int, draw: random.Random) -> None:
    while len(first) + len(second) > limit:
        longer = first if len(first) > len(second) else second
        if draw.random() < 0.5:
            del longer[0]
        else:
            longer.pop()


def _mask(
    ids: list[int],
    begins_word: Sequence[bool],
    special: set[int],
    mask_id: int,
    vocab_size: int,
    draw: random.Random,
) -> tuple[list[int], list[int]]:
    words: list[list[int]] = []
    for position, token in enumerate(ids):
        if token in special:
            continue
        if words and not begins_word[token] and words[-1][-1] == position - 1:
            words[-1].append(position)
        else:
            words.append([position])
    budget = max(1, round(0.15 * len(ids)))
    order = list(range(len(words)))
    draw.shuffle(order)
    covered: set[int] = set()
    for word in order:
        if len(covered) >= budget:
            break
        count = draw.choices((1, 2, 3), weights=(6, 3, 2))[0]
        span = [position for other in words[word : word + count] for position in other]
        if len(covered) + len(span) > budget or any(position in covered for position in span):
            continue
        covered.update(span)
    positions = sorted(covered)
    targets = [ids[position] for position in positions]
    for position in positions:
        chance = draw.random()
        if chance < 0.8:
            ids[position] = mask_id
        elif chance < 0.9:
            ids[position] = draw.randint(5, vocab_size - 1)
    return positions, targets
