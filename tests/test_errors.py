"""What errors quote and suggest."""

import pytest

from albert.errors import first_line, suggest


@pytest.mark.parametrize(
    ("error", "quoted"),
    [
        (ValueError("one\ntwo"), "one"),
        (ValueError("\n  one  \ntwo"), "one"),
        (OSError(), "OSError"),
        (ValueError("x" * 300), "x" * 200),
    ],
)
def test_another_error_is_quoted_in_one_short_line(error: Exception, quoted: str) -> None:
    assert first_line(error) == quoted


def test_a_name_that_was_perhaps_meant_is_suggested_and_else_all_of_them() -> None:
    known = {"sharing": 1, "depth": 2}
    assert suggest("sharings", known) == "did you mean sharing?"
    assert suggest("xyz", known, more=", or give a file") == "choose from sharing, depth, or give a file"
