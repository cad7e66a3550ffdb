"""Settings come in; minimal pairs go out: two sentences that differ in one word, of which one is right."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from albert.errors import InputError
from albert.study.agreement.grammar import Draft
from albert.study.agreement.phenomena import PHENOMENA
from albert.study.agreement.settings import AgreementSettings

# So many frames in a row that were there before: the grammar has no more to say.
_MAX_REPEATS = 1000


@dataclass(frozen=True)
class Pair:
    """A sentence with a gap, the word that belongs there and one that does not.

    Pairs of one phenomenon with the same `frame` have the same words in other numbers or orders.
    """

    phenomenon: str
    frame: int
    draft: Draft

    @property
    def start(self) -> int:
        """Where the word begins, in characters."""
        return len(self.draft.before) + 1 if self.draft.before else 0

    @property
    def good(self) -> str:
        """The whole sentence with the right word."""
        return self._write(self.draft.good)

    @property
    def bad(self) -> str:
        """The whole sentence with the wrong word."""
        return self._write(self.draft.bad)

    @property
    def choice(self) -> str:
        """Both in one, for a person: `The boys [were | was] tired.`"""
        return self._write(f"[{self.draft.good} | {self.draft.bad}]")

    def _write(self, word: str) -> str:
        text = " ".join(part for part in (self.draft.before, word, self.draft.after) if part)
        return f"{text[0].upper()}{text[1:]}."


def generate_pairs(settings: AgreementSettings) -> tuple[Pair, ...]:
    """The pairs of each phenomenon, one after the other: the same for the same settings, none twice."""
    return tuple(
        pair
        for name in settings.phenomena
        for pair in _generate(name, settings.num_pairs, seed=settings.seed)
    )


def _generate(name: str, num_pairs: int, *, seed: int) -> Iterator[Pair]:
    """A stream of its own for each phenomenon: leaving one out changes no other."""
    num_drafts = PHENOMENA[name].num_drafts
    frames = _iter_frames(name, Random(f"{name} {seed}"))
    for number in range(num_pairs // num_drafts):
        drafts = next(frames, None)
        if drafts is None:
            raise InputError(
                f"num_pairs is {num_pairs}; of {name} there are {number * num_drafts}; ask fewer"
            )
        yield from (Pair(name, number, draft) for draft in drafts)


def _iter_frames(name: str, draws: Random) -> Iterator[tuple[Draft, ...]]:
    seen: set[tuple[str, str, str]] = set()
    num_repeats = 0
    while num_repeats < _MAX_REPEATS:
        drafts = PHENOMENA[name].build(draws)
        keys = {(draft.before, draft.after, min(draft.good, draft.bad)) for draft in drafts}
        if seen & keys:
            num_repeats += 1
            continue
        num_repeats = 0
        seen |= keys
        yield drafts


def format_pairs(pairs: Iterable[Pair]) -> str:
    """A line of JSON for each pair."""
    return "".join(f"{json.dumps(_describe(pair), ensure_ascii=False)}\n" for pair in pairs)


def _describe(pair: Pair) -> dict[str, str | int]:
    return {
        "phenomenon": pair.phenomenon,
        "frame": pair.frame,
        "good": pair.good,
        "bad": pair.bad,
        "num_attractors": pair.draft.num_attractors,
        "distance": pair.draft.distance,
    }


def identify_pairs(pairs: Iterable[Pair]) -> str:
    """A hash of what is asked: equal for equal pairs."""
    return hashlib.sha256(format_pairs(pairs).encode()).hexdigest()
