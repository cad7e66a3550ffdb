"""CONTRIBUTING.md leads to what is there: its files, the names in them, and the targets of the Makefile."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"`((?:src|tests|docs|bench)/[\w./-]+)`", TEXT)))
# "`NAME` of `FILE`", "`NAME` in `FILE`": what is changed, and where.
NAMES = re.findall(r"`(\w+)` (?:of|in)\s+`(src/[\w./]+\.py)`", TEXT)


@pytest.mark.parametrize("path", [path for path in PATHS if "NAME" not in path])
def test_what_it_names_is_there(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("name", "path"), NAMES)
def test_a_name_lives_in_the_file_that_is_said(name, path):
    lines = rf"^\s*(def|class) {name}\b|^{name}\b.* = "
    assert re.search(lines, (ROOT / path).read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_it_names_enough_to_be_worth_reading():
    assert len(PATHS) > 20
    assert len(NAMES) > 5


def test_every_target_is_in_the_makefile():
    made = set(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    told = set(re.findall(r"^make ([a-z-]+) ", TEXT, flags=re.MULTILINE))
    assert told
    assert told <= made
