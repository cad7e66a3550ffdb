"""A page comes in; one HTML file goes out that a person can read anywhere, without a network."""

import re
from collections.abc import Mapping

from albert.report.charts import draw_chart
from albert.report.content import Chart, Finding, Page, Section
from albert.report.frame import frame_page
from albert.report.html_tables import show_table
from albert.report.markup import Html, join, section, tag
from albert.report.sorting import SCRIPT
from albert.report.style import CONTENT_STYLE

_MANY = 4  # sections from which on a page has a list of them
_CODE = re.compile(r"`([^`]+)`")
# Each verdict has a shape of its own, so that none is told by its colour alone.
_SHAPES = {
    "agrees": '<circle cx="8" cy="8" r="8" fill="currentColor"/><path d="M4 8.5l2.8 2.8L12 5.5"/>',
    "disagrees": '<path fill="currentColor" stroke="none" d="M8 0l8 8-8 8-8-8z"/>'
    '<path d="M5.5 5.5l5 5m0-5l-5 5"/>',
    "cannot tell": '<circle cx="8" cy="8" r="6.6" fill="none" stroke="currentColor" stroke-dasharray="3 2"/>',
    "not asked": '<path stroke="currentColor" d="M1 8h14"/>',
}


def format_html(page: Page, *, pictures: Mapping[str, str] | None = None) -> str:
    """The file; `pictures` are its charts by their names, where they are drawn already."""
    drawn = pictures or {chart.name: draw_chart(chart) for chart in page.charts}
    parts = [
        _show_section(each, id=f"section-{number}", pictures=drawn)
        for number, each in enumerate(page.sections, start=1)
    ]
    head = tag("header", tag("h1", page.title), tag("p", show_words(page.lead)), _show_contents(page))
    body = join(head, tag("main", *parts))
    return frame_page(body, title=page.title, style=CONTENT_STYLE, script=SCRIPT)


def show_words(text: str) -> Html:
    """A paragraph; what stands between backticks is code."""
    pieces = _CODE.split(text)
    return join(*(tag("code", piece) if place % 2 else piece for place, piece in enumerate(pieces)))


def _show_contents(page: Page) -> Html:
    if len(page.sections) < _MANY:
        return Html("")
    links = [
        tag("li", tag("a", each.title, href=f"#section-{number}"))
        for number, each in enumerate(page.sections, start=1)
    ]
    return tag("nav", tag("ul", *links), aria_label="sections")


def _show_section(each: Section, *, id: str, pictures: Mapping[str, str]) -> Html:
    parts = [tag("p", show_words(text)) for text in each.paragraphs]
    if each.findings:
        parts.append(tag("ul", *map(_show_finding, each.findings), class_="findings"))
    parts += [show_table(table) for table in each.tables]
    parts += [_show_chart(chart, pictures[chart.name]) for chart in each.charts]
    if each.code:
        parts.append(tag("pre", tag("code", each.code), tabindex=0))
    return section(each.title, *parts, id=id)


def _show_finding(finding: Finding) -> Html:
    shape = Html(
        '<svg viewBox="0 0 16 16" aria-hidden="true" fill="none" stroke="var(--paper)" stroke-width="2">'
        f"{_SHAPES[finding.verdict]}</svg>"
    )
    facts = (("measured there", finding.theirs), ("measured here", finding.ours))
    told = [join(tag("dt", name), tag("dd", show_words(text))) for name, text in facts if text]
    words = tag("div", tag("p", show_words(finding.claim)), tag("dl", *told))
    verdict = tag("p", shape, finding.verdict, class_="verdict")
    return tag("li", verdict, words, class_=f"finding {finding.verdict.replace(' ', '-')}")


def _show_chart(chart: Chart, picture: str) -> Html:
    told = tag("p", show_words(chart.told)) if chart.told else ""
    card = tag("div", Html(picture), class_="picture", tabindex=0, role="group", aria_label=chart.title)
    return tag("figure", tag("figcaption", chart.title), card, told)
