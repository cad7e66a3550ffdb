"""A chart comes in; a drawn picture goes out as bytes, the same for the same chart wherever it is drawn."""

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from matplotlib import style as matplotlib_style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from albert.report.content import Chart
from albert.report.drawing.levels import draw_levels
from albert.report.drawing.marks import draw_lines, draw_points, draw_stripes
from albert.report.drawing.names import LINE_POINTS, draw_labels, draw_legend, find_legend
from albert.report.drawing.numbers import mark_numbers
from albert.report.drawing.readable import clean_chart, wrap_words
from albert.report.drawing.series_styles import SeriesStyle, choose_styles
from albert.report.palette import GREY, INK, PALE

_WIDTH, _HEIGHT, _DPI = 5.8, 3.5, 160  # narrow, so that letters are large enough on a phone
_MARGINS_POINTS = 46.0  # of the height, for the numbers and the name of the axis below
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "albert",
    "text.parse_math": False,  # a name may hold two dollars
    "axes.unicode_minus": True,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # measured by the one font that every matplotlib has
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": PALE,
    "grid.linewidth": 0.7,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


def save_svg(chart: Chart) -> bytes:
    """Draw a chart, untouched by what a user has set up for matplotlib."""
    file = io.BytesIO()
    # What is stamped on files by default: who made them, with what, and when.
    blank = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with _use_style():
        _build_figure(clean_chart(chart)).savefig(file, format="svg", dpi=_DPI, metadata=blank)
    return file.getvalue()


@contextmanager
def _use_style() -> Iterator[None]:
    with matplotlib_style.context(["default", _STYLE]), warnings.catch_warnings():
        # Whoever shows the text has the letters, if the font that it is measured with has not.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def _build_figure(chart: Chart) -> Figure:
    is_upright = _stands_upright(chart)
    styles = choose_styles(chart.series)
    legend_inches = (find_legend(chart)[1] * (LINE_POINTS + 4) + 6) / 72
    height = _HEIGHT if is_upright else _find_height(chart)
    figure = Figure(figsize=(_WIDTH, height), dpi=_DPI, layout="constrained")
    axes = figure.subplots()
    if chart.kind == "lines":
        draw_lines(axes, chart, styles)
        axes.margins(x=0.02, y=0.07)
    else:
        draw_points(axes, chart, styles, is_upright=is_upright)
        axes.margins(x=0.06, y=0.1)
    _set_axes(axes, chart, is_upright=is_upright)
    draw_levels(axes, chart, is_upright=is_upright)
    if not _has_labels(axes, chart, styles, height_points=72 * height - _MARGINS_POINTS):
        figure.set_figheight(height + legend_inches)
        draw_legend(figure, chart, styles)
    return figure


def _has_labels(axes: Axes, chart: Chart, styles: Sequence[SeriesStyle], *, height_points: float) -> bool:
    return chart.kind == "lines" and draw_labels(axes, chart, styles, height_points=height_points)


def _stands_upright(chart: Chart) -> bool:
    """Whether names stand along x, or there are none; many or long ones are read better one below another."""
    if chart.kind == "lines" or chart.x_names is None:
        return True
    longest = max((len(line) for name in chart.x_names for line in _wrap_name(name)), default=0)
    return len(chart.x_names) * (longest + 2) <= 64 and max(map(len, map(_wrap_name, chart.x_names))) <= 2


def _find_height(chart: Chart) -> float:
    names = chart.x_names or ()
    return 0.75 + len(names) * max(0.34, 0.14 + 0.15 * len(chart.series))


def _set_axes(axes: Axes, chart: Chart, *, is_upright: bool) -> None:
    """Scales, marks, grid and what the axes are called."""
    across, up = (axes.xaxis, axes.yaxis) if is_upright else (axes.yaxis, axes.xaxis)
    ys = [y for each in chart.series for y in (*each.ys, *(each.lows or ()), *(each.highs or ()))]
    has_log_y = chart.has_log_y and any(y > 0 for y in ys)
    if has_log_y:
        (axes.set_yscale if is_upright else axes.set_xscale)("log")
    mark_numbers(up, values=ys, is_log=has_log_y, is_by_value=False)
    if chart.x_names is not None:
        _set_names(axes, chart.x_names, is_upright=is_upright)
    else:
        xs = [x for each in chart.series for x in each.xs]
        has_log_x = chart.has_log_x and any(x > 0 for x in xs)
        if has_log_x:
            axes.set_xscale("log")
        mark_numbers(across, values=xs, is_log=has_log_x, is_by_value=True)
    across.set_label_text("\n".join(wrap_words(chart.x_label, 70 if is_upright else 40)))
    up.set_label_text("\n".join(wrap_words(chart.y_label, 42 if is_upright else 70)))


def _set_names(axes: Axes, names: Sequence[str], *, is_upright: bool) -> None:
    places = range(len(names))
    labels = ["\n".join(_wrap_name(name) if is_upright else wrap_words(name, 28)) for name in names]
    draw_stripes(axes, len(names), is_upright=is_upright)
    if is_upright:
        axes.set_xticks(places, labels)
        axes.set_xlim(-0.5, len(names) - 0.5)
    else:
        axes.set_yticks(places, labels)
        axes.set_ylim(len(names) - 0.5, -0.5)  # the first on top
    axes.grid(visible=False, axis="x" if is_upright else "y")
    axes.tick_params(axis="x" if is_upright else "y", length=0)


def _wrap_name(name: str) -> list[str]:
    return wrap_words(name, 14)
