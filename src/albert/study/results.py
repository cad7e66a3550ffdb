"""Helpers of studies that measure: results.json, table cells and short names of models.

Each finished part is stored, so that a stopped study resumes; a failed part is tried again. Results of other
settings or of another machine are rejected.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
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
RECIPES_DIR = Path(__file__).parents[1] / "recipes" / "study"
LOCK_NAME = ".results.lock"
MISSING = Cell("")
T = TypeVar("T")


@dataclass(frozen=True)
class StudyResults:
    """The parts measured so far, and their common `header`."""

    path: Path
    header: dict[str, Any]
    parts: dict[str, dict[str, Any]]

    def get_or_measure(self, name: str, result_type: type[T], measure: Callable[[], T], stamp: str = "") -> T:
        """Return a part; measure it if it is missing, or if the `stamp` of its input files has changed."""
        if name in self.parts and self.parts[name].get("stamp") == stamp:
            return TypeAdapter(result_type).validate_python(self.parts[name].get("found"))
        result = measure()
        self.parts[name] = {"stamp": stamp, "found": asdict(result)}  # type: ignore[call-overload]
        self.write()
        return result

    def write(self) -> None:
        write_json(self.path, {**self.header, "parts": self.parts})


@contextmanager
def open_results(
    out: Path, *, study: str, settings: Settings, free_keys: Collection[str] = (), machine: str | None = None
) -> Iterator[StudyResults]:
    """Open and lock the results of a folder; the settings `free_keys` may change between starts."""
    path = out / RESULTS_NAME
    header = {"study": study, "settings": settings.model_dump(mode="json"), "machine": machine}
    require_folder(out)
    busy = f"{out}: another process is measuring there; wait for it, or choose another --out"
    with hold(out / LOCK_NAME, busy=busy):
        parts: dict[str, Any] = {}
        if path.exists():
            found = read_json(path)
            if not isinstance(found, dict) or not {"study", "parts"} <= found.keys():
                raise FileFormatError(f"{path}: has no results of a study; choose another --out")
            change = find_change(_list_dependencies(found, free_keys), _list_dependencies(header, free_keys))
            if change is not None:
                raise InputError(f"{path}: {change}; undo the change, or choose another --out")
            parts = found["parts"]
        results = StudyResults(path, header, parts)
        results.write()
        yield results


def _list_dependencies(header: dict[str, Any], free_keys: Collection[str]) -> dict[str, Any]:
    settings = {key: value for key, value in header["settings"].items() if key not in free_keys}
    return {"study": header["study"], "machine": header["machine"], **settings}


def reject_other_files(study_dir: Path) -> None:
    """Raise an InputError if a folder has files of something else; hidden files such as a lock may remain."""
    others = [name for name in require_folder(study_dir) if not name.startswith(".")]
    reject_foreign(study_dir, others, what="study")


def name_models(sources: Sequence[str]) -> list[str]:
    """Shorten folders, runs and hub names: `runs/a/model` and `runs/b/model` to `a` and `b`."""
    rows = []
    for source in sources:
        parts = [part for part in PurePath(source).parts if part not in ("/", ".")]
        # The model folder has the same name in every run.
        rows.append(parts[:-1] if len(parts) > 1 and parts[-1] == MODEL_DIR else parts or [source])
    while len(rows) > 1 and min(map(len, rows)) > 1 and len({parts[-1] for parts in rows}) == 1:
        rows = [parts[:-1] for parts in rows]
    for size in range(1, 1 + max(map(len, rows), default=0)):
        names = ["/".join(parts[-size:]) for parts in rows]
        if len(set(names)) == len(names):
            return names
    return list(sources)


Row = Mapping[Column, Cell]


def build_table(name: str, rows: Sequence[Row], *, strong_rows: Sequence[int] = (), note: str = "") -> Table:
    """Build a table of rows with the same columns in the same order."""
    columns = list(rows[0]) if rows else []
    return Table(name, columns, [list(row.values()) for row in rows], strong_rows, note)


def number_cell(value: float | None) -> Cell:
    """Build a cell with three significant digits."""
    return MISSING if value is None else Cell(format_number(value), value)


def interval_cell(interval: Interval | None, *, suffix: str = "") -> Cell:
    """Build a cell of a number with its interval."""
    if interval is None:
        return MISSING
    return Cell(format_interval(interval, suffix=suffix), interval.value, interval.low, interval.high)


def seconds_cell(seconds: float) -> Cell:
    """Build a cell of a time."""
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
