"""The training text of the released model: held-out books, and licenses."""

from pathlib import Path

from albert.data.corpus import open_corpus
from albert.files import read_json
from release.nano.data import measure_overlap, split_books
from tests.release.conftest import CHAPTER, Made


def test_whole_books_and_a_chapter_are_held_out(shelf):
    books = split_books(shelf)
    train, held_out = books["train"], books["held-out"]
    assert [book.name for book in held_out] == ["Author_15_1900", "introduction-anthropology-chapter"]
    assert len(train) == 19 + 2
    rest = next(book for book in train if book.name == "introduction-anthropology")
    for text, is_train in (("The Sea", True), ("The Hill", True), (CHAPTER, False), ("More Food", False)):
        assert (text in rest.text) is is_train
        assert (text in held_out[-1].text) is not is_train


def test_only_free_licenses(shelf):
    books = split_books(shelf)
    assert "astronomy" not in {book.name for book in (*books["train"], *books["held-out"])}
    publishers = [book.attribution.publisher for book in books["train"] if book.license == "CC BY 4.0"]
    assert publishers == ["OpenStax, Rice University"] * 2


def test_everything_is_written_down(made: Made):
    facts = read_json(made.out / "data.json")
    assert facts["vocab_size"] == 80
    assert facts["books"]["held-out"][0]["name"] == "Author_15_1900"
    assert facts["corpora"]["corpus"]["num_tokens"] == open_corpus(made.out / "corpus").num_tokens
    assert facts["corpora"]["windows"]["num_documents"] < facts["corpora"]["held-out"]["num_documents"]
    assert [found["name"] for found in facts["overlap"]] == ["sst-2", "mrpc"]


def test_a_development_sentence_that_stands_in_a_book_is_counted(made: Made, tmp_path: Path):
    """Of two sentences, one is the beginning of a novel that is learned from."""
    novel = (made.data / "novels" / "Author_00_1900.txt").read_text()
    sentences = (novel[: novel.index("\n")], "nobody has ever written this about anything at all " * 4)
    path = tmp_path / "SST-2" / "dev.tsv"
    path.parent.mkdir()
    path.write_text("sentence\tlabel\n" + "".join(f"{sentence}\t0\n" for sentence in sentences))
    (found,) = measure_overlap(made.out / "corpus", tmp_path)
    assert (found["name"], found["num_whole"], found["num_overlapping"]) == ("sst-2", 1, 1)
