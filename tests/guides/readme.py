"""The commands and the Python code of the README."""

import re

from tests.guides.journeys import ROOT, read_blocks

README = ROOT / "README.md"
_COMMENT = re.compile(r"\s{2,}.*|\s+#.*")


def name_anchor(title: str) -> str:
    """Return GitHub's anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def list_commands() -> list[str]:
    """Return every line of a block that begins with `albert`, without the explanation after it."""
    lines = [line for block in read_blocks(README) for line in block.text.splitlines()]
    return [_COMMENT.sub("", line) for line in lines if line.startswith("albert ")]


def list_scripts() -> list[str]:
    """Return the blocks of Python."""
    return [block.text for block in read_blocks(README) if block.language == "python"]
