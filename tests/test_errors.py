"""What errors quote and suggest."""

import pytest

from albert.errors import first_line, suggest


@pytest.mark.parametrize(
    ("error", "quoted"),
    [
        (ValueError("\n  one  \ntwo"), "one"),
        (OSError(), "OSError"),
        (ValueError("x" * 300), "x" * 200),
    ],
)
def test_another_error_is_quoted_in_one_short_line(error: Exception, quoted: str) -> None:
    assert first_line(error) == quoted


def test_a_similar_name_is_suggested_and_otherwise_all_are_listed() -> None:
    known = {"sharing": 1, "depth": 2}
    assert "sharing?" in suggest("sharings", known)
    listed = suggest("xyz", known, more=", or a file")
    assert "sharing, depth, or a file" in listed
