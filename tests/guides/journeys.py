"""Read the code blocks of a guide, and run them in order as a person would.

A comment right before a block says what the test changes, one change in each:

    <!-- test: --budget 1h → num_steps=20 -->     less of the same: the right words for the left
    <!-- test: skip: needs two machines -->       not run, and why
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
RUNNERS = {"sh": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}
_COMMENT = re.compile(r"<!-- test: (.+) -->")
_FENCE = re.compile(r"```(\w*)")
_SECONDS = 900  # a journey takes a minute; a machine may be busy


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text as it is run, and its first line in the guide."""

    guide: str
    line: int
    language: str
    text: str
    skip_reason: str | None = None


def list_guides() -> list[str]:
    """Return the names of the guides."""
    return sorted(path.stem for path in GUIDES.glob("*.md") if path.stem != "README")


def read_blocks(path: Path, *, is_changed: bool = True) -> list[Block]:
    """Return the fenced blocks of a page; `is_changed=False` leaves them as the reader sees them."""
    blocks: list[Block] = []
    changes: list[str] = []
    lines = iter(enumerate(path.read_text(encoding="utf-8").splitlines(), start=1))
    for number, line in lines:
        if comment := _COMMENT.fullmatch(line):
            changes.append(comment[1])
        elif fence := _FENCE.fullmatch(line):
            text = "".join(f"{inner}\n" for inner in _iter_fenced(lines))
            blocks.append(_build_block(path.stem, number, fence[1], text, changes if is_changed else []))
            changes = []
        elif changes:
            raise AssertionError(f"{path.name}, line {number}: no block follows the comment for tests")
    return blocks


def _iter_fenced(lines: Iterator[tuple[int, str]]) -> Iterator[str]:
    for _, line in lines:
        if line == "```":
            return
        yield line
    raise AssertionError("a block has no end")


def _build_block(guide: str, number: int, language: str, text: str, changes: list[str]) -> Block:
    reason = None
    for change in changes:
        if change.startswith("skip: "):
            reason = change.removeprefix("skip: ")
            continue
        words, arrow, others = change.partition(" → ")
        assert arrow, f"{guide}, line {number}: {change!r} is neither `skip: reason` nor `words → others`"
        assert words in text, f"{guide}, line {number}: {words!r} is not in the block"
        text = text.replace(words, others)
    return Block(guide, number, language, text, reason)


def run_guide(name: str, folder: Path) -> None:
    """Run all blocks of a guide in a folder, one after the other."""
    for block in read_blocks(GUIDES / f"{name}.md"):
        if block.language in RUNNERS and block.skip_reason is None:
            run_block(block, folder)


def run_block(block: Block, folder: Path) -> None:
    """Run one block with `albert`, `torchrun` and `python` of this environment first on the path."""
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*RUNNERS[block.language], block.text],
        cwd=folder,
        env={**os.environ, "PATH": paths, "HF_HUB_OFFLINE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS,
    )
    assert done.returncode == 0, (
        f"{block.guide}, line {block.line}: exit code {done.returncode}\n\n{block.text}\n{done.stdout}"
    )
