"""Numbers come in; small pictures go out, drawn within the page."""

from collections.abc import Sequence
from dataclasses import dataclass

from albert.report.markup import Html, join, tag
from albert.tasks.metrics.calibration import ReliabilityBin
from albert.tasks.metrics.intervals import Interval

# The drawing: its field, the room for words beside and below, and the counts under it.
_LEFT, _TOP, _SIZE, _BELOW, _COUNTS = 44, 10, 260, 34, 46
_WIDTH = _LEFT + _SIZE + 20
MAX_POINTS = 1500
Ticks = Sequence[tuple[float, str]]


def draw_range(interval: Interval) -> Html:
    """A value and its interval on a scale from 0 to 100."""
    low, value, high = (min(100.0, max(0.0, each)) for each in (interval.low, interval.value, interval.high))
    span = tag("i", style=f"left:{low:.2f}%;width:{max(0.5, high - low):.2f}%")
    return tag("span", span, tag("b", style=f"left:{value:.2f}%"), class_="range", aria_hidden="true")


def draw_reliability(bins: Sequence[ReliabilityBin]) -> Html:
    """How often answers are right (bars) by how sure they are (marks); below, how many there are."""
    total = sum(each.num_answers for each in bins)
    most = max(each.num_answers for each in bins)
    base = _TOP + _SIZE + _BELOW + _COUNTS
    parts = []
    for each in bins:
        left, right = _x(each.low) + 1, _x(each.high) - 1
        told = (
            f"sure to {each.low:.0%} – {each.high:.0%}: {each.num_answers:,} answers, on average "
            f"{each.confidence:.1%} sure, {each.accuracy:.1%} right"
        )
        height = _COUNTS * each.num_answers / most
        bar = _draw_rect(left, _y(each.accuracy), right - left, _y(0) - _y(each.accuracy), "bar")
        count = _draw_rect(left, base - height, right - left, height, "count")
        sure = _draw_line(left, _y(each.confidence), right, _y(each.confidence), "sure")
        parts.append(tag("g", tag("title", told), bar, sure, count))
    words = (
        _write(_LEFT + _SIZE / 2, _TOP + _SIZE + 28, "how sure the model is", anchor="middle"),
        _write(_LEFT - 6, base - 2, f"{total:,}", anchor="end"),
    )
    shares = [(share, f"{share:.0%}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    return _draw(_draw_axes(shares, shares), *parts, *words, height=base + 4, told="accuracy by confidence")


def draw_scatter(golds: Sequence[float], given: Sequence[float], *, is_one_scale: bool) -> Html:
    """Numbers as they should be (across) and as they were given (up); of many, some evenly taken.

    On one scale all would lie on a line; similarities have one of their own.
    """
    both = (*golds, *given)
    across, up = (_Scale.of(both if is_one_scale else own) for own in (golds, given))
    every = -(-len(golds) // MAX_POINTS)
    pairs = list(zip(golds, given, strict=True))[::every]
    dots = [
        tag("circle", cx=f"{_x(across.place(x)):.1f}", cy=f"{_y(up.place(y)):.1f}", r=3, class_="dot")
        for x, y in pairs
    ]
    told = "across: the right number; up: the given one"
    words = _write(_LEFT + _SIZE / 2, _TOP + _SIZE + 28, told, anchor="middle")
    frame = _draw_axes(across.ticks, up.ticks, has_ideal=is_one_scale)
    return _draw(frame, *dots, words, height=_TOP + _SIZE + _BELOW, told="given by right numbers")


@dataclass(frozen=True)
class _Scale:
    low: float
    width: float

    @staticmethod
    def of(values: Sequence[float]) -> "_Scale":
        return _Scale(min(values), (max(values) - min(values)) or 1.0)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        return [(share, f"{self.low + share * self.width:.3g}") for share in (0.0, 0.5, 1.0)]

    def place(self, value: float) -> float:
        return (value - self.low) / self.width


def _x(share: float) -> float:
    return _LEFT + share * _SIZE


def _y(share: float) -> float:
    return _TOP + (1 - share) * _SIZE


def _draw_axes(across: Ticks, up: Ticks, *, has_ideal: bool = True) -> Html:
    """The field's grid and numbers, and the line on which all would be as it should."""
    parts = [_draw_line(_x(0), _y(0), _x(1), _y(1), "ideal")] if has_ideal else []
    parts += [_draw_line(_x(0), _y(share), _x(1), _y(share), "axis") for share, _ in up]
    parts += [_write(_LEFT - 6, _y(share) + 4, name, anchor="end") for share, name in up]
    parts += [_write(_x(share), _y(0) + 14, name, anchor="middle") for share, name in across]
    return join(*parts)


def _draw(*parts: str, height: float, told: str) -> Html:
    return tag("svg", *parts, viewBox=f"0 0 {_WIDTH} {height:.0f}", role="img", aria_label=told)


def _draw_line(x1: float, y1: float, x2: float, y2: float, name: str) -> Html:
    return tag("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", class_=name)


def _draw_rect(x: float, y: float, width: float, height: float, name: str) -> Html:
    return tag("rect", x=f"{x:.1f}", y=f"{y:.1f}", width=f"{width:.1f}", height=f"{height:.1f}", class_=name)


def _write(x: float, y: float, words: str, *, anchor: str) -> Html:
    return tag("text", words, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)
