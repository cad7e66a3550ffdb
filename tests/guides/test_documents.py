"""Commands in the documents parse, and links are valid."""

import re
from pathlib import Path

import pytest

from tests.guides.journeys import GUIDES, ROOT, list_guides, read_blocks
from tests.guides.readme import list_commands, name_anchor
from tests.guides.typed_commands import check_typed, iter_typed

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def read_prose(page: Path) -> str:
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


def list_anchors(page: Path) -> set[str]:
    return {name_anchor(title) for title in _HEADING.findall(read_prose(page))}


def is_broken(page: Path, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return False  # the web is not tested
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return True
    return bool(anchor) and anchor not in list_anchors(target)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    links = _LINK.findall(_CODE.sub("", read_prose(page)))
    assert [link for link in links if is_broken(page, link)] == []


@pytest.mark.parametrize("name", list_guides())
def test_every_command_of_a_guide_parses(name):
    blocks = read_blocks(GUIDES / f"{name}.md", is_changed=False)
    typed = [words for block in blocks if block.language == "sh" for words in iter_typed(block.text)]
    assert typed
    for words in typed:
        check_typed(words)


def test_every_command_of_the_readme_parses():
    typed = [words for command in list_commands() for words in iter_typed(command)]
    assert len(typed) == len(list_commands()) >= 10
    for words in typed:
        check_typed(words)
