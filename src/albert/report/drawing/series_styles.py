"""The series of a chart come in; how each is drawn goes out, so that no two look alike, in grey neither."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from albert.report.content import Series
from albert.report.palette import COLORS, PAPER

Dashes = Literal["-"] | tuple[float, tuple[float, ...]]

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "*")
DASHES: tuple[Dashes, ...] = (
    "-",
    (0, (6, 1.5)),
    (0, (7, 1.5, 1.5, 1.5)),
    (0, (1.3, 1.3)),
    (0, (7, 1.5, 1.3, 1.5, 1.3, 1.5)),
)
REFERENCE_DASHES: Dashes = (0, (3, 2.5))


@dataclass(frozen=True)
class SeriesStyle:
    """A colour, a marker and a pattern of dashes; a hollow marker has only its rim in the colour."""

    color: str
    marker: str
    dashes: Dashes
    is_hollow: bool

    @property
    def fill(self) -> str:
        """The colour within the marker."""
        return PAPER if self.is_hollow else self.color


def choose_styles(series: Sequence[Series]) -> list[SeriesStyle]:
    """One for each. Colours, markers and dashes differ in number: it is long until two agree in all."""
    return [
        SeriesStyle(
            color=COLORS[place % len(COLORS)],
            marker=MARKERS[place % len(MARKERS)],
            dashes=REFERENCE_DASHES if each.is_reference else DASHES[place % len(DASHES)],
            is_hollow=each.is_reference,
        )
        for place, each in enumerate(series)
    ]
