"""The series of a chart come in; their names go out, at the ends of lines where there is room, else below."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from albert.report.content import Chart, Series
from albert.report.drawing.readable import wrap_words
from albert.report.drawing.series_styles import SeriesStyle
from albert.report.palette import INK

LINE_POINTS = 12.0  # the height of a line of a name
_FONT = 9.5
_MAX_LABELS, _MAX_LINES, _LABEL_WIDTH = 6, 3, 20
_MAX_MOVED = 26.0  # points that a name may stand away from the end of its line
_NEAR_END = 0.02  # of the width: so far apart may lines end that have their names there
_LEGEND_WIDTH, _HANDLE_WIDTH = 66, 9  # in characters: of the picture, and of a sample with its margins


@dataclass(frozen=True)
class _Label:
    """A name at the end of a line: where that is, and how high the name stands, as shares of the axes."""

    style: SeriesStyle
    text: str
    end: tuple[float, float]
    height: float


def find_legend(chart: Chart) -> tuple[int, int]:
    """The number of columns and rows of the legend below a chart."""
    longest = max((len(line) for each in chart.series for line in _wrap_entry(each.name)), default=1)
    num_columns = max(1, min(len(chart.series), _LEGEND_WIDTH // (longest + _HANDLE_WIDTH)))
    num_lines = sum(len(_wrap_entry(each.name)) for each in chart.series)
    return num_columns, math.ceil(num_lines / num_columns)


def draw_legend(figure: Figure, chart: Chart, styles: Sequence[SeriesStyle]) -> None:
    """Samples and names below the picture."""
    if not chart.series:
        return
    samples = [_build_sample(style, has_line=chart.kind == "lines") for style in styles]
    names = ["\n".join(_wrap_entry(each.name)) for each in chart.series]
    figure.legend(
        samples, names, loc="outside lower center", ncols=find_legend(chart)[0], frameon=False,
        fontsize=_FONT, labelcolor=INK, handlelength=3.4 if chart.kind == "lines" else 1.2,
    )  # fmt: skip


def draw_labels(axes: Axes, chart: Chart, styles: Sequence[SeriesStyle], *, height_points: float) -> bool:
    """Names right of the lines' ends; False, and nothing drawn, where they would stand far from them."""
    labels = _place_labels(axes, chart, styles, height_points=height_points)
    for label in labels:
        axes.annotate(
            "", label.end, xytext=(1.022, label.height), xycoords="axes fraction",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": label.style.color, "linewidth": 0.9, "shrinkA": 0,
                        "shrinkB": 0},
        )  # fmt: skip
        sample = _build_sample(label.style, has_line=False)
        sample.set_data([1.034], [label.height])
        sample.set(transform=axes.transAxes, clip_on=False)
        axes.add_artist(sample)
        axes.annotate(
            label.text, (1.054, label.height), xycoords="axes fraction", va="center_baseline", ha="left",
            color=INK, fontsize=_FONT, linespacing=1.1, annotation_clip=False,
        )  # fmt: skip
    return bool(labels)


def _place_labels(
    axes: Axes, chart: Chart, styles: Sequence[SeriesStyle], *, height_points: float
) -> list[_Label]:
    """Where names would stand, from the lowest up; none where there is no good place for all."""
    texts = [wrap_words(each.name, _LABEL_WIDTH) for each in chart.series]
    if len(texts) > _MAX_LABELS or max(map(len, texts), default=0) > _MAX_LINES:
        return []
    found_ends = [_find_end(axes, each) for each in chart.series]
    ends = [end for end in found_ends if end is not None]
    # A line that ends early would have its name among the others.
    if len(ends) < len(texts) or any(x < max(ends)[0] - _NEAR_END for x, _ in ends):
        return []
    order = sorted(range(len(ends)), key=lambda place: ends[place][1])
    sizes = [LINE_POINTS * len(texts[place]) for place in order]
    wanted = [height_points * ends[place][1] for place in order]
    found = spread(wanted, sizes=sizes)
    if any(abs(a - b) > _MAX_MOVED for a, b in zip(wanted, found, strict=True)):
        return []
    return [
        _Label(styles[place], "\n".join(texts[place]), ends[place], y / height_points)
        for place, y in zip(order, found, strict=True)
    ]


def spread(wanted: Sequence[float], *, sizes: Sequence[float]) -> list[float]:
    """Places near the wanted ones (which rise) at which things of these sizes do not overlap.

    Less their sizes they only have to stay in order: neighbours that do not are pooled at their mean.
    """
    offsets = [sum(sizes[:place]) + size / 2 for place, size in enumerate(sizes)]
    pools: list[list[float]] = []
    for target in (want - offset for want, offset in zip(wanted, offsets, strict=True)):
        pools.append([target])
        while len(pools) > 1 and _mean(pools[-2]) >= _mean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    placed = [_mean(pool) for pool in pools for _ in pool]
    return [place + offset for place, offset in zip(placed, offsets, strict=True)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _find_end(axes: Axes, series: Series) -> tuple[float, float] | None:
    """Where a line ends, as shares of the axes."""
    points = zip(series.xs, series.ys, strict=True)
    known = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    if not known:
        return None
    axes.get_xlim(), axes.get_ylim()  # asked for, limits are brought up to date
    x, y = axes.transAxes.inverted().transform(axes.transData.transform(known[-1]))
    return float(x), float(y)


def _build_sample(style: SeriesStyle, *, has_line: bool) -> Line2D:
    return Line2D(
        [], [], color=style.color, linestyle=style.dashes if has_line else "none", linewidth=1.7,
        marker=style.marker, markersize=6, markerfacecolor=style.fill, markeredgewidth=1.3,
    )  # fmt: skip


def _wrap_entry(name: str) -> list[str]:
    return wrap_words(name, _LEGEND_WIDTH - _HANDLE_WIDTH)
