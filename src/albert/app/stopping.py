"""How a command ends that a signal has stopped: one line on standard error, and the signal's exit code."""

import sys

INTERRUPTED = 130
TERMINATED = 143
_EXIT_CODES = {"SIGINT": INTERRUPTED, "SIGTERM": TERMINATED}


def tell_stopped(signal: str | None, *, go_on: str, step: int | None = None, is_silent: bool = False) -> int:
    """Say that what was done is saved and how to `go_on`; the exit code is that of the signal.

    Of several processes that share a job, one speaks. Without a signal, something else has stopped it.
    """
    if not is_silent:
        place = "" if step is None else f" at step {step}"
        print(f"stopped by {signal}{place} and saved; {go_on}", file=sys.stderr)
    return _EXIT_CODES.get(signal or "", 1)
