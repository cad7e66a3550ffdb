"""Format measured figures as table cells and as text, with three significant digits."""

from albert.report.content import Cell
from albert.tasks.metrics.intervals import Interval

MISSING = Cell("")


def number_cell(value: float | None) -> Cell:
    """Return a cell with a number, or a missing figure."""
    return MISSING if value is None else Cell(format_number(value), value)


def interval_cell(interval: Interval | None, *, suffix: str = "") -> Cell:
    """Return a cell with a number and its interval, or a missing figure."""
    if interval is None:
        return MISSING
    value, low, high = map(format_number, (interval.value, interval.low, interval.high))
    return Cell(f"{value}{suffix} ({low}–{high})", interval.value, interval.low, interval.high)


def size_cell(num_bytes: float) -> Cell:
    """Return a cell with a size; its value is in bytes."""
    return Cell(format_bytes(num_bytes), float(num_bytes))


def seconds_cell(seconds: float) -> Cell:
    """Return a cell with a time; its value is in seconds."""
    return Cell(format_time(seconds), seconds)


def format_number(value: float) -> str:
    """Format a number with three significant digits."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{value:#.3g}".rstrip(".")


def format_bytes(number: float) -> str:
    """Format 1234567 as `1.23 MB`."""
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(number) >= size:
            return f"{format_number(number / size)} {unit}"
    return f"{number:.0f} B"


def format_time(seconds: float) -> str:
    """Format 0.0123 as `12.3 ms`."""
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{format_number(seconds / size)} {unit}"
    return f"{format_number(seconds / 1e-6)} µs"
