"""Render a page as HTML, Markdown, CSV and SVG, and write it to a folder."""

import base64
import csv
import hashlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from albert.files import write_text
from albert.report.content import Cell, Page, Section, Table
from albert.report.theme import format_css_variables

if TYPE_CHECKING:
    from markupsafe import Markup

FIGURES, TABLES = "figures", "tables"
MISSING = "–"
SIGNS = {"agrees": "✓", "disagrees": "✗", "inconclusive": "?", "not tested": "–"}
_CODE = re.compile(r"`([^`]+)`")
_MARKDOWN = re.compile(r"[\\`*\[\]<~$|]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
_FORMULA = re.compile(r"[=+\-@\t\r]")  # a spreadsheet reads such a text as a formula


def write_page(folder: Path, page: Page, *, name: str = "report") -> Path:
    """Write figures/*.svg, tables/*.csv, NAME.md and NAME.html, and return the path of NAME.html."""
    folder = Path(folder)
    svgs = _draw_charts(page)
    for chart_name, svg in svgs.items():
        write_text(folder / FIGURES / f"{chart_name}.svg", svg)
    for table in page.tables:
        write_text(folder / TABLES / f"{table.name}.csv", format_csv(table))
    write_text(folder / f"{name}.md", format_markdown(page))
    path = folder / f"{name}.html"
    write_text(path, format_html(page, svgs=svgs))
    return path


def _draw_charts(page: Page) -> dict[str, str]:
    if not page.charts:
        return {}
    from albert.report.charts import draw_chart  # matplotlib takes half a second to import

    return {chart.name: draw_chart(chart) for chart in page.charts}


def format_html(page: Page, *, svgs: Mapping[str, str] | None = None) -> str:
    """Render one HTML file without external resources; `svgs` are charts that are already drawn."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("albert.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _format_prose
    files = resources.files("albert.report") / "templates"
    script = (files / "report.js").read_text(encoding="utf-8")
    drawn = _draw_charts(page) if svgs is None else svgs
    html = environment.get_template("report.html.j2").render(
        page=page,
        svgs={name: Markup(svg) for name, svg in drawn.items()},
        style=Markup(format_css_variables() + (files / "report.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        signs=SIGNS,
        missing=MISSING,
    )
    # Texts from JSON may contain lone surrogates.
    return html.strip().encode("utf-8", "replace").decode("utf-8") + "\n"


def _format_prose(text: str) -> "Markup":
    """Escape a text and format parts in backticks as code."""
    from markupsafe import Markup, escape

    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def format_markdown(page: Page) -> str:
    """Render the page as Markdown with links to the charts in `figures/`."""
    blocks = [f"# {_escape(page.title)}", _escape_block(page.headline), _escape_block(page.lead)]
    for section in page.sections:
        blocks += _iter_blocks(section)
    return "\n\n".join(block for block in blocks if block) + "\n"


def _iter_blocks(section: Section) -> Iterator[str]:
    yield f"## {_escape(section.title)}"
    yield from map(_escape_block, section.paragraphs)
    if section.findings:
        rows = [
            (each.claim, each.theirs, each.ours, f"{SIGNS[each.outcome]} {each.outcome}")
            for each in section.findings
        ]
        head = ("claim", "reported", "measured here", "outcome")
        yield _format_rows(
            [head, ("---",) * 4, *([_escape(text) or MISSING for text in row] for row in rows)]
        )
    for table in section.tables:
        cells = [[_escape(cell.text) or MISSING for cell in row] for row in table.rows]
        for index in table.strong_rows:
            cells[index] = [f"**{text}**" for text in cells[index]]
        marks = ["---:" if column.is_number else "---" for column in table.columns]
        yield _format_rows([[_escape(column.name) for column in table.columns], marks, *cells])
        yield "\n".join(
            f"- {_escape(each.name)}: {_escape(each.hint)}" for each in table.columns if each.hint
        )
        yield _escape_block(table.note)
    for chart in section.charts:
        yield f"**{_escape(chart.title)}**"
        yield f"![{_escape(chart.title)}]({FIGURES}/{chart.name}.svg)"
        yield _escape_block(chart.caption)
    if section.code:
        yield f"```\n{section.code.rstrip()}\n```"


def _format_rows(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _escape(text: str) -> str:
    """Join a text to one line and escape Markdown outside of backticks."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(
        part.replace("|", "\\|") if index % 2 else _MARKDOWN.sub(r"\\\g<0>", part)
        for index, part in enumerate(parts)
    )


def _escape_block(text: str) -> str:
    """Escape a paragraph, also where it would start a list, a heading or a rule."""
    return re.sub(r"^(\d*)([#=+.)-]+(?=\s|$)|>)", r"\1\\\2", _escape(text))


def format_csv(table: Table) -> str:
    """Render a table as CSV: for each column its text, then its numbers if it has any."""
    head: list[str] = []
    columns: list[list[str]] = []
    for index, column in enumerate(table.columns):
        cells = [row[index] for row in table.rows]
        head.append(_escape_formula(column.name))
        columns.append([_escape_formula(cell.text) for cell in cells])
        for field in ("value", "low", "high"):
            if any(getattr(cell, field) is not None for cell in cells):
                head.append(_escape_formula(f"{column.name} {field}"))
                columns.append([_format_number(cell, field) for cell in cells])
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([head, *zip(*columns, strict=True)])
    return file.getvalue()


def _format_number(cell: Cell, field: str) -> str:
    value: float | None = getattr(cell, field)
    if value is None or value != value:
        return ""
    return f"{value:.0f}" if float(value).is_integer() else repr(float(value))


def _escape_formula(text: str) -> str:
    """Escape a text that a spreadsheet would read as a formula; plain numbers stay unchanged."""
    is_number = re.fullmatch(r"[+-]?[\d.]+", text)
    return f"'{text}" if _FORMULA.match(text) and not is_number else text
