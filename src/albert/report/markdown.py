"""A page comes in; Markdown goes out, whose pictures are files beside it."""

import re
from collections.abc import Iterator, Sequence

from albert.report.content import Chart, Finding, Page, Section, Table
from albert.report.html_tables import MISSING
from albert.report.markup import clean_text

_SIGNS = {"agrees": "✓", "disagrees": "✗", "cannot tell": "?", "not asked": "–"}
_CODE = re.compile(r"(`[^`]+`)")
_SPECIAL = re.compile(r"[\\`*\[\]<~$|]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
_LEADING = re.compile(r"^([#>+=-]|\d+(?=[.)]))")


def format_markdown(page: Page, *, figures: str = "figures") -> str:
    """The page as text; `figures` is the folder of the pictures as seen from it."""
    blocks = [f"# {_write(page.title)}", _write_block(page.lead)]
    for each in page.sections:
        blocks += _iter_blocks(each, figures=figures)
    return "\n\n".join(block for block in blocks if block) + "\n"


def _iter_blocks(each: Section, *, figures: str) -> Iterator[str]:
    yield f"## {_write(each.title)}"
    yield from map(_write_block, each.paragraphs)
    if each.findings:
        yield _format_findings(each.findings)
    for table in each.tables:
        yield _format_table(table)
        hints = [(column.name, column.hint) for column in table.columns if column.hint]
        yield "\n".join(f"- {_write(name)}: {_write(hint)}" for name, hint in hints)
        yield _write_block(table.note)
    for chart in each.charts:
        yield from _iter_chart(chart, figures=figures)
    if each.code:
        yield _fence(each.code)


def _format_findings(findings: Sequence[Finding]) -> str:
    rows = [
        (each.claim, each.theirs, each.ours, f"{_SIGNS[each.verdict]} {each.verdict}") for each in findings
    ]
    written = [[_write(text) or MISSING for text in row] for row in rows]
    return _lay_out(["claim", "measured there", "measured here", "verdict"], written, marks=["---"] * 4)


def _format_table(table: Table) -> str:
    marks = ["---:" if column.is_number else "---" for column in table.columns]
    rows = []
    for place, row in enumerate(table.rows):
        cells = [_write(cell.text) or MISSING for cell in row]
        rows.append([f"**{cell}**" for cell in cells] if place in table.strong_rows else cells)
    return _lay_out([_write(column.name) for column in table.columns], rows, marks=marks)


def _lay_out(head: Sequence[str], rows: Sequence[Sequence[str]], *, marks: Sequence[str]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, marks, *rows))


def _iter_chart(chart: Chart, *, figures: str) -> Iterator[str]:
    yield f"**{_write(chart.title)}**"
    yield f"![{_write(chart.title)}]({figures}/{chart.name}.svg)"
    yield _write_block(chart.told)


def _fence(code: str) -> str:
    """A block of code; its fence is longer than any in it."""
    longest = max(map(len, re.findall("`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{clean_text(code).rstrip()}\n{fence}"


def _write_block(text: str) -> str:
    """A paragraph, which begins no list, heading or rule."""
    return _LEADING.sub(_escape_leading, _write(text))


def _write(text: str) -> str:
    """A text on one line that is read as it stands; what is between backticks stays code."""
    pieces = _CODE.split(" ".join(clean_text(text).split()))
    return "".join(
        piece.replace("|", "\\|") if place % 2 else _SPECIAL.sub(r"\\\g<0>", piece)
        for place, piece in enumerate(pieces)
    )


def _escape_leading(found: re.Match[str]) -> str:
    return f"{found[0]}\\" if found[0].isdigit() else f"\\{found[0]}"
