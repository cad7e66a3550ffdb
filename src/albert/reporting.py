"""Words about long work: protocols for whoever shows them come in; a silent one and readable times go out."""

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


def format_seconds(seconds: float) -> str:
    """`75` as `1m 15s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"
