"""Errors that a user can fix: one line with the value, the limit and the fix."""

import difflib
import errno
from collections.abc import Iterable

# The disk is full, the quota is used up, or a file is too large.
NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class AlbertError(Exception):
    """A mistake in the input or the arguments; the command line prints it and exits with 2."""


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
    """A path that cannot be written to, as given by the user; `hint` says how to fix it."""

    def __init__(self, number: int | None, reason: str, path: str, *, hint: str | None = None) -> None:
        super().__init__(number, reason, path)
        self.hint = hint

    def __str__(self) -> str:
        usual = "free disk space, or choose another path" if self.errno in NO_SPACE else "choose another path"
        return f"{self.filename}: cannot be written ({self.strerror}); {self.hint or usual}"


class TerminatedError(KeyboardInterrupt):
    """SIGTERM, raised where Ctrl-C raises KeyboardInterrupt."""


def first_line(error: BaseException) -> str:
    """Shorten the error of another library to one line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip()[:200]


def one_line(value: object) -> str:
    """Remove the line breaks of an error or a text."""
    return " ".join(str(value).split())


def name_install(extra: str) -> str:
    """Format the command that installs an extra."""
    return f"pip install -c constraints.txt '.[{extra}]'"


def explain(error: Exception) -> str:
    """Format any error in one line: ours as it is, others with their type."""
    text = one_line(error)
    return text if isinstance(error, AlbertError) else f"{type(error).__name__}: {text}"


def suggest(name: str, known: Iterable[str], *, lead: str = "there are", more: str = "") -> str:
    """Suggest the closest known name, else list all of them and what `more` there is."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]}?" if close else f"{lead} {', '.join(names)}{more}"
