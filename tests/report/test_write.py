"""A page's folder: everything that one may want to open."""

from albert.report.html import format_html
from albert.report.markdown import format_markdown
from albert.report.table_files import format_csv

from albert.report.charts import draw_chart
from albert.report.content import Page, Section
from albert.report.write import write_page
from tests.report.samples import COSTS, SCORES, SPEED


def test_a_folder_holds_the_page_its_pictures_and_its_tables(tmp_path):
    page = Page("Title", "Lead.", [Section("One", tables=[SCORES]), Section("Two", [], [], [COSTS], [SPEED])])
    path = write_page(tmp_path / "new", page, name="study")
    files = [file for file in (tmp_path / "new").rglob("*") if file.is_file()]
    found = {
        file.relative_to(tmp_path / "new").as_posix(): file.read_text(encoding="utf-8") for file in files
    }
    assert path == tmp_path / "new" / "study.html"
    assert found == {
        "study.html": format_html(page, pictures={"speed": found["figures/speed.svg"]}),
        "study.md": format_markdown(page),
        "figures/speed.svg": draw_chart(SPEED),
        "tables/scores.csv": format_csv(SCORES),
        "tables/costs.csv": format_csv(COSTS),
    }
