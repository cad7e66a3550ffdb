"""The HTML of a page: everything is in it, nothing is fetched, and no text on it can do harm."""

import base64
import hashlib
import re
from dataclasses import replace

import pytest
from albert.report.html import format_html

from albert.report.content import Cell, Column, Finding, Page, Section, Table
from tests.report.reading import ReadPage
from tests.report.samples import PAGE

HOSTILE = '<img src=x onerror="document.title=1"></article><script>alert("1")</script> & \u202eedoc\u202c'


@pytest.fixture(scope="module")
def html(pictures):
    return format_html(PAGE, pictures=pictures)


COLUMNS = (Column("name"), Column("score", is_number=True))


def show_table(*rows, columns=COLUMNS):
    return ReadPage(format_html(Page("A", "b", [Section("C", tables=[Table("t", columns, rows)])])))


def test_nothing_is_fetched(html):
    page = ReadPage(html)
    addresses = re.findall(r"https?://[^\s\"']+", html)
    assert set(addresses) == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # only names
    assert not re.search(r"@import|<link|<img|<iframe", html)
    for _, attributes in page.elements:
        assert "src" not in attributes
        for key in ("href", "xlink:href"):
            assert attributes.get(key, "#").startswith("#")
    assert "default-src 'none'" in html


def test_no_script_may_run_but_the_pages_own(html):
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html


def test_texts_are_shown_and_never_obeyed():
    section = Section(
        HOSTILE,
        paragraphs=[HOSTILE],
        findings=[Finding(HOSTILE, HOSTILE, HOSTILE, "agrees")],
        tables=[Table("t", [Column(HOSTILE, hint=HOSTILE)], [[Cell(HOSTILE, 1.0, 0.0, 2.0)]], note=HOSTILE)],
        charts=[replace(PAGE.charts[0], title=HOSTILE, told=HOSTILE, x_names=[HOSTILE] * 6)],
        code=HOSTILE,
    )
    page = ReadPage(format_html(Page(HOSTILE, HOSTILE, [section])))
    assert len(page.find("script")) == 1
    assert not page.find("img")
    assert not page.find("article")
    assert not [attributes for _, attributes in page.elements if "onerror" in attributes]
    assert page.text.count('<script>alert("1")</script>') >= 14
    assert "U+202E" in page.text


def test_ids_are_unique(html):
    ids = [attributes["id"] for _, attributes in ReadPage(html).elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_verdicts_are_told_in_words_and_shapes(html):
    page = ReadPage(html)
    shapes = re.findall(r'<p class="verdict"><svg [^>]*>(.*?)</svg>([a-z ]+)</p>', html)
    assert [word for _, word in shapes] == ["agrees", "cannot tell", "disagrees", "not asked"]
    assert len({shape for shape, _ in shapes}) == 4
    assert page.text.count("measured there") == 4
    assert page.text.count("measured here") == 3  # what was not asked has no figure here


def test_a_table_carries_what_it_is_sorted_by():
    page = show_table(
        [Cell("ten"), Cell("10.0 ± 0.5", 10.0, 9.5, 10.5)],
        [Cell("none"), Cell("")],
        [Cell("dash"), Cell("–")],
        [Cell("broken"), Cell("nan", float("nan"))],
        [Cell("endless"), Cell("∞", float("-inf"))],
    )
    assert page.find("table") == [{"class": "sortable"}]
    cells = page.find("td")
    assert [cell.get("data-value") for cell in cells] == ["10.0", None, None, None, "-Infinity"]
    assert ["data-missing" in cell for cell in cells] == [False, True, True, True, False]
    assert all(cell["class"] == "number" for cell in cells)
    assert cells[0]["title"] == "from 9.5 to 10.5"


def test_the_first_cell_names_a_row_unless_it_is_a_number():
    assert {"scope": "row"} in show_table([Cell("arm"), Cell("1", 1.0)]).find("th")
    numbers = [Column("layer", is_number=True), Column("distance", is_number=True)]
    page = show_table([Cell("1", 1.0), Cell("2", 2.0)], columns=numbers)
    assert [head["scope"] for head in page.find("th")] == ["col", "col"]


def test_what_columns_say_is_also_read_without_a_pointer(html):
    page = ReadPage(html)
    hint = "mean over five tasks, with its 95% interval"
    assert hint in page.text
    assert hint in [head.get("title") for head in page.find("th")]


def test_charts_stand_with_their_title_and_what_they_show(html):
    page = ReadPage(html)
    pictures = [svg for svg in page.find("svg") if svg.get("role") == "img"]
    titles = {attributes["id"] for attributes in page.find("title") if "id" in attributes}
    assert {svg["aria-labelledby"] for svg in pictures} == titles
    for chart in PAGE.charts:
        assert chart.title in page.text
        assert chart.told in page.text


def test_between_backticks_stands_code(html):
    assert "<code>study.json</code> holds the settings" in html
    assert "<code>albert study sharing --out studies/sharing num_seeds=3</code></pre>" in html


def test_a_long_page_lists_its_sections():
    page = ReadPage(format_html(Page("A", "b", [Section(f"Part {n}") for n in range(5)])))
    links = [link["href"] for link in page.find("a")]
    assert links == [f"#{section['id']}" for section in page.find("section")]
    assert not ReadPage(format_html(Page("A", "b", [Section("Part")]))).find("nav")


def test_pictures_that_are_drawn_already_are_taken():
    only = Page("A", "b", [Section("C", charts=[PAGE.charts[0]])])
    assert "<svg>mine</svg>" in format_html(only, pictures={PAGE.charts[0].name: "<svg>mine</svg>"})
