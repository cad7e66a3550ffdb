"""Progress reporters, and the command of a child process."""

import sys
from typing import Protocol


class Reporter(Protocol):
    """The interface that receives the messages and the progress of long work."""

    def say(self, text: str) -> None:
        """Print a line."""

    def show(self, stage: str, message: str, *, fraction: float | None = None) -> None:
        """Show the progress of a stage; the next call replaces it."""


class NullReporter:
    """Discard all messages and progress."""

    def say(self, text: str) -> None: ...

    def show(self, stage: str, message: str, *, fraction: float | None = None) -> None: ...


class StderrReporter(NullReporter):
    """Print messages to stderr, without progress; the default of the functions in Python."""

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def format_seconds(seconds: float) -> str:
    """Format 75 as `1m 15s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"


def build_command(module: str) -> list[str]:
    """Build the command that runs `main` of a module in a new process with the same sys.path.

    `python -m` would search the current directory first, which may contain an `albert` or a `random.py`.
    """
    paths = [path for path in sys.path if isinstance(path, str)]
    return [sys.executable, "-c", f"import sys; sys.path[:] = {paths!a}; from {module} import main; main()"]
