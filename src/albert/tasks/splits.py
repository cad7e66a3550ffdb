"""Split examples: identify them, group those that share a text, hold out a dev set, draw halves."""

import hashlib
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from albert.errors import FileFormatError, InputError
from albert.tasks.task import Example, ExampleT

# Numbers of random streams: held-out dev sets and halves depend only on them and the seed.
_DEV_STREAM = 7001
_HALF_STREAM = 3
_MAX_SURPLUS = 2  # a dev set may become so many times as large as it should be to keep groups together


def identify_examples(examples: Iterable[Example]) -> str:
    """Hash examples, whatever their order: a model records what it was trained on."""
    digests = sorted(hashlib.sha256(repr(example).encode()).digest() for example in examples)
    return hashlib.sha256(b"".join(digests)).hexdigest()


def hold_out(
    examples: Sequence[ExampleT], *, share: float, source: str
) -> tuple[tuple[ExampleT, ...], tuple[ExampleT, ...]]:
    """Split off a dev set: the same examples whatever the seed.

    Examples that share a text, a context or a passage stay together, as far as possible, so that the dev set
    has no training texts. If there are several strata, such as questions with and without an answer, the dev
    set has examples of two of them.

    Returns:
        The train and the dev examples.
    """
    number = round(share * len(examples))
    if not 1 <= number < len(examples):
        raise FileFormatError(
            f"{source}: cannot hold out {share:.0%} of {len(examples)} examples as the dev set; give more, "
            "or a table with --dev"
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
    held = _take_groups(drawn, number)
    strata = {examples[index].stratum for index in held}
    if len(strata) == 1:
        others = [group for group in drawn if any(examples[i].stratum not in strata for i in group)]
        if len(others) > 1:
            # The first of them and the first drawn are taken whatever their size, so that both are held out.
            rest = [group for group in drawn[1:] if group is not others[0]]
            held = _take_groups([others[0] + drawn[0], *rest], number)
    return (
        tuple(each for index, each in enumerate(examples) if index not in held),
        tuple(each for index, each in enumerate(examples) if index in held),
    )


def _take_groups(groups: Sequence[list[int]], number: int) -> set[int]:
    """Take groups until they have `number` rows or more; the last group is left for training."""
    taken: set[int] = set()
    for group in groups[:-1]:
        if len(taken) >= number:
            break
        taken.update(group)
    return taken


def halve_examples(examples: Sequence[Example], *, seed: int) -> tuple[list[int], list[int]]:
    """Draw two halves of rows; questions on one article or one passage stay together.

    A single context or passage cannot be halved; a text shared by most rows does not tie them together.
    """
    has_passages = any(example.has_passage for example in examples)
    groups = group_examples(examples, max_tied=len(examples) if has_passages else len(examples) // 2)
    names = list(dict.fromkeys(groups))
    if len(names) < 2:
        raise InputError(f"{len(names)} group of questions cannot be halved; at least 2 are needed")
    if seed < 0:
        raise InputError(f"seed {seed} is below 0; give 0 or more")
    order = np.random.default_rng([seed, _HALF_STREAM]).permutation(len(names))
    first = {names[index] for index in order[: len(names) // 2]}
    halves: tuple[list[int], list[int]] = ([], [])
    for row, group in enumerate(groups):
        halves[group not in first].append(row)
    return halves


def group_examples(examples: Sequence[Example], *, max_tied: int) -> list[int]:
    """Group the examples that share a text, directly or through others; a group is named by a row in it.

    Articles (if there are several), contexts and passages tie as texts do. A text that would tie more than
    `max_tied` examples together does not; the rarest come first.
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
        # The largest group absorbs the others, so that no example moves often.
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
