"""The content of a report as plain values, from which `write.py` renders every format."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["agrees", "disagrees", "inconclusive", "not tested"]
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")


@dataclass(frozen=True)
class Column:
    """A table column; `hint` explains it, and numbers are right-aligned."""

    name: str
    is_number: bool = False
    hint: str = ""


@dataclass(frozen=True)
class Cell:
    """A table cell: its text and its number. A cell without both is shown as missing.

    `heat` shades the cell, from -1 (an error) to 1 (correct); `keys` link it to the section's cards.
    """

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    heat: float | None = None
    keys: Sequence[str] = ()

    @classmethod
    def number(
        cls,
        value: float | None,
        spec: str = ",.0f",
        *,
        low: float | None = None,
        high: float | None = None,
        more: str = "",
    ) -> "Cell":
        """Format a number by a format spec and append `more`; None gives a missing cell."""
        return cls("") if value is None else cls(f"{value:{spec}}{more}", float(value), low, high)

    @property
    def is_missing(self) -> bool:
        return self.text in ("", "–") if self.value is None else self.value != self.value


@dataclass(frozen=True)
class Table:
    """Rows of cells; `name` is that of the CSV file, and `strong_rows` are the indices of bold rows."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    strong_rows: Sequence[int] = ()
    note: str = ""


@dataclass(frozen=True)
class Series:
    """A line or points with optional intervals; `is_reference` marks values from another source."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    lows: Sequence[float] | None = None
    highs: Sequence[float] | None = None
    is_reference: bool = False


@dataclass(frozen=True)
class Level:
    """A horizontal reference line, such as chance."""

    height: float
    name: str


@dataclass(frozen=True)
class Chart:
    """Lines or points over numbers, or over `x_names`, of which an x is the index."""

    name: str
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    kind: Literal["lines", "points"] = "lines"
    x_names: Sequence[str] | None = None
    levels: Sequence[Level] = ()
    has_log_x: bool = False
    has_log_y: bool = False
    caption: str = ""
    has_diagonal: bool = False


@dataclass(frozen=True)
class Finding:
    """A claim, the value in its source (`theirs`), the value measured here (`ours`), and the outcome."""

    claim: str
    theirs: str
    ours: str
    outcome: Outcome


@dataclass(frozen=True)
class Card:
    """One example: its texts by name, a note, and its value for each filter of the section."""

    texts: Sequence[tuple[str, str]]
    note: str = ""
    keys: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    """A part of a page, rendered in this order; `filters` name the keys of the cards (HTML only)."""

    title: str
    paragraphs: Sequence[str] = ()
    findings: Sequence[Finding] = ()
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    code: str = ""
    cards: Sequence[Card] = ()
    filters: Sequence[str] = ()


@dataclass(frozen=True)
class Page:
    """A report: a title, a summary of one or two sentences, sections, and an optional headline figure."""

    title: str
    lead: str
    sections: Sequence[Section]
    headline: str = ""

    def __post_init__(self) -> None:
        for names in ([table.name for table in self.tables], [chart.name for chart in self.charts]):
            assert all(map(_FILE_NAME.fullmatch, names)), f"not file names: {names}"
            assert len({name.lower() for name in names}) == len(names), f"duplicate names: {names}"

    @property
    def tables(self) -> list[Table]:
        return [table for section in self.sections for table in section.tables]

    @property
    def charts(self) -> list[Chart]:
        return [chart for section in self.sections for chart in section.charts]
