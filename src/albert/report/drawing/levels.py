"""The levels of a chart come in; thin lines with their names go out, on given axes."""

import math

from matplotlib.axes import Axes

from albert.report.content import Chart, Level
from albert.report.drawing.readable import wrap_words
from albert.report.palette import GREY, PAPER

_NEAR = 0.07  # of an axis; names that are nearer would run into each other
_MAX_BESIDE = 14  # letters of a line beside the axes


def draw_levels(axes: Axes, chart: Chart, *, is_upright: bool) -> None:
    """A dashed line for each level; its name is beside the axes, or within them, where lines leave room."""
    levels = sorted(chart.levels, key=lambda level: level.height)
    for level in levels:
        draw = axes.axhline if is_upright else axes.axvline
        draw(level.height, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1.5)
    if not is_upright:
        for level in levels:
            _name_above_axes(axes, level)
        return
    low, high = axes.get_ylim()  # as it is when all are drawn
    shares = [_find_share(level.height, low, high, is_log=chart.has_log_y) for level in levels]
    for level, share, following in zip(levels, shares, (*shares[1:], math.inf), strict=False):
        is_below = following - share < _NEAR
        if chart.kind == "lines":  # whose own names stand beside the axes
            _name_within(axes, chart, level, is_below=is_below)
        else:
            _name_beside(axes, level, is_below=is_below)


def _name_above_axes(axes: Axes, level: Level) -> None:
    axes.annotate(
        level.name, (level.height, 1), xycoords=("data", "axes fraction"), xytext=(0, 3),
        textcoords="offset points", ha="center", va="bottom", color=GREY, fontsize=9, annotation_clip=False,
    )  # fmt: skip


def _name_beside(axes: Axes, level: Level, *, is_below: bool) -> None:
    axes.annotate(
        "\n".join(wrap_words(level.name, _MAX_BESIDE)), (1, level.height), xycoords=("axes fraction", "data"),
        xytext=(4, 0), textcoords="offset points", ha="left", va="top" if is_below else "center", color=GREY,
        fontsize=9, annotation_clip=False,
    )  # fmt: skip


def _name_within(axes: Axes, chart: Chart, level: Level, *, is_below: bool) -> None:
    is_left = _has_more_room_left(chart, level.height)
    axes.annotate(
        level.name, (0.01 if is_left else 0.99, level.height), xycoords=("axes fraction", "data"),
        xytext=(0, -3 if is_below else 3), textcoords="offset points", ha="left" if is_left else "right",
        va="top" if is_below else "bottom", color=GREY, fontsize=9, zorder=4,
        bbox={"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 0.6},
    )  # fmt: skip


def _find_share(value: float, low: float, high: float, *, is_log: bool) -> float:
    if is_log and min(value, low, high) > 0:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / ((high - low) or 1.0)


def _has_more_room_left(chart: Chart, height: float) -> bool:
    """Whether the points of the left third keep further away from a height than those of the right one."""
    points = [(x, y) for series in chart.series for x, y in zip(series.xs, series.ys, strict=True)]
    if not points:
        return False
    low, high = min(points)[0], max(points)[0]
    left = [abs(y - height) for x, y in points if x <= low + (high - low) / 3]
    right = [abs(y - height) for x, y in points if x >= high - (high - low) / 3]
    return min(left) > min(right)
