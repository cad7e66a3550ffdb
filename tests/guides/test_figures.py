"""Every figure in the README's table stands in the page that it links to as its proof, to as many digits."""

import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest

from tests.guides.readme import README, name_anchor

# Digits that are no part of a name or of a date, as in SST-2; 2.0M is 2.0.
_NUMBER = re.compile(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?(?:e-\d+)?(?=M?\b(?!-\w))")
_LINK = re.compile(r"\]\(([^)#]+)(?:#([^)]*))?\)")


def list_rows() -> list[tuple[str, str]]:
    """The figure and the proof of each row, as they are written."""
    lines = README.read_text(encoding="utf-8").splitlines()
    start = lines.index("| | the figure | the proof |") + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        _, _, figure, proof, _ = line.split("|")
        rows.append((figure.strip(), proof.strip()))
    return rows


def read_section(page: Path, anchor: str | None) -> str:
    """What stands under a heading up to the next one as high; the whole page without an anchor."""
    text = page.read_text(encoding="utf-8")
    if not anchor:
        return text
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    (found,) = [part for part in parts if name_anchor(part.splitlines()[0].lstrip("# ")) == anchor]
    return found


def list_numbers(text: str) -> list[str]:
    return [number.replace(",", "") for number in _NUMBER.findall(text)]


def is_said(number: str, others: list[str]) -> bool:
    """Whether some other number, rounded to the digits that this one has, is the same."""
    if "e" in number:
        return number in others
    decimals = len(number.partition(".")[2])
    step = Decimal(1).scaleb(-decimals)
    return any(Decimal(other).quantize(step, ROUND_HALF_UP) == Decimal(number) for other in others)


@pytest.mark.parametrize(("figure", "proof"), list_rows(), ids=lambda words: words[:40])
def test_every_figure_of_the_readme_stands_in_its_proof(figure, proof):
    pages = [(README.parent / path, anchor) for path, anchor in _LINK.findall(proof)]
    assert pages
    said = [
        number
        for page, anchor in pages
        if page.is_file()
        for number in list_numbers(read_section(page, anchor))
    ]
    assert [number for number in list_numbers(figure) if not is_said(number, said)] == []


def test_a_figure_that_was_left_behind_is_found():
    assert is_said("5.3", ["5.291"])
    assert not is_said("5.3", ["5.24", "53", "5.391"])
    assert list_numbers("in 0.18 of 1,000 MB, 2.0M parameters, 2e-5 and SST-2") == [
        "0.18",
        "1000",
        "2.0",
        "2e-5",
    ]
