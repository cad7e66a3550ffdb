"""Bytes done come in; where long work is, how fast, and how long it still takes goes out in words."""

import time

from albert.reporting import Reporter, format_seconds


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
