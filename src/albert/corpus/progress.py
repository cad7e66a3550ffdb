"""Bytes done come in; where long work is, how fast, and how long it still takes goes out in words."""

import time
from typing import Protocol


class Reporter(Protocol):
    """Where words about long work go."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def show(self, stage: str, message: str, *, fraction: float | None = None) -> None:
        """How far a stage is; the next call takes this one's place."""


class Silence:
    """Says nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def show(self, stage: str, message: str, *, fraction: float | None = None) -> None:
        """Nothing."""


class Meter:
    """Measures one stage of `total` bytes, of which `done` were done in an earlier run."""

    def __init__(self, reporter: Reporter, stage: str, *, total: int, done: int = 0) -> None:
        self._reporter, self._stage, self._total = reporter, stage, total
        self._done = self._before = done
        self._began = time.monotonic()
        self.advance(0)

    def advance(self, num_bytes: int) -> None:
        """So many bytes more are done."""
        self._done += num_bytes
        speed = (self._done - self._before) / max(time.monotonic() - self._began, 1e-9)
        message = f"{self._done / 1e6:.1f} of {self._total / 1e6:.1f} MB"
        if speed:
            left = format_seconds((self._total - self._done) / speed)
            message += f", {speed / 1e6:.1f} MB/s, {left} left"
        self._reporter.show(self._stage, message, fraction=self._done / self._total if self._total else 1.0)


def format_seconds(seconds: float) -> str:
    """`75` as `1m 15s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"
