"""A time budget: `2h` and the measured seconds of each kind of step come in, a number of steps goes out."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from albert.errors import InputError

_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+")


@dataclass(frozen=True)
class ShapeCost:
    """A kind of step: its share of all steps, and how long one takes."""

    share: float
    seconds: float


def parse_duration(text: str) -> float:
    """`2h`, `90m`, `1h30m` or `45s` in seconds."""
    compact = text.replace(" ", "").lower()
    if not _DURATION.fullmatch(compact):
        raise InputError(f"a budget of {text!r} is not understood; write 45s, 20m, 2h or 1h30m")
    seconds = sum(
        float(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+(?:\.\d+)?)([dhms])", compact)
    )
    if seconds <= 0:
        raise InputError(f"a budget of {text!r} is no time at all; write 45s, 20m, 2h or 1h30m")
    return seconds


def fit_steps(seconds: float, shapes: Sequence[ShapeCost]) -> int:
    """How many steps fit into the time that is left; less than ten would teach nothing and are refused."""
    mean = sum(shape.share * shape.seconds for shape in shapes)
    num_steps = int(seconds / mean)
    if num_steps < 10:
        raise InputError(
            f"the budget leaves {max(seconds, 0):.0f} s for training and a step takes {mean:.1f} s: room for "
            f"{max(num_steps, 0)} steps; give more time, or choose a smaller batch_size or model"
        )
    return num_steps
