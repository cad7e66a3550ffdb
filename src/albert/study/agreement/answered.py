"""Margins of models come in; what a report tells of them goes out: names, decisions, shares of right ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from albert.report.content import Cell
from albert.study.agreement.pairs import Pair
from albert.study.agreement.phenomena import PHENOMENA
from albert.study.agreement.results import ModelAnswers
from albert.study.agreement.scoring import AgreementScores, summarise
from albert.study.agreement.significance import find_wilson
from albert.study.naming import name_models


@dataclass(frozen=True)
class Answered:
    """A model under a short name, its scores, and whether it was right, pair by pair (None: not asked)."""

    name: str
    model: ModelAnswers
    scores: AgreementScores

    @property
    def decisions(self) -> list[bool | None]:
        """By pair."""
        return [None if margin is None else margin > 0 for margin in self.scores.margins]


@dataclass(frozen=True)
class Share:
    """How many of some pairs were decided rightly, in points of 100, with the 95% interval."""

    percent: float
    low: float
    high: float
    num_pairs: int

    def show(self) -> Cell:
        """`87.5 (82.1–91.4)`."""
        text = f"{self.percent:.1f} ({self.low:.1f}–{self.high:.1f})"
        return Cell(text, self.percent, self.low, self.high)


def collect(models: Sequence[ModelAnswers], pairs: Sequence[Pair]) -> list[Answered]:
    """Each model with its scores and its name."""
    names = name_models([model.source for model in models])
    named = zip(names, models, strict=True)
    return [Answered(name, model, summarise(pairs, model.margins)) for name, model in named]


def count_share(num_right: int, num_pairs: int) -> Share:
    """A share in points of 100."""
    low, high = find_wilson(num_right, num_pairs)
    return Share(100.0 * num_right / num_pairs, 100.0 * low, 100.0 * high, num_pairs)


def share_by(answered: Answered, pairs: Sequence[Pair], key: Callable[[Pair], int]) -> dict[int, Share]:
    """Agreement of subject and verb, by a number that each pair has, in the order of the numbers."""
    found: dict[int, list[bool]] = {}
    for pair, is_right in zip(pairs, answered.decisions, strict=True):
        if is_right is not None and PHENOMENA[pair.phenomenon].is_subject_verb:
            found.setdefault(key(pair), []).append(is_right)
    return {number: count_share(sum(found[number]), len(found[number])) for number in sorted(found)}
