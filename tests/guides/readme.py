"""The README comes in; the commands and the Python that it shows go out, as they are written."""

import re

from tests.guides.journeys import ROOT, read_blocks

README = ROOT / "README.md"
_COMMENT = re.compile(r"\s{2,}.*|\s+#.*")


def name_anchor(title: str) -> str:
    """What GitHub calls the place of a heading: letters and digits, a hyphen for each space."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def list_commands() -> list[str]:
    """Every line of a block that begins with `albert`, without the words that explain it behind the gap."""
    lines = [line for block in read_blocks(README) for line in block.text.splitlines()]
    return [_COMMENT.sub("", line) for line in lines if line.startswith("albert ")]


def list_other_lines() -> list[str]:
    """Every other line of a block that is no Python."""
    blocks = [block for block in read_blocks(README) if block.language != "python"]
    lines = [line for block in blocks for line in block.text.splitlines() if line.strip()]
    return [_COMMENT.sub("", line) for line in lines if not line.startswith("albert ")]


def list_scripts() -> list[str]:
    """The blocks of Python."""
    return [block.text for block in read_blocks(README) if block.language == "python"]
