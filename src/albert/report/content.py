"""The contents of a report as plain values: text, findings, tables, charts and example cards.

Nothing here says what a report looks like; `write.py` renders all formats from these values.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["agrees", "disagrees", "inconclusive", "not tested"]
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")


@dataclass(frozen=True)
class Column:
    """A table column. `hint` explains it; numbers are right-aligned."""

    name: str
    is_number: bool = False
    hint: str = ""


@dataclass(frozen=True)
class Cell:
    """The text of a table cell, and the number behind it; without both, the figure is missing.

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
        """Format a number by a format spec, followed by `more`; None gives a missing figure."""
        return cls("") if value is None else cls(f"{value:{spec}}{more}", float(value), low, high)

    @property
    def is_missing(self) -> bool:
        return self.text in ("", "–") if self.value is None else self.value != self.value


@dataclass(frozen=True)
class Table:
    """Rows of cells. `name` is the name of the CSV file; `strong_rows` are printed in bold."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    strong_rows: Sequence[int] = ()
    note: str = ""


@dataclass(frozen=True)
class Series:
    """A line or points with optional intervals; `is_reference` marks figures from elsewhere."""

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
    """Lines or points over numbers, or over names: an x is then an index. `told` describes it in words."""

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
    told: str = ""
    has_diagonal: bool = False


@dataclass(frozen=True)
class Finding:
    """A claim, what its source measured (`theirs`), what was measured here (`ours`), and the outcome."""

    claim: str
    theirs: str
    ours: str
    outcome: Outcome


@dataclass(frozen=True)
class Card:
    """One example: its texts by name, a note, and the keys that the section's filters select by."""

    texts: Sequence[tuple[str, str]]
    note: str = ""
    keys: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    """Parts of a page, in this order. `filters` names the keys of the cards, which only HTML has."""

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
    """A report: a title, one or two sentences of summary, sections, and optionally one large figure."""

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
