"""The answers of several models come in; one answer for each example, or the models worth keeping, go out."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from albert.tasks.examples import ChoiceExample, Example, SpanExample, TextExample
from albert.tasks.kinds.kind import Kind
from albert.tasks.metrics.squad_threshold import halve

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
    """The places of two halves; questions on one article, or on one passage, stay together."""
    is_first = halve(group_examples(examples), seed=seed)
    first = [place for place, own in enumerate(is_first) if own]
    return first, [place for place, own in enumerate(is_first) if not own]


def group_examples(examples: Sequence[Example]) -> list[Hashable]:
    """What each example shares with others: an article (if there are several), a context, a passage, a text.

    Of two texts that is the first: one premise may have several hypotheses.
    """
    titles = {example.title for example in examples if isinstance(example, SpanExample)}
    has_articles = len(titles) > 1 and "" not in titles
    groups = [_find_group(example, place, has_articles) for place, example in enumerate(examples)]
    # One text for all rows tells none from another; one context or passage for all does.
    is_one_text = isinstance(examples[0], TextExample) and len(set(groups)) == 1 if examples else False
    return list(range(len(examples))) if is_one_text else groups


def _find_group(example: Example, place: int, has_articles: bool) -> Hashable:
    if isinstance(example, SpanExample):
        return example.title if has_articles else example.context
    if isinstance(example, ChoiceExample) and example.passage:
        return example.passage
    if isinstance(example, TextExample):
        return example.first
    return place


def _are_rows(members: Sequence[Sequence[Any]]) -> bool:
    shapes = {getattr(answer, "shape", None) for answers in members for answer in answers}
    return len(shapes) == 1 and isinstance(members[0][0], np.ndarray)
