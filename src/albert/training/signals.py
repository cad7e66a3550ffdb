"""Stopping: Ctrl-C and SIGTERM come in, a flag that the loop looks at between steps goes out."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_WATCHED = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """While the `with` block lasts, a signal asks for an end instead of making one: a save is never cut.

    A second Ctrl-C ends at once. Outside the main thread, where no handler can be set, nothing is watched.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in _WATCHED}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def is_set(self) -> bool:
        """Whether someone asked."""
        return self.signal is not None

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)
