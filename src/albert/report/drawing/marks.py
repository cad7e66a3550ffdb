"""Series come in; lines with bands and points with whiskers go out, on given axes."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from albert.report.content import Chart, Series
from albert.report.drawing.series_styles import SeriesStyle
from albert.report.palette import PALE

_MANY = 13  # points of a line from which on only some have a marker
_SPREAD = 0.7  # of the room of a name: so far apart stand the first and the last series at most
_GAP = 0.2


def draw_lines(axes: Axes, chart: Chart, styles: Sequence[SeriesStyle]) -> None:
    """A line for each series; intervals are bands."""
    num_series = len(chart.series)
    for place, (series, style) in enumerate(zip(chart.series, styles, strict=True)):
        if series.lows is not None and series.highs is not None and len(series.xs) > 1:
            axes.fill_between(
                series.xs, series.lows, series.highs, facecolor=(style.color, 0.15),
                edgecolor=(style.color, 0.45), linewidth=0.5, zorder=2,
            )  # fmt: skip
        elif len(series.xs) == 1:
            draw_whiskers(axes, series, style, places=series.xs, is_upright=True)
        step = max(1, -(-len(series.xs) // 9))
        # Markers of neighbouring lines stand at different places, so that none hides another.
        shown = (place * step // num_series, step) if len(series.xs) >= _MANY else None
        axes.plot(
            series.xs, series.ys, color=style.color, linestyle=style.dashes, linewidth=1.7, zorder=3,
            marker=style.marker, markersize=5.5, markerfacecolor=style.fill, markeredgewidth=1.2,
            markevery=shown,
        )  # fmt: skip


def draw_points(axes: Axes, chart: Chart, styles: Sequence[SeriesStyle], *, is_upright: bool) -> None:
    """Points of several series side by side; intervals are whiskers. Upright, names stand along x."""
    gap = min(_GAP, _SPREAD / max(1, len(chart.series) - 1)) if chart.x_names is not None else 0.0
    for number, (series, style) in enumerate(zip(chart.series, styles, strict=True)):
        shift = (number - (len(chart.series) - 1) / 2) * gap
        places = [x + shift for x in series.xs]
        draw_whiskers(axes, series, style, places=places, is_upright=is_upright)
        axes.plot(
            *(_turn(places, series.ys, is_upright=is_upright)), linestyle="none", marker=style.marker,
            color=style.color, markerfacecolor=style.fill, markersize=6.5, markeredgewidth=1.4, zorder=3,
        )  # fmt: skip


def draw_whiskers(
    axes: Axes, series: Series, style: SeriesStyle, *, places: Sequence[float], is_upright: bool
) -> None:
    """The intervals of points; one without a length is none."""
    ends = zip(places, series.lows or (), series.highs or (), strict=False)
    for place, low, high in ends:
        if low < high:
            axes.plot(
                *_turn([place, place], [low, high], is_upright=is_upright), color=style.color, linewidth=1.4,
                linestyle=(0, (2, 1.2)) if style.is_hollow else "-", marker="_" if is_upright else "|",
                markersize=6, zorder=2.5,
            )  # fmt: skip


def draw_stripes(axes: Axes, num_names: int, *, is_upright: bool) -> None:
    """Every other name's room is shaded, so that what belongs together is seen."""
    draw = axes.axvspan if is_upright else axes.axhspan
    for place in range(1, num_names, 2):
        draw(place - 0.5, place + 0.5, color=PALE, alpha=0.4, linewidth=0, zorder=0)


def _turn(
    places: Sequence[float], values: Sequence[float], *, is_upright: bool
) -> tuple[Sequence[float], Sequence[float]]:
    return (places, values) if is_upright else (values, places)
