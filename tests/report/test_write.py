"""A page as HTML, Markdown and CSV has all its contents, and every text is escaped."""

import base64
import csv
import hashlib
import io
import re
from dataclasses import replace

import pytest

from albert.report.content import Card, Cell, Column, Finding, Page, Section, Table
from albert.report.write import format_csv, format_html, format_markdown, write_page
from tests.report.reading import ReadPage
from tests.report.samples import COSTS, FINDINGS, PAGE, POINTS, SCORES, SPEED

HOSTILE = '<img src=x onerror="document.title=1"></article><script>alert("1")</script> & \u202eedoc\u202c'


@pytest.fixture(scope="module")
def html():
    return format_html(PAGE)


def test_a_folder_has_the_page_its_charts_and_its_tables(tmp_path):
    page = Page("Title", "Lead.", [Section("One", tables=[SCORES]), Section("Two", [], [], [COSTS], [SPEED])])
    path = write_page(tmp_path / "new", page, name="study")
    files = [file for file in (tmp_path / "new").rglob("*") if file.is_file()]
    found = {file.relative_to(tmp_path / "new").as_posix(): file.read_text("utf-8") for file in files}
    assert path == tmp_path / "new" / "study.html"
    assert sorted(found) == [
        "figures/speed.svg", "study.html", "study.md", "tables/costs.csv", "tables/scores.csv"
    ]  # fmt: skip
    assert found["study.html"] == format_html(page)
    assert found["figures/speed.svg"] in found["study.html"]


def test_nothing_is_fetched_and_only_the_own_script_runs(html):
    page = ReadPage(html)
    addresses = set(re.findall(r"https?://[^\s\"']+", html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # only names
    assert not re.search(r"@import|<link|<img|<iframe", html)
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; base-uri 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert policy in html
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_texts_are_escaped():
    section = Section(
        HOSTILE,
        paragraphs=[HOSTILE],
        findings=[Finding(HOSTILE, HOSTILE, HOSTILE, "agrees")],
        tables=[Table("t", [Column(HOSTILE, hint=HOSTILE)], [[Cell(HOSTILE, 1.0, 0.0, 2.0)]], note=HOSTILE)],
        charts=[replace(SPEED, title=HOSTILE, caption=HOSTILE)],
        code=HOSTILE,
        cards=[Card([(HOSTILE, HOSTILE), ("half a pair", "\ud800")], HOSTILE, (HOSTILE, "'\""))],
        filters=(HOSTILE, "b"),
    )
    text = format_html(Page(HOSTILE, HOSTILE, [section], headline=HOSTILE))
    page = ReadPage(text)
    assert len(page.find("script")) == 1
    assert not page.find("img")
    assert len(page.find("article")) == 1
    assert not [attributes for _, attributes in page.elements if "onerror" in attributes]
    assert page.text.count('<script>alert("1")</script>') >= 15
    text.encode("utf-8")


def test_findings_charts_and_code_are_shown(html):
    page = ReadPage(html)
    outcomes = [finding.outcome for finding in FINDINGS]
    assert re.findall(r'<p class="outcome">. ([a-z ]+)</p>', html) == outcomes
    assert page.text.count("measured here") == sum(finding.ours != "" for finding in FINDINGS)
    for chart in PAGE.charts:
        assert page.text.count(chart.title) == 2
        assert chart.caption in page.text
    assert "<code>study.json</code>" in html
    assert f"<code>{PAGE.sections[-1].code}</code></pre>" in html
    assert SCORES.columns[2].hint in page.text


def test_a_table_has_the_values_it_is_sorted_by():
    rows = [
        [Cell("ten"), Cell("10.0 ± 0.5", 10.0, 9.5, 10.5)],
        [Cell("none"), Cell("")],
        [Cell("diverged"), Cell("nan", float("nan"))],
        [Cell("infinite"), Cell("∞", float("-inf"))],
    ]
    table = Table("t", [Column("name"), Column("score", is_number=True)], rows, strong_rows=[0])
    page = ReadPage(format_html(Page("A", "b", [Section("C", tables=[table])])))
    cells = page.find("td")
    assert [cell.get("data-value") for cell in cells] == ["10.0", None, None, "-Infinity"]
    assert ["data-missing" in cell for cell in cells] == [False, True, True, False]
    assert all(cell["class"] == "number" for cell in cells)
    assert cells[0]["title"] == "from 9.5 to 10.5"
    assert {"scope": "row"} in page.find("th")
    assert page.find("tr")[1] == {"class": "strong"}


def test_a_long_page_lists_its_sections():
    page = ReadPage(format_html(Page("A", "b", [Section(f"Part {n}") for n in range(5)])))
    assert [link["href"] for link in page.find("a")] == [f"#{each['id']}" for each in page.find("section")]
    assert not ReadPage(format_html(Page("A", "b", [Section("Part")]))).find("nav")


def test_markdown_has_headings_tables_and_links_to_charts():
    text = format_markdown(PAGE)
    assert text.startswith(f"# {PAGE.title}\n\n")
    assert "| variant | parameters | average | difference | p | the paper |\n| --- | ---: |" in text
    assert "| **none** | **89.0M** | **62.30 ± 0.75** | **–** | **–** | **81.6** |\n" in text
    assert f"- average: {SCORES.columns[2].hint}\n" in text
    assert "| More data helps. | +0.7 points | – | – not tested |\n" in text
    assert f"![{POINTS.title}](figures/sharing.svg)\n\n{POINTS.caption}" in text
    assert f"```\n{PAGE.sections[-1].code}\n```\n" in text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a | b", "a \\| b"),
        ("*x* and __y__", "\\*x\\* and \\_\\_y\\_\\_"),
        ("num_steps", "num_steps"),
        ("`a_|b` and $x$", "`a_\\|b` and \\$x\\$"),
        ("<script>", "\\<script>"),
        ("AT&T &lt;", "AT&T \\&lt;"),
        ("# one", "\\# one"),
        ("1. one", "1\\. one"),
        ("1.5 points", "1.5 points"),
        ("two\nlines", "two lines"),
    ],
)
def test_markdown_is_escaped(text, written):
    page = Page("A", "b", [Section("C", paragraphs=[text])])
    assert format_markdown(page).split("## C\n\n")[1] == f"{written}\n"


def read_csv(table):
    return list(csv.reader(io.StringIO(format_csv(table))))


def test_csv_has_the_numbers_beside_the_texts():
    rows = read_csv(SCORES)
    assert rows[0][:7] == [
        "variant", "parameters", "parameters value", "average", "average value", "average low", "average high"
    ]  # fmt: skip
    assert rows[3][:8] == [
        "all, E = 128", "11.7M", "11700000", "60.10 ± 1.15", "60.1", "59", "61.3", "'-2.20 (-3.40 … -1.00)"
    ]  # fmt: skip
    rows = read_csv(Table("t", [Column("a")], [[Cell("diverged", float("nan"))], [Cell("1", 1)]]))
    assert rows == [["a", "a value"], ["diverged", ""], ["1", "1"]]


@pytest.mark.parametrize("text", ['say "no"', "a,b", "two\nlines", "ünïcode", "-0.31", "+2"])
def test_csv_does_not_change_texts(text):
    assert read_csv(Table("t", [Column(text)], [[Cell(text)]])) == [[text], [text]]


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1"])
def test_csv_has_no_formulas(text):
    assert read_csv(Table("t", [Column(text)], [[Cell(text)]])) == [[f"'{text}"], [f"'{text}"]]
