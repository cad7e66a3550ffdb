"""The errors that are a user's to mend: each is one line that names the value, the limit and the cure."""

import difflib
import errno
from collections.abc import Iterable

# The system's numbers for a disk, a user's share of it or a file that can grow no more.
NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class AlbertError(Exception):
    """A mistake in what was asked for or handed in; the command line prints it and exits with 2."""


class SettingsError(AlbertError):
    """A setting that is unknown, of the wrong type, or at odds with another."""


class FileFormatError(AlbertError):
    """A file that is missing, damaged, or not what its name promises."""


class WeightsError(AlbertError):
    """Weights that do not fit the model: a name or a shape too many, too few, or different."""


class EchoError(AlbertError):
    """A mistake that another process of the same job has told already."""


class InputError(AlbertError):
    """A text or an argument that cannot be answered as it stands."""


class WriteError(AlbertError, OSError):
    """A place that cannot be written to, by the name that was given: the system's error, in one line.

    Without a `cure`, another place is one; and where the disk is full, room.
    """

    def __init__(self, number: int | None, reason: str, place: str, *, cure: str | None = None) -> None:
        super().__init__(number, reason, place)
        self.cure = cure

    def __str__(self) -> str:
        usual = "make room, or choose another place" if self.errno in NO_ROOM else "choose another place"
        return f"{self.filename}: cannot be written ({self.strerror}); {self.cure or usual}"


class TerminatedError(KeyboardInterrupt):
    """SIGTERM where Ctrl-C is answered: whoever lets the one pass lets the other pass."""


def first_line(error: BaseException) -> str:
    """What another library's error says, short enough to be quoted in one of ours."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip()[:200]


def one_line(told: object) -> str:
    """All that an error or a text says, without its line breaks."""
    return " ".join(str(told).split())


def name_install(extra: str) -> str:
    """The command that installs what an optional part needs."""
    return f"pip install -c constraints.txt '.[{extra}]'"


def explain(error: Exception) -> str:
    """Any error in one line: ours as it is, another with its kind."""
    text = one_line(error)
    return text if isinstance(error, AlbertError) else f"{type(error).__name__}: {text}"


def suggest(name: str, known: Iterable[str], *, lead: str = "there are", more: str = "") -> str:
    """The known name that was perhaps meant, else all of them and what `more` there is to give."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]}?" if close else f"{lead} {', '.join(names)}{more}"
