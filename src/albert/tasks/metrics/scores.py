"""The metrics of tasks by name, in points of 100, and their mean, the main score."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median_high, median_low

from albert.errors import InputError
from albert.tasks.metrics import Floats, Metric, Values
from albert.tasks.metrics.classification import CLASS_METRICS
from albert.tasks.metrics.regression import pearson, spearman
from albert.tasks.metrics.squad import ANSWER_NOTHING

METRICS: Mapping[str, Metric] = {**CLASS_METRICS, "pearson": pearson, "spearman": spearman}
WeightedScores = Callable[[Floats], dict[str, float]]  # from the weight of each example to all metrics


def prepare_metrics(
    predictions: Values, *, golds: Values, metrics: Sequence[str], score_metrics: Sequence[str] = ()
) -> WeightedScores:
    """Prepare the named metrics and `score`, the mean of `score_metrics` (by default all)."""
    for name in metrics:
        if name not in METRICS:
            raise InputError(f"unknown metric {name!r}; metrics: {', '.join(METRICS)}")
    prepared = {name: METRICS[name].prepare(predictions, golds=golds) for name in metrics}
    return lambda weights: add_score(
        {name: metric(weights) for name, metric in prepared.items()}, score_metrics=score_metrics or metrics
    )


def add_score(values: Mapping[str, float], *, score_metrics: Sequence[str]) -> dict[str, float]:
    """Convert fractions to points of 100 and add `score`, the mean of `score_metrics`."""
    points = {name: 100.0 * value for name, value in values.items()}
    return {**points, "score": sum(points[name] for name in score_metrics) / len(score_metrics)}


def find_median(values: Sequence[float]) -> float:
    """Compute the median of scores or thresholds; `ANSWER_NOTHING` is not averaged with another value."""
    low, high = median_low(values), median_high(values)
    return high if low == ANSWER_NOTHING else (low + high) / 2


def format_score(value: float, spec: str = ".2f") -> str:
    """Format a score, or a threshold, which may be `ANSWER_NOTHING`."""
    return "nothing is answered" if value == ANSWER_NOTHING else format(value, spec)
