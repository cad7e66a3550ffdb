"""Normalization is the published one, and maps every character to its source."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.text.normalize import Normalization, normalize, normalize_text
from tests.text.conftest import published_normalization

# Difficult characters: sigma, dotted I, ligatures, jamo, marks that sort or decompose, odd spaces.
TRICKY = (
    "ΣσςİıIﬁ½´¨`'\"  \t\n\x1c\x85\u00a0\u2028\u3000\u0301\u0327\u0344\u0f73\u1112\u1161\u11ab한Åé"
    "\uff9e\ufb1d\ufdfa\ufe0f\ufeff"
)
UNICODE = st.text(st.characters(codec="utf-8") | st.sampled_from(TRICKY))
RULES = st.builds(
    Normalization, do_lower_case=st.booleans(), keep_accents=st.booleans(), remove_space=st.booleans()
)


@given(UNICODE)
def test_text_is_normalized_as_published(text):
    assert normalize_text(text) == normalize(text).text == published_normalization(text)


def test_every_code_point_is_normalized_as_published():
    points = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    # Two orders, so that marks follow other marks as well as letters.
    for text in ("".join(points), "x".join(points[::-1])):
        assert normalize_text(text) == published_normalization(text)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (Normalization(), '"cafe" fi'),
        (Normalization(do_lower_case=False), '"Cafe" fi'),
        (Normalization(keep_accents=True), '"café" ﬁ'),
        (Normalization(remove_space=False), '  "cafe" \tfi'),
    ],
)
def test_each_step_can_be_left_out(rules, expected):
    text = "  ``Café'' \tﬁ"
    assert normalize(text, rules=rules).text == normalize_text(text, rules=rules) == expected


@given(UNICODE, RULES)
def test_ranges_are_monotone_and_cover_everything_but_space(text, rules):
    normalized = normalize(text, rules=rules)
    assert len(normalized.text) == len(normalized.starts) == len(normalized.ends)
    ranges = list(zip(normalized.starts, normalized.ends, strict=True))
    assert all(0 <= start < end <= len(text) for start, end in ranges)
    assert ranges == sorted(ranges)
    if ranges:
        covered = {i for start, end in ranges for i in range(start, end)}
        assert all(char.isspace() for i, char in enumerate(text) if i not in covered)


@given(UNICODE, RULES)
def test_each_character_comes_from_its_range(text, rules):
    normalized = normalize(text, rules=rules)
    for char, start, end in zip(normalized.text, normalized.starts, normalized.ends, strict=True):
        source = normalize_text(text[start:end], rules=rules.model_copy(update={"remove_space": False}))
        if text[start:end].isspace():
            assert char.isspace()
        else:  # the lower case of a sigma depends on its neighbors
            assert char.replace("ς", "σ") in source.replace("ς", "σ")


def test_ranges_of_marks_ligatures_and_quotes():
    text = "  e\u0301\u0327 ﬁ  ``½"
    normalized = normalize(text)
    assert normalized.text == 'e fi "1⁄2'
    sources = [text[start:end] for start, end in zip(normalized.starts, normalized.ends, strict=True)]
    assert sources == ["e\u0301\u0327", " ", "ﬁ", "ﬁ", "  ", "``", "½", "½", "½"]
