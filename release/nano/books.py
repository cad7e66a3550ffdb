"""Split a folder of novels and textbooks into books to train on and held-out books."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from albert.errors import InputError
from albert.files import read_json, read_text

PUBLIC_DOMAIN, CC_BY = "public domain", "CC BY 4.0"
_CC_BY_NAME = "Attribution 4.0 International"  # as LICENCES.json says it
_FIRST, _EVERY = 16, 32  # of the novels in the order of their names, counted from 1
_CHAPTER_START = "Introduction"


@dataclass(frozen=True)
class Attribution:
    """Whose book it is, as its licence wants it to be said."""

    title: str
    authors: str
    publisher: str
    url: str


@dataclass(frozen=True)
class Book:
    """A file of text; of a part of one, `text` is that part."""

    name: str
    path: Path
    licence: str
    attribution: Attribution | None = None
    text: str | None = None


@dataclass(frozen=True)
class Chapter:
    """A chapter of a textbook: the book, and the heading of its first section after the introduction."""

    book: str
    heading: str


# Titles and authors stand in the prefaces of the books.
ATTRIBUTIONS = {
    "introduction-anthropology": Attribution(
        "Introduction to Anthropology",
        "Jennifer Hasty, David G. Lewis and Marjorie M. Snipes",
        "OpenStax, Rice University",
        "https://openstax.org/details/books/introduction-anthropology",
    ),
    "principles-economics-bundle": Attribution(
        "Principles of Economics 3e, with its editions for microeconomics and macroeconomics",
        "David Shapiro, Daniel MacDonald and Steven A. Greenlaw",
        "OpenStax, Rice University",
        "https://openstax.org/details/books/principles-economics-3e",
    ),
}
# The sections of the other textbook stand in no order, and some twice: no part of it can be kept apart.
HELD_OUT_CHAPTER = Chapter("introduction-anthropology", "Food as a Material Artifact")


@dataclass(frozen=True)
class Selection:
    """The training books, and the held-out ones: whole novels and one chapter."""

    train: tuple[Book, ...]
    held_out: tuple[Book, ...]


def select_books(data: Path) -> Selection:
    """Sort the novels and the CC BY textbooks of a folder; all other textbooks are left alone."""
    novels = sorted((data / "novels").glob("*.txt"))
    if len(novels) < _FIRST:
        raise InputError(
            f"{data / 'novels'}: has {len(novels)} novels, and every {_EVERY}th from the {_FIRST}th on is "
            "kept from training; unpack all of them there"
        )
    kept = set(novels[_FIRST - 1 :: _EVERY])
    own = {path: Book(path.stem, path, PUBLIC_DOMAIN) for path in novels}
    train = [book for path, book in own.items() if path not in kept]
    held_out = [book for path, book in own.items() if path in kept]
    for book in find_textbooks(data / "textbooks"):
        if book.name != HELD_OUT_CHAPTER.book:
            train.append(book)
            continue
        rest, chapter = cut_chapter(_list_sections(book), HELD_OUT_CHAPTER, name=str(book.path))
        train.append(Book(book.name, book.path, book.licence, book.attribution, _join(rest)))
        held_out.append(
            Book(f"{book.name}-chapter", book.path, book.licence, book.attribution, _join(chapter))
        )
    return Selection(tuple(train), tuple(held_out))


def find_textbooks(folder: Path) -> list[Book]:
    """The textbooks whose licence allows what ours does, with their attribution."""
    licences = read_json(folder / "LICENCES.json")
    books = []
    for name in sorted(name for name, licence in licences.items() if licence.strip() == _CC_BY_NAME):
        if name not in ATTRIBUTIONS:
            raise InputError(f"{folder / name}.txt: is CC BY and nobody is named; add it to ATTRIBUTIONS")
        books.append(Book(name, folder / f"{name}.txt", CC_BY, ATTRIBUTIONS[name]))
    return books


def cut_chapter(sections: Sequence[str], chapter: Chapter, *, name: str) -> tuple[list[str], list[str]]:
    """The sections of a book without a chapter, and the chapter: from its introduction to the next one."""
    headings = [section.partition("\n")[0].strip() for section in sections]
    starts = [number for number, heading in enumerate(headings) if heading == _CHAPTER_START]
    if chapter.heading not in headings:
        raise InputError(f"{name}: has no section {chapter.heading!r}, which is kept from training")
    place = headings.index(chapter.heading)
    start = max((number for number in starts if number <= place), default=place)
    end = min((number for number in starts if number > place), default=len(sections))
    return [*sections[:start], *sections[end:]], list(sections[start:end])


def _list_sections(book: Book) -> list[str]:
    return [section for section in read_text(book.path).split("\n\n") if section.strip()]


def _join(sections: Sequence[str]) -> str:
    return "\n\n".join(section.strip("\n") for section in sections) + "\n"
