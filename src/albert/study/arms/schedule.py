"""The arms of a study and how many run at a time come in; their order and how long all takes go out."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from albert.study.arms.plan import StudySettings


@dataclass(frozen=True)
class Schedule:
    """Arms with their seeds, in groups: one is begun when all of the one before it are done."""

    groups: Sequence[Sequence[tuple[str, int]]]
    num_at_once: int = 1

    def find_seconds(self, seconds: Mapping[str, float]) -> float:
        """How long all takes, if one training of each arm takes so long; whoever is free takes the next."""
        total = 0.0
        for group in self.groups:
            free_at = [0.0] * self.num_at_once
            for arm, _ in group:
                heapq.heapreplace(free_at, free_at[0] + seconds[arm])
            total += max(free_at)
        return total


def build_schedule(settings: StudySettings, *, num_at_once: int = 1) -> Schedule:
    """The order in which arms run: none before the one that it starts from.

    One at a time, all arms with the first seed come before any with the second, so that a study that is
    stopped early has compared them. Of several at a time that would leave most of them idle where an arm
    waits for another; there, only arms that start by themselves are in that order.
    """
    waves = settings.list_waves()
    if num_at_once == 1:
        return Schedule([[(arm, seed) for arm in wave] for seed in settings.seeds for wave in waves])
    groups = [[(arm, seed) for seed in settings.seeds for arm in wave] for wave in waves]
    return Schedule(groups, num_at_once)
