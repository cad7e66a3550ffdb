"""What the measuring studies share: results.json, part by part; table cells; and short names of models.

A finished part is never measured again: a study that was killed resumes. A part whose measurement fails is
not stored, so that the next start tries it again. Results of other settings or another machine are rejected.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path, PurePath
from typing import Any, TypeVar

from pydantic import TypeAdapter

from albert.errors import FileFormatError, InputError
from albert.files import hold, read_json, reject_foreign, require_folder, write_json
from albert.report.content import Cell, Column, Table
from albert.settings import Settings, find_change
from albert.tasks.metrics.intervals import Interval
from albert.training.run_folder import MODEL_DIR

RESULTS_NAME = "results.json"
LOCK_NAME = ".results.lock"
MISSING = Cell("")
T = TypeVar("T")


@dataclass(frozen=True)
class StudyResults:
    """The parts so far; `header` is what every part was measured with."""

    path: Path
    header: dict[str, Any]
    parts: dict[str, dict[str, Any]]

    def get_or_measure(self, name: str, result_type: type[T], measure: Callable[[], T], stamp: str = "") -> T:
        """Return a part; measure and store it if it is missing or was measured with another `stamp`.

        A stamp identifies what a part depends on beside the settings, such as the content of a file.
        """
        if name in self.parts and self.parts[name].get("stamp") == stamp:
            return TypeAdapter(result_type).validate_python(self.parts[name].get("found"))
        found = measure()
        assert is_dataclass(found)
        assert not isinstance(found, type)
        self.parts[name] = {"stamp": stamp, "found": asdict(found)}
        self.write()
        return found

    def write(self) -> None:
        write_json(self.path, {**self.header, "parts": self.parts})


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
    path = out / RESULTS_NAME
    header = {"study": study, "settings": settings.model_dump(mode="json"), "machine": machine}
    require_folder(out)
    busy = f"{out}: another process is measuring there; wait for it, or choose another --out"
    with hold(out / LOCK_NAME, busy=busy):
        parts: dict[str, Any] = {}
        if path.exists():
            found = read_json(path)
            if not isinstance(found, dict) or not {"study", "parts"} <= found.keys():
                raise FileFormatError(f"{path}: holds no results of a study; choose another --out")
            change = find_change(_list_dependencies(found, free_keys), _list_dependencies(header, free_keys))
            if change is not None:
                raise InputError(f"{path}: {change}; results cannot be mixed. Choose another --out")
            parts = found["parts"]
        results = StudyResults(path, header, parts)
        results.write()
        yield results


def _list_dependencies(header: dict[str, Any], free_keys: frozenset[str]) -> dict[str, Any]:
    settings = {key: value for key, value in header["settings"].items() if key not in free_keys}
    return {"study": header["study"], "machine": header["machine"], **settings}


def reject_other_files(study_dir: Path) -> None:
    """Reject a folder with files that are not a study's; a rejected study may have left its lock."""
    others = [name for name in require_folder(study_dir) if not name.startswith(".")]
    reject_foreign(study_dir, others, what="study")


def name_models(sources: Sequence[str]) -> list[str]:
    """Shorten folders, runs and hub names as far as they still differ.

    `runs/a/model` and `runs/b/model` are `a` and `b`, whatever is above and below.
    """
    rows = []
    for source in sources:
        words = [word for word in PurePath(source).parts if word not in ("/", ".")]
        # Every run has its model in a folder of the same name.
        rows.append(words[:-1] if len(words) > 1 and words[-1] == MODEL_DIR else words or [source])
    while len(rows) > 1 and min(map(len, rows)) > 1 and len({words[-1] for words in rows}) == 1:
        rows = [words[:-1] for words in rows]
    for size in range(1, 1 + max(map(len, rows), default=0)):
        names = ["/".join(words[-size:]) for words in rows]
        if len(set(names)) == len(names):
            return names
    return list(sources)


def build_table(name: str, rows: Sequence[Mapping[Column, Cell]], *, note: str = "") -> Table:
    """Build a table of rows that have the same columns in the same order."""
    return Table(name, list(rows[0]) if rows else [], [list(row.values()) for row in rows], note=note)


def number_cell(value: float | None) -> Cell:
    """Return a cell with three significant digits, or a missing figure."""
    return MISSING if value is None else Cell(format_number(value), value)


def interval_cell(interval: Interval | None, *, suffix: str = "") -> Cell:
    """Return a cell with a number and its interval, or a missing figure."""
    if interval is None:
        return MISSING
    text = format_interval(interval, suffix=suffix)
    return Cell(text, interval.value, interval.low, interval.high)


def size_cell(num_bytes: float) -> Cell:
    """Return a cell with a size; its value is in bytes."""
    return Cell(format_bytes(num_bytes), float(num_bytes))


def seconds_cell(seconds: float) -> Cell:
    """Return a cell with a time; its value is in seconds."""
    return Cell(format_time(seconds), seconds)


def format_interval(interval: Interval, *, suffix: str = "") -> str:
    """Format an interval as `1.23 (1.10–1.40)`."""
    value, low, high = map(format_number, (interval.value, interval.low, interval.high))
    return f"{value}{suffix} ({low}–{high})"


def format_number(value: float) -> str:
    """Format a number with three significant digits."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{value:#.3g}".rstrip(".")


def format_bytes(number: float) -> str:
    """Format 1234567 as `1.23 MB`."""
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(number) >= size:
            return f"{format_number(number / size)} {unit}"
    return f"{number:.0f} B"


def format_time(seconds: float) -> str:
    """Format 0.0123 as `12.3 ms`."""
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{format_number(seconds / size)} {unit}"
    return f"{format_number(seconds / 1e-6)} µs"
