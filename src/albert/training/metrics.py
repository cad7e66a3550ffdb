"""The metrics of a run: records in metrics.jsonl and TensorBoard, with the state of the machine."""

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from albert.files import write_text

if TYPE_CHECKING:  # the records are read without torch
    from albert.training.step import StepReport

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

METRICS_NAME = "metrics.jsonl"
TENSORBOARD_DIR = "tensorboard"
STATUS_PATH = Path("/proc/self/status")  # memory of this process
MEMORY_PATH = Path("/proc/meminfo")  # memory of the system


def iter_records(run_dir: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a run in order; skip lines that were cut short or damaged."""
    path = run_dir / METRICS_NAME
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            record = parse_record(line)
            if record is not None:
                yield record


def list_records(run_dir: Path, kind: str) -> list[dict[str, Any]]:
    """List the records of one kind in order."""
    return [record for record in iter_records(run_dir) if record.get("kind") == kind]


def keep_figures(record: Mapping[str, Any]) -> dict[str, float]:
    """Select the losses and accuracies of a record."""
    kept = {name: value for name, value in record.items() if name.endswith(("_loss", "_accuracy"))}
    return {name: value for name, value in kept.items() if value is not None}


def parse_record(line: str) -> dict[str, Any] | None:
    """Parse a line of metrics.jsonl; return None if it is damaged."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("step"), int) else None


class MetricsLog:
    """Appends records to metrics.jsonl and TensorBoard; records after `first_step` are dropped at the start.

    Training is not stopped by a failed write: it is reported once.
    """

    def __init__(
        self, run_dir: Path, *, first_step: int, say: Callable[[str], None], has_tensorboard: bool = True
    ) -> None:
        self._path = run_dir / METRICS_NAME
        self._say = say
        self._has_failed = False
        self._file: Any = None
        self._board: Any = None
        with self._surviving():
            kept = [record for record in iter_records(run_dir) if record["step"] <= first_step]
            write_text(self._path, "".join(json.dumps(record) + "\n" for record in kept))
            self._file = self._path.open("a", encoding="utf-8")
        if has_tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            with self._surviving():
                purge_step = first_step + 1 if first_step else None
                self._board = SummaryWriter(str(run_dir / TENSORBOARD_DIR), purge_step=purge_step)

    def write(self, kind: str, step: int, **values: Any) -> None:
        """Write a record of a kind (train, evaluate, skip, save, start, end)."""
        with self._surviving():
            if self._file is not None:
                self._file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
                self._file.flush()
        if self._board is not None and kind in ("train", "evaluate"):
            with self._surviving():
                for name, value in values.items():
                    if isinstance(value, int | float) and not isinstance(value, bool):
                        self._board.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        for held in (self._file, self._board):
            with self._surviving():
                if held is not None:
                    held.close()

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._has_failed:
                self._say(f"{self._path}: cannot be written ({error.strerror or error}); training goes on")
            self._has_failed = True


class SilentLog:
    """A log for the processes that write none."""

    def write(self, kind: str, step: int, **values: Any) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


@dataclass
class LogWindow:
    """The steps since the last record."""

    reports: "list[StepReport]" = field(default_factory=list)
    num_tokens: int = 0
    waited: float = 0.0
    seconds: float = 0.0

    def add(self, report: "StepReport", *, num_tokens: int, waited: float, seconds: float) -> None:
        """Add a step that took `seconds`, of which it `waited` for its batches."""
        self.reports.append(report)
        self.num_tokens += num_tokens
        self.waited += waited
        self.seconds += seconds

    def clear(self) -> None:
        self.reports.clear()
        self.num_tokens, self.waited, self.seconds = 0, 0.0, 0.0

    def summarise(self) -> dict[str, float | None]:
        """Average losses and accuracies; add up the times; measure the state of the machine."""
        figures: dict[str, float | None] = {}
        for name in self._list_names():
            figures[f"{name}_loss"] = self._mean([report.losses.get(name) for report in self.reports])
            figures[f"{name}_accuracy"] = self._mean([report.accuracies.get(name) for report in self.reports])
        return {
            **figures,
            "loss": self._mean([report.loss for report in self.reports if report.losses]),
            "grad_norm": self._mean([report.grad_norm for report in self.reports]),
            "learning_rate": self.reports[-1].learning_rate,
            "tokens_per_second": round(self.num_tokens / max(self.seconds, 1e-9), 1),
            "seconds": round(self.seconds, 4),
            "waited_seconds": round(self.waited, 4),
            "model_seconds": round(sum(report.model_seconds for report in self.reports), 4),
            "optimizer_seconds": round(sum(report.optimizer_seconds for report in self.reports), 4),
            **measure_health(),
        }

    def format(self, figures: dict[str, float | None]) -> str:
        """Format losses, accuracies and speed as one line."""
        parts = []
        for name in self._list_names():
            loss, accuracy = figures[f"{name}_loss"], figures[f"{name}_accuracy"]
            if loss is not None and accuracy is not None:
                parts.append(f"{name} {loss:.3f} ({accuracy:.1%})")
        parts.append(f"{self.num_tokens / max(self.seconds, 1e-9):,.0f} pieces/s")
        return ", ".join(parts)

    def _list_names(self) -> list[str]:
        return list(dict.fromkeys(name for report in self.reports for name in report.losses))

    def _mean(self, values: list[float | None]) -> float | None:
        found = [value for value in values if value is not None and math.isfinite(value)]
        return round(sum(found) / len(found), 6) if found else None


def count_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def measure_health() -> dict[str, float]:
    """Measure peak and swapped memory in megabytes, major page faults, and the system's load."""
    found: dict[str, float] = {}
    told = read_amounts(STATUS_PATH)
    if resource is not None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        found["major_faults"] = usage.ru_majflt
        # The peak of getrusage may be that of the parent process.
        own = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        found["peak_mb"] = round(told.get("VmHWM", own) / 1024**2, 1)
    if hasattr(os, "getloadavg"):
        found["load"] = round(os.getloadavg()[0], 2)
    if "VmSwap" in told:
        found["swap_mb"] = round(told["VmSwap"] / 1024**2, 1)
    return found


def read_amounts(path: Path) -> dict[str, int]:
    """Read the `Name: N kB` lines of a file of Linux, in bytes; return nothing where it does not exist."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    rows = [line.split() for line in lines if line.endswith(" kB")]
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == 3 and row[1].isdecimal()}
