"""Time functions interleaved in one run."""

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
    """The median and the quartiles of a time."""

    seconds: float
    low: float
    high: float

    def __str__(self) -> str:
        scale, unit = (1e3, "ms") if self.seconds < 1 else (1, "s")
        return f"{self.seconds * scale:.3g} {unit} ({self.low * scale:.3g}–{self.high * scale:.3g})"


def time_interleaved(
    functions: Mapping[str, Callable[[], Any]],
    *,
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Time every function once per round, after an untimed round; return the seconds of each call."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for round_number in range(repeats + 1):
        for name, function in functions.items():
            gc.collect()
            start = clock()
            function()
            if round_number:
                times[name].append(clock() - start)
    return times


def summarize(seconds: list[float]) -> Timing:
    """Compute the median and the quartiles."""
    low, middle, high = statistics.quantiles(seconds, n=4)
    return Timing(middle, low, high)


def median_ratio(slow: list[float], fast: list[float]) -> float:
    """Compute the median over rounds of one side's time divided by the other's in the same round."""
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def measure_peak_bytes(module: str, *arguments: str) -> int:
    """Run `python -m module arguments` in a fresh process; it prints {"peak_bytes": …} as its last line."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], check=True, capture_output=True, text=True
    )
    return int(json.loads(done.stdout.splitlines()[-1])["peak_bytes"])
