"""Figures of any task come in; their middle, or words for a person, go out; a threshold may be no number."""

from collections.abc import Sequence
from statistics import median_high, median_low

from albert.tasks.metrics.squad_threshold import ANSWER_NOTHING


def find_middle(values: Sequence[float]) -> float:
    """The median of thresholds or other figures; beside `ANSWER_NOTHING`, which has no mean, the other."""
    low, high = median_low(values), median_high(values)
    return high if low == ANSWER_NOTHING else (low + high) / 2


def format_figure(value: float, spec: str = ".2f") -> str:
    """A figure as a person reads it; a threshold that no odds lie below is words."""
    return "nothing is answered" if value == ANSWER_NOTHING else format(value, spec)
