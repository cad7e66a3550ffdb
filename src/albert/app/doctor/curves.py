"""Figures over steps: records come in; curves, and straight lines through them with their errors, go out."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Curve:
    """One figure of a run at the steps where it was recorded."""

    steps: NDArray[np.float64]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.steps)

    def between(self, first: float, last: float) -> "Curve":
        """What was recorded after step `first` and up to step `last`."""
        chosen = (self.steps > first) & (self.steps <= last)
        return Curve(self.steps[chosen], self.values[chosen])

    def smooth(self, width: int) -> "Curve":
        """Each value as the median of the `width` around it: one odd record moves nothing."""
        half = width // 2
        medians = [np.median(self.values[max(0, i - half) : i + half + 1]) for i in range(len(self))]
        return Curve(self.steps, np.array(medians, dtype=np.float64))


@dataclass(frozen=True)
class Trend:
    """The least-squares line through a curve: its mean height, its slope per step, and that one's error."""

    mean: float
    slope: float
    error: float
    span: float

    @property
    def change(self) -> float:
        """How far the line moves from the first record to the last."""
        return self.slope * self.span

    def is_known(self, share: float) -> bool:
        """Whether a move of more than that share of its height would have been seen through the noise."""
        return 2 * self.error * self.span < share * abs(self.mean)

    def is_falling(self, share: float) -> bool:
        """Whether it falls by more than that share of its height, and by more than twice its error."""
        return self.change < -share * abs(self.mean) and self.slope + 2 * self.error < 0

    def is_rising(self, share: float) -> bool:
        """Whether it rises by more than that share of its height, and by more than twice its error."""
        return self.change > share * abs(self.mean) and self.slope - 2 * self.error > 0


def read_curve(records: Iterable[Mapping[str, Any]], key: str) -> Curve:
    """The figure of that name; a record that lacks it, or in which no step had one, is passed over."""
    found = [
        (record["step"], record[key])
        for record in records
        if isinstance(record.get(key), int | float) and math.isfinite(record[key])
    ]
    steps, values = zip(*found, strict=True) if found else ((), ())
    return Curve(np.array(steps, dtype=np.float64), np.array(values, dtype=np.float64))


def fit_trend(curve: Curve) -> Trend:
    """The straight line through a curve of three records or more at different steps."""
    assert len(curve) > 2, "through two points every line is exact"
    x = curve.steps - curve.steps.mean()
    mean = float(curve.values.mean())
    squares = float((x**2).sum())
    slope = float((x * (curve.values - mean)).sum()) / squares
    rest = curve.values - mean - slope * x
    error = math.sqrt(float((rest**2).sum()) / (len(x) - 2) / squares)
    return Trend(mean, slope, error, float(curve.steps[-1] - curve.steps[0]))
