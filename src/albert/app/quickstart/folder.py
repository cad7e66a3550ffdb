"""The folder of a quickstart comes in; what of an earlier one can be gone on with stays, the rest goes."""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert.errors import FileFormatError, InputError, WriteError
from albert.files import ASIDE_PATTERN, hold, read_json, write_json
from albert.reporting import Reporter
from albert.settings import find_change

MARK_NAME = "quickstart.json"
LOCK_NAME = ".lock"
TEXT, VOCAB, CORPUS, RUN, REVIEWS, LAYERS = "text", "vocab", "corpus", "pretrain", "reviews", "layers"
SAMPLE_NAME = "sample.txt"
# What is told of all parts together: it is no longer true as soon as one of them begins anew.
_TOLD = ("report.html", "report.md", "figures", "tables", LAYERS)
_BEFORE = "before"  # where what is replaced waits until that is under way
_NAMES = (MARK_NAME, TEXT, VOCAB, CORPUS, RUN, REVIEWS, SAMPLE_NAME, _BEFORE, *_TOLD)
# A killed process may leave what it was writing, or removing. A user's own file may be called
# `.bashrc.original`: only names of ours count.
_ASIDE = re.compile(rf"\.({'|'.join(map(re.escape, _NAMES))})(\.old)?\.[a-z0-9_]{{8}}")


@dataclass(frozen=True)
class QuickstartFolder:
    """Where everything lies; MARK_NAME says that it is ours, and what each part was begun with."""

    out: Path
    is_new: bool = True

    def path(self, name: str) -> Path:
        """A file or folder in it."""
        return self.out / name

    def has(self, part: str, stamp: Mapping[str, Any]) -> bool:
        """Whether a part was begun with the same stamp."""
        return _read_mark(self.out).get(part) == dict(stamp)

    def find_change(self, part: str, stamp: Mapping[str, Any]) -> str | None:
        """What is not as it was when a part was begun; None where all is, and where it was not begun."""
        before = _read_mark(self.out).get(part)
        change = None if before is None else find_change(before, dict(stamp))
        return None if change is None else change.key

    @contextmanager
    def begin(
        self,
        part: str,
        stamp: Mapping[str, Any],
        *,
        folders: Sequence[str],
        reporter: Reporter,
        is_under_way: Callable[[], bool] = lambda: False,
    ) -> Iterator[None]:
        """Keep the folders of a part that was begun with the same stamp; else say why, and replace them.

        The report goes with them: it tells of what was there. Where the block is left by an error before the
        new part is under way, all comes back: what is refused costs nothing.
        """
        if self.has(part, stamp):
            reporter.say(f"goes on with the {part} of the last time in {self.out}")
            yield
            return
        changed = self.find_change(part, stamp)
        if changed is not None:
            reporter.say(f"begins the {part} anew: {changed} is not what it was the last time")
        known = _read_mark(self.out)
        others = {name: value for name, value in known.items() if name != part}
        # The mark goes first and comes last: half of what was moved is never taken for the whole.
        write_json(self.out / MARK_NAME, others)
        aside = Path(tempfile.mkdtemp(prefix=f".{_BEFORE}.", dir=self.out))
        replaced: Sequence[str] = ()
        try:
            for name in (*folders, *_TOLD):
                _move(self.path(name), aside / name)
            replaced = folders
            write_json(self.out / MARK_NAME, {**others, part: dict(stamp)})
            yield
        except BaseException:
            if part in known and not is_under_way():
                write_json(self.out / MARK_NAME, others)
                _put_back(aside, self.out, replaced)
                write_json(self.out / MARK_NAME, known)
            # Not where putting back fails: what waits there is then all that there is of it.
            shutil.rmtree(aside, ignore_errors=True)
            raise
        shutil.rmtree(aside, ignore_errors=True)  # what is left of it is swept the next time


@contextmanager
def open_quickstart(out: Path) -> Iterator[QuickstartFolder]:
    """The folder, kept from other processes while the block lasts; refused: one that holds something else."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file, and a folder is to be written there; choose another --out")
    if not (out / MARK_NAME).exists():
        names = (path.name for path in out.iterdir()) if out.exists() else ()
        # Another one, just begun, may have written its mark since we looked.
        found = sorted(
            name for name in names if name not in (LOCK_NAME, MARK_NAME) and not _ASIDE.fullmatch(name)
        )
        if found:
            raise InputError(f"{out}: holds {found[0]}, which is no quickstart; choose another --out")
    busy = f"{out}: another quickstart is at work there; wait for it, or choose another --out"
    with hold(out / LOCK_NAME, busy=busy):
        is_new = not (out / MARK_NAME).exists()
        if is_new:
            write_json(out / MARK_NAME, {})
        _read_mark(out)  # refused now, if at all
        _sweep(out)
        yield QuickstartFolder(out, is_new)


def _move(path: Path, place: Path) -> None:
    """In one step: it is there or, if that is refused, where it was."""
    if not os.path.lexists(path):
        return
    try:
        os.replace(path, place)
    except OSError as error:
        raise WriteError(error.errno, error.strerror or str(error), str(path)) from error


def _put_back(aside: Path, out: Path, replaced: Sequence[str]) -> None:
    """What was moved aside takes the place of what began instead: by names alone, which takes no time."""
    for name in {*replaced, *(path.name for path in aside.iterdir())}:
        _move(out / name, aside / f"{name}.new")
        _move(aside / name, out / name)


def _sweep(out: Path) -> None:
    """Remove what a killed process was writing or replacing."""
    inside = [path for name in (TEXT, VOCAB, REVIEWS, LAYERS) for path in (out / name).glob(".*")]
    left = [path for path in inside if ASIDE_PATTERN.fullmatch(path.name)]
    for path in [*left, *(path for path in out.iterdir() if _ASIDE.fullmatch(path.name))]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _read_mark(out: Path) -> dict[str, Any]:
    path = out / MARK_NAME
    try:
        found = read_json(path)
    except FileFormatError:  # it says to mend it, and nobody can
        found = None
    if not isinstance(found, dict) or not all(isinstance(stamp, dict) for stamp in found.values()):
        raise FileFormatError(f"{path}: is not what a quickstart writes; choose another --out")
    return found
