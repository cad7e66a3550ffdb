"""The API reference: it is up to date, has every public name, and its examples run."""

import ast
import contextlib
import doctest
import io
import random
from pathlib import Path

import pytest

import albert
from docs.make_api import PAGE, SECTIONS, format_api, list_items
from tests.training import conftest as stories

story_corpus = stories.story_corpus
ITEMS = [item for section in SECTIONS for item in list_items(section)]


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == format_api(), "run `make api`"


def test_every_exported_name_is_on_the_page_once():
    titles = [item.title for item in ITEMS]
    assert {f"albert.{name}" for name in albert.__all__ if name != "__version__"} <= set(titles)
    assert len(set(titles)) == len(titles)


@pytest.fixture
def workspace(tiny_folder: Path, story_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the model, the corpus and the table that the examples use."""
    (tmp_path / "folder").symlink_to(tiny_folder)
    (tmp_path / "corpus").symlink_to(story_corpus)
    draw = random.Random(0)
    rows = []
    for label, word in [("good", "warm"), ("bad", "cold")] * 40:
        rows.append(f"the {draw.choice(['sea', 'house', 'road'])} was {word},{label}\n")
    (tmp_path / "reviews.csv").write_text("review,mood\n" + "".join(rows), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_examples_run_in_the_order_of_the_page(workspace):
    nodes = [node for item in ITEMS for node in (item.node, *(found[-1] for found in item.methods.values()))]
    docstrings = [ast.get_docstring(node) or "" for node in nodes]
    lines = [example.source for text in docstrings for example in doctest.DocTestParser().get_examples(text)]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec("".join(lines), {"albert": albert})
    words = printed.getvalue().split()
    assert words[-4] in ("good", "bad")
    assert float(words[-2]) >= float(words[-1])  # the score and the lower end of its interval
    assert {path.name for path in workspace.iterdir()} >= {"run", "mood"}
