"""Time functions in turns, in one run."""

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Timing:
    """The median time, and the spread of the middle half."""

    seconds: float
    low: float
    high: float

    def __str__(self) -> str:
        scale, unit = (1e3, "ms") if self.seconds < 1 else (1, "s")
        return f"{self.seconds * scale:.3g} {unit} ({self.low * scale:.3g}–{self.high * scale:.3g})"


def time_in_turns(functions: Mapping[str, Callable[[], Any]], *, repeats: int) -> dict[str, list[float]]:
    """Seconds of each call; one untimed round first, then every function once a round."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for round_number in range(repeats + 1):
        for name, function in functions.items():
            gc.collect()
            start = time.perf_counter()
            function()
            if round_number:
                times[name].append(time.perf_counter() - start)
    return times


def summarise(seconds: list[float]) -> Timing:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(seconds, n=4)
    return Timing(middle, low, high)


def ratio(slow: list[float], fast: list[float]) -> float:
    """The median over rounds of one side's time to the other's in the same round."""
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def measure_peak_bytes(module: str, *arguments: str) -> int:
    """Run `python -m module arguments` in a fresh process; it prints {"peak_bytes": …} as its last line."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], check=True, capture_output=True, text=True
    )
    return int(json.loads(done.stdout.splitlines()[-1])["peak_bytes"])
