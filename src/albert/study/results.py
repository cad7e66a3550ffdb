"""The results of a study in results.json, part by part.

A finished part is never measured again: a study that was killed resumes. A failed part is not kept, so that
the next start tries it again. Results of other settings, or of another machine where that matters, are
rejected.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from albert.errors import FileFormatError, InputError
from albert.files import hold, read_json, require_folder, write_json
from albert.settings import Settings, find_change

RESULTS_NAME = "results.json"
LOCK_NAME = ".results.lock"
T = TypeVar("T")


@dataclass(frozen=True)
class StudyResults:
    """The parts so far; `facts` are what every part was measured with."""

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
        """Return a part; measure it if it is missing, failed, or was measured with another `stamp`.

        A stamp identifies what a part depends on beside the settings, such as the content of a file.
        """
        if name in self.parts and self.parts[name].get("stamp") == stamp:
            try:
                found = TypeAdapter(kind).validate_python(self.parts[name].get("found"))
            except ValidationError as error:
                raise FileFormatError(
                    f"{self.path}: part {name!r} is not what this study writes; remove the file to measure "
                    "again"
                ) from error
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

    def write(self) -> None:
        """Write all parts, atomically."""
        write_json(self.path, {**self.facts, "parts": self.parts})


def has_results(out: Path) -> bool:
    """Whether a study was started in the folder."""
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
    """Open the results in a folder, or new ones, and lock them while the block lasts.

    `free_keys` are settings that may change between starts: no finished part depends on them.
    """
    path = Path(out) / RESULTS_NAME
    facts = {"study": study, "settings": settings.model_dump(mode="json"), "machine": machine}
    require_folder(Path(out))
    busy = f"{out}: another process is measuring there; wait for it, or choose another --out"
    with hold(Path(out) / LOCK_NAME, busy=busy):
        parts: dict[str, Any] = {}
        if path.exists():
            found = read_json(path)
            if (
                not isinstance(found, dict)
                or not isinstance(found.get("parts"), dict)
                or "study" not in found
            ):
                raise FileFormatError(f"{path}: holds no results of a study; choose another --out")
            change = find_change(_list_binding(found, free_keys), _list_binding(facts, free_keys))
            if change is not None:
                raise InputError(f"{path}: {change}; results go on as they began. Choose another --out")
            parts = found["parts"]
        results = StudyResults(path, facts, parts)
        results.write()
        yield results


def _list_binding(facts: dict[str, Any], free_keys: frozenset[str]) -> dict[str, Any]:
    """List what every part depends on."""
    settings = facts.get("settings")
    kept = {key: value for key, value in settings.items() if key not in free_keys} if settings else {}
    return {"study": facts["study"], "machine": facts.get("machine"), **kept}
