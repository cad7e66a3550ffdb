"""Numbers along an axis come in; where its marks stand, and how they are written, goes out."""

import math
from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

_UNITS = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))  # from where on, of what size, and its sign
_FEW = 8  # values that can each have a mark
_NEAR = 0.07  # of an axis; marks that are nearer would run into each other


def tell_number(value: float) -> str:
    """A number in few characters: 12.5k, 1M, 1024, 0.05."""
    for least, size, sign in _UNITS:
        if abs(value) >= least:
            short = f"{value / size:.3g}"
            if math.isclose(float(short) * size, value, rel_tol=1e-9):
                return f"{short}{sign}".replace("-", "−")
            break
    return (f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:g}").replace("-", "−")


def mark_numbers(axis: Axis, *, values: Sequence[float], is_log: bool, is_by_value: bool) -> None:
    """Set the marks of an axis; with `is_by_value`, at the values themselves where these are few."""
    known = sorted({float(value) for value in values if math.isfinite(value) and (value > 0 or not is_log)})
    places = [math.log(value) for value in known] if is_log else known
    if is_by_value and 0 < len(known) <= _FEW and _are_apart(places):
        axis.set_major_locator(FixedLocator(known))
        axis.set_minor_locator(NullLocator())
    elif is_log:
        is_long = bool(known) and known[-1] / known[0] > 300
        axis.set_major_locator(LogLocator(subs=(1.0,) if is_long else (1.0, 2.0, 5.0), numticks=12))
        axis.set_minor_locator(LogLocator(subs=tuple(map(float, range(2, 10))), numticks=12))
    else:
        is_whole = is_by_value and all(value.is_integer() for value in known)
        axis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 2.5, 5, 10], integer=is_whole))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tell_number(value)))
    axis.set_minor_formatter(NullFormatter())


def _are_apart(places: Sequence[float]) -> bool:
    width = places[-1] - places[0]
    gaps = [high - low for low, high in pairwise(places)]
    return all(gap >= _NEAR * width for gap in gaps)
