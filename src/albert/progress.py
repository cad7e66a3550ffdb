"""Progress of long work: the protocol of a reporter, and a silent one."""

from typing import Protocol


class Reporter(Protocol):
    """Receives messages and progress."""

    def say(self, text: str) -> None:
        """Print a line."""

    def show(self, stage: str, message: str, *, fraction: float | None = None) -> None:
        """Show the progress of a stage; the next call replaces it."""


class NullReporter:
    """A reporter that prints nothing."""

    def say(self, text: str) -> None:
        """Do nothing."""

    def show(self, stage: str, message: str, *, fraction: float | None = None) -> None:
        """Do nothing."""


def format_seconds(seconds: float) -> str:
    """Format 75 as `1m 15s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"
