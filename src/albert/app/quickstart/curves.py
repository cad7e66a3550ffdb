"""How pretraining went comes in; charts of what was learned when go out."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from albert.app.quickstart.pretraining import Point, PretrainingResult
from albert.report.content import Chart, Level, Series
from albert.tasks.metrics.intervals import find_wilson

_MAX_POINTS = 200
# By objective: the figure of what it asks about pairs, and what that is called.
_PAIRS = {
    "sop": ("sop_accuracy", "The order of two pieces of text"),
    "nsp": ("nsp_accuracy", "Whether one piece of text follows another"),
}


def draw_loss(run: PretrainingResult) -> Chart:
    """The loss of masked words in both texts, and the height of mere frequencies."""
    held_out = _draw("held-out text", [run.start, *run.held_out], "mlm_loss")
    series = [_draw("training text", run.training, "mlm_loss"), held_out]
    return Chart(
        name="loss",
        title="Masked words",
        x_label="step",
        y_label="loss, nats per piece",
        series=[each for each in series if each.xs],
        levels=[Level(run.unigram_loss, "frequencies alone")],
        told=f"Held-out text: from {held_out.ys[0]:.3f} before the first step to {held_out.ys[-1]:.3f} after "
        f"the last; frequencies alone: {run.unigram_loss:.3f}.",
    )


def draw_order(run: PretrainingResult) -> Chart | None:
    """How many pairs are told right, and how far so few pairs may err; None without such an objective."""
    if run.objective not in _PAIRS:
        return None
    figure, title = _PAIRS[run.objective]
    drawn = _draw("held-out text", [run.start, *run.held_out], figure, scale=100.0)
    if not drawn.xs:
        return None
    held_out = _add_intervals(drawn, num_pairs=run.num_asked)
    return Chart(
        name="order",
        title=title,
        x_label="step",
        y_label="right answers, %",
        series=[held_out],
        levels=[Level(50.0, "chance")],
        told=f"Held-out text, {run.num_asked:,} pairs: from {held_out.ys[0]:.1f}% to {held_out.ys[-1]:.1f}%; "
        f"chance is 50%. {_judge(held_out)}",
    )


def _judge(held_out: Series) -> str:
    assert held_out.lows is not None
    assert held_out.highs is not None
    low, high = held_out.lows[-1], held_out.highs[-1]
    if low > 50:
        found = "that is more than chance"
    elif high < 50:
        found = "that is less than chance"
    else:
        found = "from so few pairs that can't be told from chance"
    return f"The interval of the last is {low:.0f} to {high:.0f}%: {found}."


def _add_intervals(series: Series, *, num_pairs: int) -> Series:
    """95% intervals around shares, by Wilson: without them, chance drawn at this scale looks like news."""
    ends = [find_wilson(round(y / 100 * num_pairs), num_pairs) for y in series.ys]
    lows, highs = ([100.0 * end[side] for end in ends] for side in (0, 1))
    return replace(series, lows=lows, highs=highs)


def _draw(name: str, points: Sequence[Point], figure: str, *, scale: float = 1.0) -> Series:
    return draw_series(name, ((point.step, point.figures.get(figure)) for point in points), scale=scale)


def draw_series(name: str, points: Iterable[tuple[int, float | None]], *, scale: float = 1.0) -> Series:
    """Figures by their steps as a line of few points: first and last are kept, None is passed over."""
    known = [(float(step), scale * figure) for step, figure in points if figure is not None]
    stride = max(1, math.ceil(len(known) / _MAX_POINTS))
    kept = [*known[:-1:stride], *known[-1:]]
    return Series(name, xs=[step for step, _ in kept], ys=[figure for _, figure in kept])
