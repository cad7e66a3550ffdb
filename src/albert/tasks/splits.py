"""Split examples into train and dev sets or halves, and keep examples that share a text together."""

import hashlib
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from albert.errors import FileFormatError, InputError
from albert.tasks.task import Example, ExampleT

# Streams of random numbers.
_DEV_STREAM = 7001
_HALF_STREAM = 3
_MAX_SURPLUS = 2  # a dev set may become so many times larger to keep groups together


def identify_examples(examples: Iterable[Example]) -> str:
    """Hash examples independently of their order; models store this hash of their training data."""
    digests = sorted(hashlib.sha256(repr(example).encode()).digest() for example in examples)
    return hashlib.sha256(b"".join(digests)).hexdigest()


def hold_out(
    examples: Sequence[ExampleT], *, share: float, source: str
) -> tuple[tuple[ExampleT, ...], tuple[ExampleT, ...]]:
    """Hold out a dev set, which does not depend on a seed.

    Examples that share a text, context or passage stay together if possible, so that the dev set has no
    training texts. If there are several strata, such as questions with and without an answer, the dev set has
    examples of at least two.

    Args:
        examples: The examples.
        share: The share to hold out.
        source: The file name for error messages.

    Returns:
        The train and the dev examples.
    """
    number = round(share * len(examples))
    if not 1 <= number < len(examples):
        raise FileFormatError(
            f"{source}: cannot hold out {share:.0%} of {len(examples)} examples as the dev set; give more "
            "examples, or a dev set with --dev"
        )
    rows: dict[int, list[int]] = {}
    for index, group in enumerate(
        group_examples(examples, max_tied=min(_MAX_SURPLUS * number, len(examples) - 1))
    ):
        rows.setdefault(group, []).append(index)
    groups = list(rows.values())
    drawn = [
        groups[chosen] for chosen in np.random.default_rng(_DEV_STREAM).permutation(len(groups)).tolist()
    ]
    held_out = _take_groups(drawn, number)
    strata = {examples[index].stratum for index in held_out}
    if len(strata) == 1:
        others = [group for group in drawn if any(examples[i].stratum not in strata for i in group)]
        if len(others) > 1:
            # The first of them and the first drawn are held out, whatever their size.
            rest = [group for group in drawn[1:] if group is not others[0]]
            held_out = _take_groups([others[0] + drawn[0], *rest], number)
    return (
        tuple(each for index, each in enumerate(examples) if index not in held_out),
        tuple(each for index, each in enumerate(examples) if index in held_out),
    )


def _take_groups(groups: Sequence[list[int]], number: int) -> set[int]:
    """Take groups until they have `number` rows; the last group is always left for training."""
    taken: set[int] = set()
    for group in groups[:-1]:
        if len(taken) >= number:
            break
        taken.update(group)
    return taken


def halve_examples(examples: Sequence[Example], *, seed: int) -> tuple[list[int], list[int]]:
    """Split rows into two random halves; questions on one article or passage stay together.

    Raises:
        InputError: If all examples share a text.
    """
    has_passages = any(example.has_passage for example in examples)
    groups = group_examples(examples, max_tied=len(examples) if has_passages else len(examples) // 2)
    names = list(dict.fromkeys(groups))
    if len(names) < 2:
        raise InputError(f"cannot halve {len(examples)} examples that all share a text; give more examples")
    if seed < 0:
        raise InputError(f"seed is {seed}; set it to at least 0")
    order = np.random.default_rng([seed, _HALF_STREAM]).permutation(len(names))
    first = {names[index] for index in order[: len(names) // 2]}
    halves: tuple[list[int], list[int]] = ([], [])
    for row, group in enumerate(groups):
        halves[group not in first].append(row)
    return halves


def group_examples(examples: Sequence[Example], *, max_tied: int) -> list[int]:
    """Group examples that share a text, directly or through others.

    Articles (if there are several), contexts and passages count as texts. The rarest texts come first, and a
    text that would join more than `max_tied` examples is ignored.

    Returns:
        For each example a row that identifies its group.
    """
    articles = {example.article for example in examples}
    has_articles = len(articles) > 1 and "" not in articles
    sharers: dict[Hashable, list[int]] = {}
    for row, example in enumerate(examples):
        if has_articles:
            sharers.setdefault(("title", example.article), []).append(row)
        for text in example.texts:
            sharers.setdefault(text, []).append(row)
    groups = list(range(len(examples)))
    members = {row: [row] for row in groups}
    for rows in sorted(sharers.values(), key=len):
        tied = dict.fromkeys(groups[row] for row in rows)
        if len(tied) == 1 or sum(len(members[group]) for group in tied) > max_tied:
            continue
        # Merged into the largest group, so that examples are rarely moved.
        largest = max(tied, key=lambda group: len(members[group]))
        for group in tied:
            if group != largest:
                for row in members[group]:
                    groups[row] = largest
                members[largest] += members.pop(group)
    return groups


def count_shared(train: Sequence[Example], dev: Sequence[Example]) -> int:
    """Count the dev examples that share a text with a train example."""
    known = {text for example in train for text in example.texts}
    return sum(not known.isdisjoint(example.texts) for example in dev)
