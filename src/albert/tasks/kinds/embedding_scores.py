"""The vectors of pairs come in; their similarities go out, and how well these agree with what is known."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.errors import InputError
from albert.tasks.examples import TextExample
from albert.tasks.metrics.regression import pearson, spearman

Floats = NDArray[np.float32]
_ROWS = 1024  # first texts that are compared with all seconds at a time


@dataclass(frozen=True, eq=False)
class PairVectors:
    """The vectors of a pair, at length 1; of a single text there is no second."""

    first: Floats
    second: Floats | None = None

    @property
    def similarity(self) -> float:
        """The cosine of the angle between the two."""
        assert self.second is not None
        return float(self.first @ self.second)


def merge_vectors(answers: Sequence[PairVectors]) -> PairVectors:
    """Side by side, again at length 1; the models may have different widths."""
    seconds = [answer.second for answer in answers if answer.second is not None]
    return PairVectors(_join([answer.first for answer in answers]), _join(seconds) if seconds else None)


def _join(vectors: Sequence[Floats]) -> Floats:
    joined: Floats = np.concatenate(vectors) / np.float32(len(vectors) ** 0.5)
    return joined


def score_vectors(answers: Sequence[PairVectors], examples: Sequence[TextExample]) -> dict[str, float]:
    """Spearman's correlation of similarities and numbers, with Pearson's beside it, in points of 100.

    Without numbers: the share of first texts to which their second is the nearest of all seconds. Refused:
    texts without a second, and pairs of which only some have numbers.
    """
    for example in examples:
        if example.second is None:
            raise InputError(
                f"the text {example.id!r} has no second to be compared with; score on pairs, such as STS-B's"
            )
    labels = [example.label for example in examples]
    if all(label is None for label in labels):
        found = 100.0 * find_retrieved(answers, examples)
        return {"retrieval_accuracy": found, "score": found}
    golds = [_read_number(example) for example in examples]
    similarities = [answer.similarity for answer in answers]
    points = {
        name: 100.0 * metric(similarities, golds=golds)
        for name, metric in (("spearman", spearman), ("pearson", pearson))
    }
    return {**points, "score": points["spearman"]}


def _read_number(example: TextExample) -> float:
    if not isinstance(example.label, int | float):
        raise InputError(
            f"the pair {example.id!r} has no number that says how similar it is, and others have one; give "
            "all of them one, or none"
        )
    return float(example.label)


def find_retrieved(answers: Sequence[PairVectors], examples: Sequence[TextExample]) -> float:
    """How often the second text of a pair is the nearest to the first among all seconds.

    So is the second of another pair with the same first text, and the same second text in another pair.
    """
    firsts = np.stack([answer.first for answer in answers])
    seconds = np.stack([answer.second for answer in answers if answer.second is not None])
    hits = 0
    for start in range(0, len(firsts), _ROWS):
        nearest = (firsts[start : start + _ROWS] @ seconds.T).argmax(1)
        for example, place in zip(examples[start : start + _ROWS], nearest, strict=True):
            other = examples[place]
            hits += example.first == other.first or example.second == other.second
    return hits / len(firsts)
