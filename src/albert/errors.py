"""Errors that a user can fix. Messages are one line with the value, the limit and the fix."""

import difflib
import errno
from collections.abc import Iterable

# The disk is full, the quota is used up, or a file is too large.
NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class AlbertError(Exception):
    """Base class: the command line prints the message without a traceback and exits with code 2."""


class SettingsError(AlbertError):
    """A setting that is unknown, of the wrong type, or in conflict with another."""


class FileFormatError(AlbertError):
    """A file that is missing, damaged, or of another format."""


class WeightsError(AlbertError):
    """Weights that do not fit the model."""


class EchoError(AlbertError):
    """An error that another process of the same job has already reported."""


class InputError(AlbertError):
    """An invalid text or argument."""


class WriteError(AlbertError, OSError):
    """A path given by the user that cannot be written to; `hint` replaces the usual fix."""

    def __init__(self, number: int | None, reason: str, path: str, *, hint: str | None = None) -> None:
        super().__init__(number, reason, path)
        self.hint = hint

    def __str__(self) -> str:
        fix = "free disk space, or choose another path" if self.errno in NO_SPACE else "choose another path"
        return f"{self.filename}: cannot be written ({self.strerror}); {self.hint or fix}"


class TerminatedError(KeyboardInterrupt):
    """SIGTERM, handled like Ctrl-C."""


def first_line(error: BaseException) -> str:
    """Return the first line of another library's error, at most 200 characters."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip()[:200]


def one_line(value: object) -> str:
    """Replace line breaks and repeated white space by single spaces."""
    return " ".join(str(value).split())


def format_install_command(extra: str) -> str:
    """Format the command that installs an extra."""
    return f"pip install -c constraints.txt '.[{extra}]'"


def explain(error: Exception) -> str:
    """Format an error in one line, with its type unless it is an AlbertError."""
    text = one_line(error)
    return text if isinstance(error, AlbertError) else f"{type(error).__name__}: {text}"


def suggest(name: str, known: Iterable[str], *, lead: str = "choose from", more: str = "") -> str:
    """Suggest the closest known name, or list all of them after `lead` and before `more`."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]}?" if close else f"{lead} {', '.join(names)}{more}"
