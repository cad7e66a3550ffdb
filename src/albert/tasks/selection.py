"""The answers of several models come in; one answer for each example, or the models worth keeping, go out."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from albert.tasks.examples import ChoiceExample, Example, SpanExample, TokenExample
from albert.tasks.kinds.kind import Kind
from albert.tasks.metrics.halves import halve

AnyKind = Kind[Any, Any, Any, Any, Any]


@dataclass(frozen=True)
class Choice:
    """A model that was added, by its place, and the score of all that are chosen by then."""

    place: int
    score: float


def merge_members(kind: AnyKind, members: Sequence[Sequence[Any]]) -> list[Any]:
    """One answer for each example, from what each model says of it; a single model's are as they are."""
    if len(members) == 1:
        return list(members[0])
    if _are_rows(members):
        # Rows of one width are merged all at once: a hundred times as fast as one by one.
        return list(kind.merge([np.stack(answers) for answers in members]))
    return [kind.merge(answers) for answers in zip(*members, strict=True)]


def choose_members(num_members: int, score: Callable[[Sequence[int]], float]) -> list[Choice]:
    """Forward selection: the best model, then each time the one that helps most, until none helps.

    `score` is that of the models at these places together. Of equals the first is taken.
    """
    chosen: list[Choice] = []
    left = list(range(num_members))
    while left:
        places = [choice.place for choice in chosen]
        scores = [score([*places, place]) for place in left]
        best = max(scores)
        if chosen and best <= chosen[-1].score:
            break
        chosen.append(Choice(left.pop(scores.index(best)), best))
    return chosen


def halve_examples(examples: Sequence[Example], *, seed: int) -> tuple[list[int], list[int]]:
    """The places of two halves; questions on one article, or on one passage, stay together.

    One context or passage for all cannot be halved; one text for most rows tells none from another.
    """
    has_passages = any(isinstance(each, SpanExample) or _has_passage(each) for each in examples)
    most = len(examples) if has_passages else len(examples) // 2
    is_first = halve(group_examples(examples, most=most), seed=seed)
    first = [place for place, own in enumerate(is_first) if own]
    return first, [place for place, own in enumerate(is_first) if not own]


def group_examples(examples: Sequence[Example], *, most: int) -> list[int]:
    """The group of each example, called by a place in it: what shares a text, directly or through others.

    Articles (if there are several), contexts and passages tie as texts do. A text that would tie more than
    `most` examples together does not; the rarest come first.
    """
    titles = {example.title for example in examples if isinstance(example, SpanExample)}
    has_articles = len(titles) > 1 and "" not in titles
    sharers: dict[Hashable, list[int]] = {}
    for place, example in enumerate(examples):
        if has_articles and isinstance(example, SpanExample):
            sharers.setdefault(("title", example.title), []).append(place)
        for text in list_texts(example):
            sharers.setdefault(text, []).append(place)
    groups = list(range(len(examples)))
    members = {place: [place] for place in groups}
    for places in sorted(sharers.values(), key=len):
        tied = dict.fromkeys(groups[place] for place in places)
        if len(tied) == 1 or sum(len(members[group]) for group in tied) > most:
            continue
        # The largest takes the others in, so that no example moves often.
        largest = max(tied, key=lambda group: len(members[group]))
        for group in tied:
            if group != largest:
                for place in members[group]:
                    groups[place] = largest
                members[largest] += members.pop(group)
    return groups


def list_texts(example: Example) -> list[Hashable]:
    """The texts by which an example is known again: both of a pair; of a question, what it is asked about."""
    if isinstance(example, SpanExample):
        return [example.context]
    if isinstance(example, ChoiceExample):
        return [example.passage or example.question]
    if isinstance(example, TokenExample):
        return [example.words]
    return [example.first] if example.second is None else [example.first, example.second]


def _has_passage(example: Example) -> bool:
    return isinstance(example, ChoiceExample) and example.passage != ""


def _are_rows(members: Sequence[Sequence[Any]]) -> bool:
    shapes = {getattr(answer, "shape", None) for answers in members for answer in answers}
    return len(shapes) == 1 and isinstance(members[0][0], np.ndarray)
