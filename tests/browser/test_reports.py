"""Reports in a real browser: they load without a complaint, and a click on a table's head sorts its rows."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from albert.report.content import Cell, Column, Page, Section, Table
from albert.report.write import write_page
from tests.report.samples import CURVES, POINTS, SPEED

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian's package chromium)")
ARMS = {"middle": 5.0, "highest": 10.0, "lowest": 1.0}
COLUMNS = [Column("arm"), Column("score", is_number=True)]
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
    assert "<button" in document, "the script that makes heads of tables clickable has run"
    assert list_arms(document) == ["middle", "highest", "lowest"]


def test_nothing_that_a_report_does_not_bring_itself_may_run(report, tmp_path):
    text = report.read_text(encoding="utf-8")
    report.write_text(text.replace("</body>", "<script>document.title = 'taken over'</script></body>"))
    document, complaints = open_page(report, tmp_path / "profile")
    assert "<title>taken over" not in document
    assert any("Content Security Policy" in line for line in complaints)


def test_a_click_on_the_head_of_a_column_sorts_by_it(report, tmp_path):
    text = report.read_text(encoding="utf-8")
    click = "<script>document.querySelectorAll('table.sortable th button')[1].click()</script></body>"
    # Somebody who clicks is no part of the report: its policy would not let this script run.
    report.write_text(
        re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text).replace("</body>", click)
    )
    document, _ = open_page(report, tmp_path / "profile")
    assert list_arms(document) == ["lowest", "middle", "highest"]
