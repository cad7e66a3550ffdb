"""Errors that a user can fix: one line with the value, the limit and the fix."""

import difflib
import errno
from collections.abc import Iterable

# The system's numbers for a disk, a user's share of it or a file that can grow no more.
NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class AlbertError(Exception):
    """A mistake in the input or the arguments; the command line prints it and exits with 2."""


class SettingsError(AlbertError):
    """A setting that is unknown, of the wrong type, or at odds with another."""


class FileFormatError(AlbertError):
    """A file that is missing, damaged, or not what its name promises."""


class WeightsError(AlbertError):
    """Weights that do not fit the model: a name or a shape too many, too few, or different."""


class EchoError(AlbertError):
    """An error that another process of the same job has already reported."""


class InputError(AlbertError):
    """A text or an argument that cannot be answered as it stands."""


class WriteError(AlbertError, OSError):
    """A path that cannot be written to, as the user gave it; `hint` says how to fix it."""

    def __init__(self, number: int | None, reason: str, place: str, *, hint: str | None = None) -> None:
        super().__init__(number, reason, place)
        self.hint = hint

    def __str__(self) -> str:
        usual = "make room, or choose another place" if self.errno in NO_ROOM else "choose another place"
        return f"{self.filename}: cannot be written ({self.strerror}); {self.hint or usual}"


class TerminatedError(KeyboardInterrupt):
    """SIGTERM, raised where Ctrl-C raises KeyboardInterrupt."""


def first_line(error: BaseException) -> str:
    """Shorten the error of another library to one line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip()[:200]


def one_line(told: object) -> str:
    """Remove the line breaks of an error or a text."""
    return " ".join(str(told).split())


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
