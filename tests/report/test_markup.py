"""Markup: texts can do no harm, and nothing in them is hidden."""

import re

import pytest
from albert.report.markup import clean_text, show_text, tag

SPELLING = ("می‌خواهم", "👩‍🚀", "הספינה עזבה את הנמל, and השמש שקעה", "Zoë\n\tnew line", "한국어")


def test_elements_escape_what_they_hold():
    assert tag("td", "<", title='"', data_x=1, hidden=True, id=None) == (
        '<td title="&quot;" data-x="1" hidden>&lt;</td>'
    )


def test_what_cannot_be_seen_is_shown_by_its_number():
    shown = show_text("a\u200bb \u202eevil\u202c \ufeff \x00 \ud800")
    numbers = re.findall(r"U\+([0-9A-F]{4,6})", shown)
    assert numbers == ["200B", "202E", "202C", "FEFF", "0000", "D800"]
    shown.encode()  # half a surrogate pair would not be written


def test_where_there_is_no_markup_a_sign_stands_for_what_cannot_be_seen():
    assert clean_text("a\u200bb\x00 \ud800") == "a\ufffdb\ufffd \ufffd"


@pytest.mark.parametrize("text", SPELLING)
def test_spelling_is_left_as_it_is(text):
    assert show_text(text) == text
    assert clean_text(text) == text
