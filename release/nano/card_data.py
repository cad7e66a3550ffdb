"""The card's section on the data, with licenses and attribution."""

from collections.abc import Mapping
from typing import Any

from albert.report.content import Cell, Column, Section, Table

_NAMES = {"train": "to learn from", "held-out": "held out"}
_CORPORA = {"train": "corpus", "held-out": "held-out"}


def describe_data(data: Mapping[str, Any]) -> Section:
    """Which books, whose they are, and that no task's development set is among them."""
    books = data["books"]
    held_out = ", ".join(book["name"] for book in books["held-out"])
    return Section(
        "Data",
        paragraphs=[
            f"English novels in the public domain and textbooks under CC BY 4.0; nothing else. Kept from "
            f"training, vocabulary included: {held_out}.",
            *_list_credits(books["train"]),
        ],
        tables=[_tabulate_books(data), *([_tabulate_overlap(data)] if data["overlap"] else [])],
    )


def _list_credits(books: list[Mapping[str, Any]]) -> list[str]:
    """What CC BY asks for: title, authors, source, licence, and that something was changed."""
    return [
        f"{credit['title']}, by {credit['authors']}, {credit['publisher']}. Access for free at "
        f"{credit['url']} . {book['licence']} (https://creativecommons.org/licenses/by/4.0/ ). Its text was "
        "cut into pieces and learned from; nobody named here endorses the model."
        for book in books
        if (credit := book["attribution"]) is not None
    ]


def _tabulate_books(data: Mapping[str, Any]) -> Table:
    columns = [Column(""), *(Column(name, is_number=True) for name in ("books", "MB", "passages", "pieces"))]
    rows = []
    for name, books in data["books"].items():
        counts = data["corpora"][_CORPORA[name]]
        size = sum(book["num_bytes"] for book in books)
        numbers = (len(books), counts["num_documents"], counts["num_tokens"])
        first, *rest = [Cell(f"{number:,}", number) for number in numbers]
        rows.append([Cell(_NAMES[name]), first, Cell(f"{size / 1e6:.1f}", size), *rest])
    return Table("books", columns, rows)


def _tabulate_overlap(data: Mapping[str, Any]) -> Table:
    """What `albert corpus overlap` found of the development sets in the training text."""
    keys = {
        "num_texts": "texts",
        "num_short": "too short",
        "num_overlapping": "a run of 13 pieces",
        "num_mostly": "half or more",
        "num_whole": "whole",
    }
    columns = [Column("development set"), *(Column(name, is_number=True) for name in keys.values())]
    rows = [
        [Cell(found["name"]), *(Cell(f"{found[key]:,}", found[key]) for key in keys)]
        for found in data["overlap"]
    ]
    note = (
        "How many texts of each development set stand in the training text, in part or whole. Texts of fewer "
        "than 13 pieces are too common to say anything."
    )
    return Table("overlap", columns, rows, note=note)
