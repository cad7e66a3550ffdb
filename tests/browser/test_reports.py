"""Reports in a real browser: they load without errors, and sorting and filtering work."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from albert.report.content import Cell, Column, Page, Section, Table
from albert.report.write import write_page
from albert.tasks.report import write_report
from tests.report.samples import CURVES, POINTS, SPEED
from tests.tasks.evaluations import evaluate_texts

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian's package chromium)")
ARMS = {"middle": 5.0, "highest": 10.0, "lowest": 1.0}
COLUMNS = [Column("variant"), Column("score", is_number=True)]
ROWS = Table("rows", COLUMNS, [[Cell(arm), Cell(f"{score}", score)] for arm, score in ARMS.items()])


def open_page(path: Path, profile: Path) -> tuple[str, list[str]]:
    """The document as it stands once its script has run, and what the console said."""
    assert CHROMIUM is not None
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    done = subprocess.run(
        [CHROMIUM, *flags, f"--user-data-dir={profile}", path.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture
def report(tmp_path: Path) -> Path:
    page = Page("Title", "Lead.", [Section("All", charts=[CURVES, POINTS, SPEED], tables=[ROWS])])
    return write_page(tmp_path / "report", page)


def list_arms(document: str) -> list[str]:
    body = document[document.index("<tbody") : document.index("</tbody")]
    return [arm for arm in re.findall(r">(\w+)<", body) if arm in ARMS]


def test_a_report_opens_without_a_complaint(report, tmp_path):
    document, complaints = open_page(report, tmp_path / "profile")
    assert complaints == []
    assert document.count("<svg") == 3
    assert "<button" in document  # added by the script
    assert list_arms(document) == ["middle", "highest", "lowest"]


def click(report: Path, selector: str, profile: Path) -> str:
    """Return the document after a click, by a script that the report's policy would not allow."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", report.read_text(encoding="utf-8"))
    script = f"<script>document.querySelectorAll('{selector}')[1].click()</script></body>"
    report.write_text(text.replace("</body>", script), encoding="utf-8")
    return open_page(report, profile)[0]


def test_a_click_on_a_column_sorts_by_it(report, tmp_path):
    document = click(report, "table.sortable th button", tmp_path / "profile")
    assert list_arms(document) == ["lowest", "middle", "highest"]


def test_a_click_on_a_cell_of_the_matrix_shows_its_errors(tmp_path):
    write_report(tmp_path / "report.html", evaluate_texts(["a text"] * 60))
    (first, second) = re.findall(
        r"<a href=\"#cards\" data-keys='(.*?)'", (tmp_path / "report.html").read_text()
    )[:2]
    assert first != second
    document = click(tmp_path / "report.html", "a[data-keys]", tmp_path / "profile")
    cards = re.findall(r"<article data-keys=(?:'|\")(.*?)(?:'|\")( hidden=\"\")?>", document)
    shown = {keys.replace("&quot;", '"') for keys, hidden in cards if not hidden}
    assert shown == {second}
