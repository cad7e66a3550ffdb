"""Charts: vector pictures that say what they show, the same every time, and stand beside each other."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from albert.report.drawing.names import spread
from albert.report.drawing.numbers import tell_number
from albert.report.drawing.series_styles import choose_styles

from albert.report.charts import draw_chart
from albert.report.content import Chart, Level, Series
from tests.report.samples import CURVES, LAYERS, POINTS, SPEED

SVG = "{http://www.w3.org/2000/svg}"
LINE = Chart("line", "A line", "x", "y", [Series("one", [1, 2, 3], [1.0, 2.0, 4.0])])


def read_svg(chart):
    return ElementTree.fromstring(draw_chart(chart))


def read_words(chart):
    """What is written in the picture; a long name may stand on several lines."""
    return " ".join(text.text or "" for text in read_svg(chart).iter(f"{SVG}text"))


def list_ids(svg):
    return re.findall(r'\bid="([^"]+)"', svg)


@pytest.mark.parametrize("chart", [CURVES, POINTS, SPEED, LAYERS], ids=lambda chart: chart.name)
def test_every_series_level_and_axis_is_named_in_letters(chart, pictures):
    root = ElementTree.fromstring(pictures[chart.name])
    words = " ".join(text.text or "" for text in root.iter(f"{SVG}text"))
    for each in (*chart.series, *chart.levels):
        assert each.name in words
    for name in (chart.x_label, chart.y_label, *(chart.x_names or ())):
        assert name in words
    assert root.findtext(f"{SVG}title") == chart.title
    assert root.findtext(f"{SVG}desc") == chart.told


def test_a_picture_is_as_wide_as_its_place_and_fetches_and_runs_nothing(pictures):
    for svg in pictures.values():
        root = ElementTree.fromstring(svg)
        assert svg.startswith("<svg ")
        assert root.get("width") == "100%"
        assert root.get("height") is None
        assert re.fullmatch(r"0 0 [\d.]+ [\d.]+", root.get("viewBox"))
        names = {element.tag.removeprefix(SVG) for element in root.iter()}
        assert not names & {"script", "style", "image", "metadata", "a", "foreignObject"}
        values = [value for element in root.iter() for value in element.attrib.values()]
        assert not [value for value in values if "http" in value or "javascript" in value]
        assert all(found.startswith("#") for value in values for found in re.findall(r"url\((.*?)\)", value))


def test_pictures_on_one_page_share_no_id(pictures):
    ids = [found for svg in pictures.values() for found in list_ids(svg)]
    assert len(ids) == len(set(ids))
    for svg in pictures.values():
        used = set(re.findall(r'(?:href="|url\()#([^")]+)', svg))
        assert used <= set(list_ids(svg))
        assert used


def test_the_same_chart_is_the_same_text(pictures):
    assert draw_chart(POINTS) == pictures["sharing"]
    assert not re.search(r"20\d\d-\d\d-\d\d", pictures["sharing"])


def test_a_users_settings_of_matplotlib_change_nothing(pictures):
    import matplotlib

    with matplotlib.rc_context({"font.size": 31, "svg.fonttype": "path", "axes.facecolor": "black"}):
        assert draw_chart(POINTS) == pictures["sharing"]
        assert matplotlib.rcParams["font.size"] == 31


def test_series_differ_in_colour_marker_and_dashes():
    styles = choose_styles([Series(str(place), [], []) for place in range(7)])
    assert len({style.color for style in styles}) == 7
    assert len({style.marker for style in styles}) == 7
    assert len({(style.dashes, style.color) for style in choose_styles([Series("", [], [])] * 35)}) == 35


def test_what_is_not_ours_is_hollow_and_dashed():
    ours, theirs = choose_styles(POINTS.series)[1:]
    assert ours.fill == ours.color
    assert theirs.fill == "#FFFFFF"
    assert theirs.dashes != "-"


def test_intervals_are_bands_of_lines_and_whiskers_of_points(pictures):
    def count_shapes(chart):
        # A band is a shape that is filled so faintly that what lies behind it is seen.
        styles = [element.get("style") or "" for element in read_svg(chart).iter()]
        faint = [style for style in styles if re.search(r"fill-opacity: 0\.15", style)]
        return len(faint)

    bare = [replace(each, lows=None, highs=None) for each in CURVES.series]
    assert count_shapes(CURVES) > count_shapes(replace(CURVES, series=bare)) == 0
    bare = [replace(each, lows=None, highs=None) for each in POINTS.series]
    assert len(draw_chart(replace(POINTS, series=bare))) < len(pictures["sharing"]) - 12 * 100


def test_names_stand_at_the_ends_of_lines_where_these_are_apart():
    ends = [Series(name, [1, 2], [1.0, end]) for name, end in (("low", 1.0), ("middle", 5.0), ("high", 9.0))]
    heights = find_heights(replace(LINE, series=ends))
    assert heights["high"] < heights["middle"] < heights["low"]  # SVG counts from the top
    assert heights["low"] - heights["high"] > 100


def test_names_that_would_run_into_each_other_stand_below():
    ends = [Series(f"series {place}", [1, 2], [1.0, 5 + place / 100]) for place in range(6)]
    heights = find_heights(replace(LINE, series=ends))
    assert min(height for name, height in heights.items() if name.startswith("series")) > heights["x"]


def find_heights(chart):
    return {text.text: float(text.get("y")) for text in read_svg(chart).iter(f"{SVG}text") if text.get("y")}


def test_things_are_moved_no_further_than_they_must():
    assert spread([0, 100, 200], sizes=[10, 10, 10]) == [0, 100, 200]
    assert spread([50, 50], sizes=[10, 10]) == [45, 55]
    assert spread([0, 50, 52, 54, 100], sizes=[10] * 5) == [0, 42, 52, 62, 100]


def test_numbers_along_an_axis_are_short_and_exact():
    told = {0: "0", 0.05: "0.05", 1024: "1024", 12_500: "12.5k", 32_768: "32,768", 2e6: "2M", -3: "−3"}
    assert {value: tell_number(value) for value in told} == told


def test_values_of_a_logarithmic_axis_that_are_few_are_its_marks():
    sizes = Series("ours", [64, 128, 256, 768], [79.0, 80.1, 79.6, 79.8])
    words = read_words(replace(LINE, series=[sizes], has_log_x=True)).split()
    assert [word for word in words if word in ("64", "100", "128", "256", "768", "1000")] == [
        "64", "128", "256", "768"
    ]  # fmt: skip


def test_many_names_stand_one_below_another():
    names = [f"an arm with a long name {place}" for place in range(9)]
    series = [Series("ours", list(range(9)), [float(place) for place in range(9)])]
    chart = replace(POINTS, series=series, x_names=names, levels=[Level(4.0, "chance")])
    heights = find_heights(chart)
    found = [heights[name] for name in names]
    assert found == sorted(found)
    assert len(set(found)) == 9


def test_names_are_shown_as_they_are():
    hostile = '<script>alert("1")</script> & $x$ _y 漢字 \x00'
    line = replace(LINE.series[0], name=hostile)
    chart = replace(LINE, title=hostile, series=[line], levels=[Level(2, "_")])
    root = read_svg(chart)
    assert not list(root.iter(f"{SVG}script"))
    assert root.findtext(f"{SVG}title") == hostile.replace("\x00", "\ufffd")
    words = "".join(text.text or "" for text in root.iter(f"{SVG}text"))
    assert hostile.removesuffix("\x00").replace(" ", "") in words.replace(" ", "")


def test_figures_that_are_missing_leave_a_gap():
    nan = float("nan")
    holes = Series("holes", [1, 2, 3, 4], [1.0, nan, 3.0, 4.0], [0.9, nan, 2.9, 3.9], [1.1, nan, 3.1, 4.1])
    for kind in ("lines", "points"):
        assert "holes" in read_words(replace(LINE, series=[holes], kind=kind))
        assert "nan" not in draw_chart(replace(LINE, series=[holes], kind=kind))
    assert read_words(replace(LINE, series=[])) != ""
    assert "none" in read_words(replace(LINE, series=[Series("none", [1.0], [nan])], has_log_y=True))
