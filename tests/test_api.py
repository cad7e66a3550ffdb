"""The API reference: it is up to date, has every public name, and its examples run."""

import ast
import contextlib
import doctest
import io
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import albert
from docs.make_api import PAGE, SECTIONS, Item, format_api, list_items
from tests.training import conftest as stories

story_corpus = stories.story_corpus
ITEMS = [item for section in SECTIONS for item in list_items(section)]


def titled(item: Item) -> str:
    return item.title


def iter_docstrings(item: Item) -> Iterator[tuple[str, str]]:
    yield item.title, ast.get_docstring(item.node) or ""
    for name, nodes in item.methods.items():
        docstring = ast.get_docstring(nodes[-1])
        if docstring:  # trivial methods need none
            yield f"{item.title}.{name}", docstring


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == format_api(), "run `make api`"


def test_every_exported_name_is_on_the_page_once():
    titles = [item.title for item in ITEMS]
    assert {f"albert.{name}" for name in albert.__all__ if name != "__version__"} <= set(titles)
    assert len(set(titles)) == len(titles)


def test_signatures_are_those_of_the_source():
    page = PAGE.read_text(encoding="utf-8")
    assert "embed(\n    texts: Iterable[str],\n    *,\n    pooling: Pooling" in page
    assert "#### TaskPredictor.classify\n" in page
    assert "is_swapped: bool" in page
    assert "_check_lengths" not in page  # a validator is not public


@pytest.mark.parametrize("item", ITEMS, ids=titled)
def test_docstrings_begin_with_a_sentence_on_one_line(item):
    for name, docstring in iter_docstrings(item):
        first, *rest = docstring.split("\n")
        assert first.endswith((".", "…")), f"{name}: {first!r}"
        assert not rest or rest[0] == "", f"{name}: more than one line before the first empty one"


@pytest.fixture
def workspace(tiny_folder: Path, story_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the model, the corpus and the table that the examples use."""
    (tmp_path / "folder").symlink_to(tiny_folder)
    (tmp_path / "corpus").symlink_to(story_corpus)
    draw = random.Random(0)
    rows = []
    for label, word in [("good", "warm"), ("bad", "cold")] * 40:
        rows.append(f"the {draw.choice(['sea', 'house', 'road'])} was {word},{label}\n")
    (tmp_path / "reviews.csv").write_text("text,label\n" + "".join(rows), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_examples_run_in_the_order_of_the_page(workspace):
    docstrings = [text for item in ITEMS for _, text in iter_docstrings(item)]
    lines = [example.source for text in docstrings for example in doctest.DocTestParser().get_examples(text)]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec("".join(lines), {"albert": albert})
    words = said.getvalue().split()
    assert words[-4] in ("good", "bad")
    assert float(words[-2]) >= float(words[-1])  # the score and the lower end of its interval
    assert {path.name for path in workspace.iterdir()} >= {"run", "mood"}
