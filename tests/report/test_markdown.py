"""The Markdown of a page: read as text or rendered, it says the same."""

from dataclasses import replace

import pytest
from albert.report.markdown import format_markdown

from albert.report.content import Cell, Column, Page, Section, Table
from tests.report.samples import PAGE, SPEED


def format_section(**parts):
    return format_markdown(Page("A", "b", [Section("C", **parts)])).split("## C\n\n")[1]


def test_a_page_is_headings_tables_and_links_to_pictures():
    text = format_markdown(PAGE)
    assert text.startswith("# Sharing across layers (table 4)\n\nA small copy of the paper's experiment")
    assert "| **none** | **89.0M** | **62.30 ± 0.75** | **–** | **–** | **81.6** |\n" in text
    assert "| all, E = 128 | 11.7M | 60.10 ± 1.15 | -2.20 (-3.40 … -1.00) | 0.008 | 80.1 |\n" in text
    assert "- average: mean over five tasks, with its 95% interval\n" in text
    assert "![Average score by what is shared](figures/sharing.svg)\n\nSharing the feed-forward" in text
    assert "```\nalbert study sharing --out studies/sharing num_seeds=3\n```\n" in text


def test_numbers_stand_on_the_right():
    table = Table("t", [Column("a"), Column("b", is_number=True)], [[Cell("x"), Cell("1", 1.0)]])
    assert format_section(tables=[table]) == "| a | b |\n| --- | ---: |\n| x | 1 |\n"


def test_findings_are_a_table():
    text = format_section(findings=PAGE.sections[0].findings)
    assert text.splitlines()[0] == "| claim | measured there | measured here | verdict |"
    assert text.splitlines()[4] == (
        "| A shared model trains faster. | 1.2 times | 0.9 times, in ten runs side by side | ✗ disagrees |"
    )
    assert text.endswith("| More data helps. | +0.7 points | – | – not asked |\n")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a | b", "a \\| b"),
        ("*x* and __y__", "\\*x\\* and \\_\\_y\\_\\_"),
        ("num_steps", "num_steps"),
        ("`a_|b` and $x$", "`a_\\|b` and \\$x\\$"),
        ("<script>", "\\<script>"),
        ("[a](b)", "\\[a\\](b)"),
        ("AT&T &lt;", "AT&T \\&lt;"),
        ("# one", "\\# one"),
        ("- one", "\\- one"),
        ("1. one", "1\\. one"),
        ("two\nlines", "two lines"),
    ],
)
def test_a_text_is_read_as_it_stands(text, written):
    assert format_section(paragraphs=[text]) == f"{written}\n"


def test_pictures_may_lie_elsewhere():
    text = format_markdown(Page("A", "b", [Section("C", charts=[SPEED])]), figures="../pictures")
    assert "(../pictures/speed.svg)" in text
    assert "![\\[x\\]](figures/speed.svg)" in format_section(charts=[replace(SPEED, title="[x]")])


def test_code_cannot_end_its_own_block():
    assert format_section(code="a\n```\nb") == "````\na\n```\nb\n````\n"
