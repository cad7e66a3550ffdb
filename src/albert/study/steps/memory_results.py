"""Peaks over batch sizes come in; what is fixed, what each sequence adds, and ratios go out. No torch."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

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
class Line:
    """Peak memory as a straight line over batch sizes."""

    fixed_bytes: float
    sequence_bytes: float


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

    def fit_line(self, case: Case) -> Line | None:
        """Least squares over the measured batch sizes; None: one alone is no line."""
        found = self.list_measured(case)
        if len(found) < 2:
            return None
        slope, fixed = np.polyfit(list(found), [each.peak_bytes for each in found.values()], deg=1)
        return Line(float(fixed), float(slope))

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
