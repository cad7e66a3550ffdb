"""What a page says, before it is drawn: words, tables of figures and charts, as plain values."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["agrees", "disagrees", "cannot tell", "not asked"]
# A table and a chart are files, on systems that take A for a as well.
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")


@dataclass(frozen=True)
class Column:
    """A column's name; `hint` says what it counts, `is_number` lines its cells up on the right."""

    name: str
    is_number: bool = False
    hint: str = ""


@dataclass(frozen=True)
class Cell:
    """What is read in a cell, and the number that it is sorted by and written to a CSV file with.

    Where both are None the cell is text alone; an empty text with no value is a figure that is missing.
    """

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Table:
    """Rows of figures. `name` names its CSV file; `strong_rows` stand out (the one compared with)."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    strong_rows: Sequence[int] = ()
    note: str = ""

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), f"{self.name}: rows of other lengths"


@dataclass(frozen=True)
class Series:
    """One line or row of points of a chart; `lows` and `highs` are the ends of intervals.

    `is_reference` marks figures that are not ours, such as the paper's: they are drawn hollow and dashed.
    """

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    lows: Sequence[float] | None = None
    highs: Sequence[float] | None = None
    is_reference: bool = False

    def __post_init__(self) -> None:
        given = [self.xs, self.ys, *(ends for ends in (self.lows, self.highs) if ends is not None)]
        assert len({len(numbers) for numbers in given}) == 1, f"{self.name}: not one number for each x"
        assert (self.lows is None) == (self.highs is None), f"{self.name}: intervals with one end"


@dataclass(frozen=True)
class Level:
    """A height that means something, such as chance."""

    height: float
    name: str


@dataclass(frozen=True)
class Chart:
    """A picture: lines over a number, or points with intervals over names.

    Where there are `x_names`, an x is the place of its name among them, from 0.

    `name` names its SVG file; `told` says in words what it shows, for those who do not see it.
    """

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

    def __post_init__(self) -> None:
        places = range(len(self.x_names)) if self.x_names is not None else None
        xs = [x for each in self.series for x in each.xs]
        assert places is None or all(x in places for x in xs), f"{self.name}: an x that has no name"


@dataclass(frozen=True)
class Finding:
    """A claim, what the source of it measured, what was measured here, and what follows."""

    claim: str
    theirs: str
    ours: str
    verdict: Verdict


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, findings, tables and charts, in this order; `code` is a command to type.

    In words, what stands between backticks is code.
    """

    title: str
    paragraphs: Sequence[str] = ()
    findings: Sequence[Finding] = ()
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    code: str = ""


@dataclass(frozen=True)
class Page:
    """One report: what it is called, what it says in a sentence or two, and its sections."""

    title: str
    lead: str
    sections: Sequence[Section]

    def __post_init__(self) -> None:
        _check_names([table.name for table in self.tables])
        _check_names([chart.name for chart in self.charts])

    @property
    def tables(self) -> list[Table]:
        """The tables of all sections."""
        return [table for section in self.sections for table in section.tables]

    @property
    def charts(self) -> list[Chart]:
        """The charts of all sections."""
        return [chart for section in self.sections for chart in section.charts]


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        assert _SAFE_NAME.fullmatch(name), f"{name!r} cannot name a file"
    assert len({name.lower() for name in names}) == len(names), f"two of one name among {names}"
