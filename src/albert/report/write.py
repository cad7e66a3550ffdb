"""A page comes in; a folder goes out with it as HTML and Markdown, its pictures and its tables as files."""

from pathlib import Path

from albert.files import write_text
from albert.report.charts import draw_chart
from albert.report.content import Page
from albert.report.html import format_html
from albert.report.markdown import format_markdown
from albert.report.table_files import format_csv

FIGURES, TABLES = "figures", "tables"


def write_page(folder: Path, page: Page, *, name: str = "report") -> Path:
    """Write NAME.html, NAME.md, figures/*.svg and tables/*.csv, each whole or not at all; give HTML's path.

    The HTML, which holds everything, comes last.
    """
    folder = Path(folder)
    pictures = {chart.name: draw_chart(chart) for chart in page.charts}
    for chart_name, picture in pictures.items():
        write_text(folder / FIGURES / f"{chart_name}.svg", picture)
    for table in page.tables:
        write_text(folder / TABLES / f"{table.name}.csv", format_csv(table))
    write_text(folder / f"{name}.md", format_markdown(page, figures=FIGURES))
    path = folder / f"{name}.html"
    write_text(path, format_html(page, pictures=pictures))
    return path
