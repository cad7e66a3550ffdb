"""Peaks over batch sizes come in; what each sequence adds, and ratios go out. No torch."""

from collections.abc import Mapping
from dataclasses import dataclass

from albert.study.steps.equal_shapes import FAMILIES, Family
from albert.study.steps.step_process import Footprint


@dataclass(frozen=True)
class MemoryPoint:
    """One step in a fresh process, or why it did not fit."""

    footprint: Footprint | None
    failure: str | None = None


@dataclass(frozen=True)
class Case:
    """A family, with or without gradient checkpointing."""

    family: Family
    is_checkpointed: bool

    @property
    def name(self) -> str:
        """For a reader, and for the results' file."""
        return f"{self.family}, checkpointed" if self.is_checkpointed else self.family


@dataclass(frozen=True)
class Growth:
    """What a further sequence adds to the peak, from one batch size to the next."""

    sequence_bytes: float
    smaller: int
    larger: int


@dataclass(frozen=True)
class ShapeMemory:
    """All that was measured of one shape: by case and batch size."""

    shape: str
    points: Mapping[Case, Mapping[int, MemoryPoint]]

    def list_measured(self, case: Case) -> dict[int, Footprint]:
        """By batch size; what did not fit is left out."""
        points = self.points.get(case, {})
        return {size: point.footprint for size, point in points.items() if point.footprint is not None}

    def list_failures(self) -> list[str]:
        """What did not fit, and why."""
        return [
            f"{self.shape}, {case.name}, batches of {size}: {point.failure}"
            for case, points in self.points.items()
            for size, point in points.items()
            if point.footprint is None
        ]

    def find_growth(self, case: Case) -> Growth | None:
        """Between the two largest batches; None: one alone does not grow.

        Not a line through all of them: where batches are small and weights many, the peak is that of the
        optimiser's step, which no sequence raises, and a line would tell too little of what each one adds.
        """
        found = self.list_measured(case)
        if len(found) < 2:
            return None
        smaller, larger = sorted(found)[-2:]
        added = found[larger].peak_bytes - found[smaller].peak_bytes
        return Growth(added / (larger - smaller), smaller, larger)

    def list_ratios(self, *, is_checkpointed: bool) -> dict[int, float]:
        """BERT's peak over ALBERT's, by batch size where both fit."""
        albert, bert = (self.list_measured(Case(family, is_checkpointed)) for family in FAMILIES)
        return {size: bert[size].peak_bytes / albert[size].peak_bytes for size in albert if size in bert}

    @property
    def parameter_ratio(self) -> float | None:
        """BERT's parameters over ALBERT's, as the measured models have them."""
        counts: dict[Family, int] = {}
        for case in self.points:
            for found in self.list_measured(case).values():
                counts[case.family] = found.num_parameters
        return counts["BERT"] / counts["ALBERT"] if len(counts) == len(FAMILIES) else None
