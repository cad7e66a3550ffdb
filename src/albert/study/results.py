"""The results of a study: parts come in as they are measured; results.json, which keeps them all, goes out.

A part that is finished is never measured again: a study that was killed goes on where it was. One that failed
is not kept: the next start tries it again. Results of other settings, or of another machine where that
matters, are refused.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from albert.errors import FileFormatError, InputError
from albert.files import hold, read_json, write_json
from albert.settings import Settings, find_change

RESULTS_NAME = "results.json"
LOCK_NAME = ".results.lock"
T = TypeVar("T")


@dataclass(frozen=True)
class StudyResults:
    """What was found so far; `facts` are what every part was measured with."""

    path: Path
    facts: dict[str, Any]
    parts: dict[str, dict[str, Any]]

    def take(
        self,
        name: str,
        kind: type[T],
        *,
        measure: Callable[[], T],
        stamp: str = "",
        has_failed: Callable[[T], bool] = lambda _: False,
    ) -> T:
        """The part of that name, measured if it is not there yet, or there with another `stamp`.

        A stamp tells what a part was made of that has no place in the settings, such as a file's content.
        """
        if self.has(name, stamp=stamp):
            found = self._parse(name, kind, self.parts[name].get("found"))
            if not has_failed(found):
                return found
        found = measure()
        if has_failed(found):
            self.parts.pop(name, None)
        else:
            assert is_dataclass(found)
            assert not isinstance(found, type)
            self.parts[name] = {"stamp": stamp, "found": asdict(found)}
        self.write()
        return found

    def has(self, name: str, *, stamp: str = "") -> bool:
        """Whether a part of that name and stamp was measured before."""
        return name in self.parts and self.parts[name].get("stamp") == stamp

    def write(self) -> None:
        """All of it, whole or not at all."""
        write_json(self.path, {**self.facts, "parts": self.parts})

    def _parse(self, name: str, kind: type[T], value: Any) -> T:
        try:
            return TypeAdapter(kind).validate_python(value)
        except ValidationError as error:
            raise FileFormatError(
                f"{self.path}: part {name!r} is not what this study writes; remove the file to measure again"
            ) from error


def has_results(out: Path) -> bool:
    """Whether a study was begun in that folder."""
    return (Path(out) / RESULTS_NAME).exists()


@contextmanager
def open_results(
    out: Path,
    *,
    study: str,
    settings: Settings,
    free_keys: frozenset[str] = frozenset(),
    machine: str | None = None,
) -> Iterator[StudyResults]:
    """The results in a folder, or new ones, kept from other processes while the block lasts.

    `free_keys` are settings that may differ when a study goes on: no finished part depends on them.
    """
    path = Path(out) / RESULTS_NAME
    facts = {"study": study, "settings": settings.model_dump(mode="json"), "machine": machine}
    if Path(out).exists() and not Path(out).is_dir():
        raise InputError(f"{out}: is a file, and a folder is to be written there; choose another --out")
    busy = f"{out}: another process is measuring there; wait for it, or choose another --out"
    with hold(Path(out) / LOCK_NAME, busy=busy):
        parts = _read_parts(path, facts, free_keys) if path.exists() else {}
        results = StudyResults(path, facts, parts)
        results.write()
        yield results


def _read_parts(path: Path, facts: dict[str, Any], free_keys: frozenset[str]) -> dict[str, Any]:
    found = read_json(path)
    if not isinstance(found, dict) or not isinstance(found.get("parts"), dict) or "study" not in found:
        raise FileFormatError(f"{path}: holds no results of a study; choose another --out")
    change = find_change(_list_binding(found, free_keys), _list_binding(facts, free_keys))
    if change is not None:
        raise InputError(f"{path}: {change}; results go on as they began. Choose another --out")
    parts: dict[str, Any] = found["parts"]
    return parts


def _list_binding(facts: dict[str, Any], free_keys: frozenset[str]) -> dict[str, Any]:
    """What every part depends on."""
    settings = facts.get("settings")
    kept = {key: value for key, value in settings.items() if key not in free_keys} if settings else {}
    return {"study": facts["study"], "machine": facts.get("machine"), **kept}
