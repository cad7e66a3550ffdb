"""A small vocabulary, a book to lay out in every way, and a folder of untidy files."""

import textwrap
from pathlib import Path

import pytest

from tests.conftest import WORDS, write_vocabulary

LETTERS = [letter for first in "abcdefghijklmnopqrstuvwxyz" for letter in (first, f"##{first}")]
SUBJECTS = ("The old man", "A woman from the town", "My youngest brother", "Nobody on the quay", "The dog")
VERBS = ("went to the river", "saw the ship leave", "found the house empty", "came home by the north road")
ENDS = (
    "before it was day.",
    "and said nothing about it.",
    "in the cold of the night.",
    "though it was late!",
)


def sentence(number: int) -> str:
    """A sentence; the number makes it one of many."""
    subject, verb, end = (row[number // 7**k % len(row)] for k, row in enumerate((SUBJECTS, VERBS, ENDS)))
    return f"{subject} number {number} {verb} {end}"


def paragraph(number: int) -> str:
    """Three to six sentences, and now and then a short line of speech."""
    if number % 5 == 4:
        return f'"Is it {number}?"'
    return " ".join(sentence(10 * number + k) for k in range(3 + number % 4))


PARAGRAPHS = [paragraph(number) for number in range(60)]


def wrap(text: str, width: int = 68) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)


@pytest.fixture(scope="session")
def vocab_path(tmp_path_factory) -> Path:
    pieces = list(dict.fromkeys([*WORDS, *LETTERS, '"', "-", *(f"##{digit}" for digit in "0123456789")]))
    pieces += [*"0123456789"]
    return write_vocabulary(tmp_path_factory.mktemp("vocab") / "vocab.txt", pieces)


@pytest.fixture
def books(tmp_path: Path) -> Path:
    """Three files of three layouts, one of them twice, and files that are no text."""
    folder = tmp_path / "books"
    (folder / "deep").mkdir(parents=True)
    wrapped = "\r\n\r\n".join("\r\n".join(wrap(text)) for text in PARAGRAPHS[:30])
    (folder / "b_wrapped.txt").write_bytes(b"\xef\xbb\xbf" + wrapped.encode())
    (folder / "c_lines.txt").write_text("\n".join(PARAGRAPHS[30:]) + "\n")
    (folder / "deep" / "copy.txt").write_text("\n".join(PARAGRAPHS[30:]) + "\n")
    (folder / "a_sentences.txt").write_text(
        "\n\n".join("\n".join(sentence(1000 + 20 * d + k) for k in range(8)) for d in range(20))
    )
    (folder / "notes.md").write_text("not read")
    return folder
