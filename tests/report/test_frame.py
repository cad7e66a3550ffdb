"""The frame of every page: what may run and be fetched is said before anything else is read."""

import pytest
from albert.report.frame import frame_page
from albert.report.markup import Html

from tests.report.reading import ReadPage


def test_a_page_without_a_script_runs_none():
    html = frame_page(Html("<p>words</p>"), title="<Title>", style="p { color: red; }")
    assert "default-src 'none'; base-uri 'none'; style-src 'unsafe-inline'; script-src 'none'" in html
    assert html.index("Content-Security-Policy") < html.index("<style>")
    page = ReadPage(html)
    assert not page.find("script")
    assert page.text.split() == ["<Title>", "words"]


def test_a_style_or_script_cannot_end_itself():
    with pytest.raises(AssertionError, match="what closes an element"):
        frame_page(Html(""), title="", script="let a = '</script>'")
