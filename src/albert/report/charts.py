"""Draw charts as SVG or PNG with matplotlib, all in one style."""

import io
import math
import re
import textwrap
import warnings
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imsave
from matplotlib.ticker import EngFormatter, MaxNLocator, NullFormatter, NullLocator

from albert.files import atomic_path
from albert.report.content import Chart, Series
from albert.report.theme import COLORS, DASHES, GRAY, MARKERS, PALE, PAPER, STYLE

_WIDTH, _HEIGHT = 6.2, 3.4  # inches; narrow, so that text is readable on a phone
_MAX_VALUE_TICKS = 8


def draw_chart(chart: Chart) -> str:
    """Draw a chart as an SVG element. Equal charts give equal text; ids start with the chart's name."""
    file = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with style.context(["default", STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # the viewer has more fonts
        _build_figure(chart).savefig(file, format="svg", metadata=no_metadata)
    svg = file.getvalue()
    svg = re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>{chart.name}-", svg[svg.index("<svg") :])
    label = f"{chart.name}-title"
    names = "; ".join(each.name for each in chart.series)
    description = chart.caption or f"{chart.y_label} by {chart.x_label or 'name'}: {names}."
    head = f'<title id="{label}">{escape(chart.title)}</title><desc>{escape(description)}</desc>'
    return svg.replace(">", f' role="img" aria-labelledby="{label}">{head}', 1)


def write_png(path: Path, charts: Sequence[Chart]) -> None:
    """Draw charts with their titles into one PNG file, two per row."""
    images = []
    with style.context(["default", STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        for chart in charts:
            figure = _build_figure(chart)
            figure.axes[0].set_title(chart.title, loc="left")
            canvas: Any = FigureCanvasAgg(figure)
            canvas.draw()
            images.append(np.asarray(canvas.buffer_rgba()))
    height, width = (max(image.shape[axis] for image in images) for axis in (0, 1))
    page = np.full((height * math.ceil(len(images) / 2), 2 * width, 4), 255, dtype=np.uint8)
    for index, image in enumerate(images):
        top, left = index // 2 * height, index % 2 * width
        page[top : top + image.shape[0], left : left + image.shape[1]] = image
    with atomic_path(path) as temporary:
        imsave(temporary, page, format="png")


def _build_figure(chart: Chart) -> Figure:
    height = _HEIGHT
    if chart.x_names is not None:
        height = 0.7 + len(chart.x_names) * max(0.34, 0.14 + 0.16 * len(chart.series))
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = figure.subplots()
    for index, series in enumerate(chart.series):
        _draw_series(axes, chart, series, index)
    for index, level in enumerate(chart.levels):
        draw = axes.axhline if chart.x_names is None else axes.axvline
        line = ("--", ":", "-.")[index % 3]
        draw(level.height, color=GRAY, linewidth=1.1, linestyle=line, zorder=1.5, label=level.name)
    if chart.has_diagonal and chart.series:
        start = min(min(each.xs, default=0.0) for each in chart.series)
        axes.axline((start, start), slope=1, color=GRAY, linewidth=1.1, linestyle="--", label="y = x")
    _set_scales(axes, chart)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        labels = [textwrap.fill(label, 64) for label in labels]
        longest = max(len(line) for label in labels for line in label.splitlines())
        num_columns = max(1, min(len(labels), 96 // (longest + 9)))
        figure.set_figheight(height + 0.1 + 0.19 * math.ceil(len(labels) / num_columns))
        figure.legend(handles, labels, loc="outside lower center", ncols=num_columns, handlelength=3)
    return figure


def _draw_series(axes: Axes, chart: Chart, series: Series, index: int) -> None:
    """Draw a line with a band, or points with interval bars; names are on the vertical axis."""
    color = COLORS[index % len(COLORS)]
    line_style: dict[str, Any] = {
        "label": series.name,
        "color": color,
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": (0, (3, 2.5)) if series.is_reference else DASHES[index % len(DASHES)],
        "markerfacecolor": PAPER if series.is_reference else color,
        "zorder": 3,
    }
    bars: dict[str, Any] = {"color": color, "linewidth": 1.4, "zorder": 2.5}
    if chart.x_names is not None:
        gap = min(0.2, 0.7 / max(1, len(chart.series) - 1))  # of the series at one name
        heights = [x + (index - (len(chart.series) - 1) / 2) * gap for x in series.xs]
        if series.lows is not None and series.highs is not None:
            axes.hlines(heights, series.lows, series.highs, **bars)
        axes.plot(series.ys, heights, **{**line_style, "linestyle": "none"})
        return
    is_line = chart.kind == "lines" and len(series.xs) > 1
    if series.lows is not None and series.highs is not None:
        if is_line:
            axes.fill_between(series.xs, series.lows, series.highs, color=color, alpha=0.15, linewidth=0)
        else:
            axes.vlines(series.xs, series.lows, series.highs, **bars)
    if is_line:
        axes.plot(series.xs, series.ys, markevery=max(1, len(series.xs) // 9), **line_style)
    else:
        many = {"markersize": 3.5, "alpha": 0.6} if len(series.xs) > 50 else {}
        axes.plot(series.xs, series.ys, **{**line_style, "linestyle": "none", **many})


def _set_scales(axes: Axes, chart: Chart) -> None:
    is_named = chart.x_names is not None
    x_axis, y_axis = (axes.yaxis, axes.xaxis) if is_named else (axes.xaxis, axes.yaxis)
    if chart.x_names is not None:
        names = [textwrap.fill(name, 30) for name in chart.x_names]
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)  # the first name on top
        axes.grid(visible=False, axis="y")
        for index in range(1, len(names), 2):
            axes.axhspan(index - 0.5, index + 0.5, color=PALE, alpha=0.4, linewidth=0, zorder=0)
    else:
        xs = sorted({float(x) for each in chart.series for x in each.xs})
        if chart.has_log_x and xs and xs[0] > 0:
            axes.set_xscale("log")
            if len(xs) <= _MAX_VALUE_TICKS:
                axes.set_xticks(xs)
            x_axis.set_minor_locator(NullLocator())
        elif all(x.is_integer() for x in xs):
            x_axis.set_major_locator(MaxNLocator(integer=True))
        x_axis.set_major_formatter(_format_tick)
    if chart.has_log_y and any(y > 0 for each in chart.series for y in each.ys):
        (axes.set_xscale if is_named else axes.set_yscale)("log")
        y_axis.set_minor_formatter(NullFormatter())
    y_axis.set_major_formatter(_format_tick)
    x_axis.set_label_text(textwrap.fill(chart.x_label, 70))
    y_axis.set_label_text(textwrap.fill(chart.y_label, 70 if is_named else 44))


def _format_tick(value: float, _: object = None) -> str:
    """Format a tick: 0.05, 1024, 12,500, 2M."""
    return EngFormatter(sep="")(value) if abs(value) >= 1e6 else f"{value:,.8g}".replace("-", "−")
