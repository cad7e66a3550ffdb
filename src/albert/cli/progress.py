"""How far long work is comes in; a bar on a terminal, or now and then a plain line, goes out on stderr."""

import sys
import time
from types import TracebackType
from typing import Any

_SECONDS_BETWEEN_LINES = 5.0


class ProgressDisplay:
    """Shows the stages of one piece of work, one after the other, as long as the `with` block lasts."""

    def __init__(self) -> None:
        self._bar: Any = _build_bar() if sys.stderr.isatty() else None
        self._task: Any = None
        self._stage = ""
        self._last_time = 0.0

    def __enter__(self) -> "ProgressDisplay":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """A line that stays, above the bar."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def show(self, stage: str, message: str, *, fraction: float | None = None) -> None:
        """Say where a stage is; `fraction` is 1 at its end, and None where that is not known."""
        is_new, self._stage = stage != self._stage, stage
        if self._bar is not None:
            if is_new:
                self._task = self._bar.add_task(stage, total=None, message=message)
            total = None if fraction is None else 1.0
            self._bar.update(self._task, total=total, completed=fraction or 0.0, message=message)
        elif is_new or fraction == 1.0 or time.monotonic() - self._last_time > _SECONDS_BETWEEN_LINES:
            self._last_time = time.monotonic()
            percent = "" if fraction is None else f" ({fraction:.0%})"
            print(f"{stage}: {message}{percent}", file=sys.stderr, flush=True)


def _build_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[message]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
