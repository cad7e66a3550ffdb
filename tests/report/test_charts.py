"""Charts are valid, deterministic SVG with the names of all series and axes."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import pytest

from albert.report.charts import draw_chart
from albert.report.content import Chart, Series
from tests.report.samples import CURVES, POINTS, SPEED

SVG = "{http://www.w3.org/2000/svg}"
LINE = Chart("line", "A line", "x", "y", [Series("one", [1, 2, 3], [1.0, 2.0, 4.0])])


def read_words(svg):
    root = ElementTree.fromstring(svg)
    return " ".join(" ".join(text.itertext()) for text in root.iter(f"{SVG}text"))


@pytest.mark.parametrize("chart", [CURVES, POINTS, SPEED], ids=lambda chart: chart.name)
def test_every_series_level_and_axis_is_named(chart):
    svg = draw_chart(chart)
    root, words = ElementTree.fromstring(svg), read_words(svg)
    for name in (each.name for each in (*chart.series, *chart.levels)):
        assert name in words
    for name in (chart.x_label, chart.y_label, *(chart.x_names or ())):
        assert name in words
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == chart.title
    assert root.findtext(f"{SVG}desc") == chart.caption


def test_charts_on_one_page_share_no_id():
    drawn = [draw_chart(chart) for chart in (CURVES, replace(CURVES, name="again"), POINTS)]
    ids = [found for svg in drawn for found in re.findall(r'\sid="([^"]+)"', svg)]
    assert len(ids) == len(set(ids))
    for svg in drawn:
        used = set(re.findall(r'(?:href="|url\()#([^")]+)', svg))
        assert used
        assert used <= set(re.findall(r'\sid="([^"]+)"', svg))


def test_the_svg_does_not_depend_on_the_users_settings():
    first = draw_chart(POINTS)
    with matplotlib.rc_context({"font.size": 31, "svg.fonttype": "path", "axes.facecolor": "black"}):
        assert draw_chart(POINTS) == first
        assert matplotlib.rcParams["font.size"] == 31
    assert not re.search(r"20\d\d-\d\d-\d\d", first)


def test_few_values_on_a_log_axis_are_its_ticks():
    sizes = Series("ours", [64, 128, 256, 768], [79.0, 80.1, 79.6, 79.8])
    words = read_words(draw_chart(replace(LINE, series=[sizes], has_log_x=True))).split()
    assert [word for word in words if word in ("64", "100", "128", "256", "768", "1,000")] == [
        "64", "128", "256", "768"
    ]  # fmt: skip


def test_names_are_escaped():
    hostile = '<script>alert("1")</script> & $x$ _y 漢字'
    line = replace(LINE.series[0], name=hostile)
    svg = draw_chart(replace(LINE, title=hostile, series=[line], has_diagonal=True))
    assert ElementTree.fromstring(svg).findtext(f"{SVG}title") == hostile
    assert hostile in read_words(svg)
    assert "y = x" in read_words(svg)


def test_missing_values_leave_a_gap():
    nan = float("nan")
    holes = Series("holes", [1, 2, 3, 4], [1.0, nan, 3.0, 4.0], [0.9, nan, 2.9, 3.9], [1.1, nan, 3.1, 4.1])
    for kind in ("lines", "points"):
        svg = draw_chart(replace(LINE, series=[holes], kind=kind))
        assert "holes" in read_words(svg)
        assert "nan" not in svg
    for series in ([], [Series("none", [1.0], [nan])]):
        assert read_words(draw_chart(replace(LINE, series=series, has_log_y=True))) != ""
