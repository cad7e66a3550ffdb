"""The folder of a quickstart comes in; what of an earlier one can be gone on with stays, the rest goes."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert.errors import FileFormatError, InputError
from albert.files import hold, read_json, write_json
from albert.reporting import Reporter
from albert.settings import find_change

MARK_NAME = "quickstart.json"
LOCK_NAME = ".lock"


@dataclass(frozen=True)
class QuickstartFolder:
    """Where everything lies; MARK_NAME says that it is ours, and what each part was begun with."""

    out: Path
    is_new: bool = True

    def path(self, name: str) -> Path:
        """A file or folder in it."""
        return self.out / name

    def begin(
        self, part: str, stamp: Mapping[str, Any], *, folders: Sequence[str], reporter: Reporter
    ) -> None:
        """Keep the folders of a part that was begun with the same stamp; else say why, and remove them."""
        known = _read_mark(self.out)
        before, wanted = known.get(part), dict(stamp)
        if before == wanted:
            reporter.say(f"goes on with the {part} of the last time in {self.out}")
            return
        if before is not None:
            change = find_change(before, wanted)
            assert change is not None, "they are not equal"
            reporter.say(f"begins the {part} anew: {change.key} is not what it was the last time")
        for folder in folders:
            shutil.rmtree(self.path(folder), ignore_errors=True)
        write_json(self.out / MARK_NAME, {**known, part: wanted})


@contextmanager
def open_quickstart(out: Path) -> Iterator[QuickstartFolder]:
    """The folder, kept from other processes while the block lasts; refused: one that holds something else."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file, and a folder is to be written there; choose another --out")
    if not (out / MARK_NAME).exists():
        found = sorted(path.name for path in out.iterdir() if path.name != LOCK_NAME) if out.exists() else []
        if found:
            raise InputError(f"{out}: holds {found[0]}, which is no quickstart; choose another --out")
    busy = f"{out}: another quickstart is at work there; wait for it, or choose another --out"
    with hold(out / LOCK_NAME, busy=busy):
        is_new = not (out / MARK_NAME).exists()
        if is_new:
            write_json(out / MARK_NAME, {})
        yield QuickstartFolder(out, is_new)


def _read_mark(out: Path) -> dict[str, Any]:
    path = out / MARK_NAME
    found = read_json(path)
    if not isinstance(found, dict) or not all(isinstance(stamp, dict) for stamp in found.values()):
        raise FileFormatError(f"{path}: is not what a quickstart writes; choose another --out")
    return found
