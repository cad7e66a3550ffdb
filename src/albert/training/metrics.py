"""What a run tells of itself: records come in; lines of metrics.jsonl and TensorBoard scalars go out."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from albert.files import write_text

METRICS_NAME = "metrics.jsonl"
TENSORBOARD_DIR = "tensorboard"


def iter_records(run_dir: Path) -> Iterator[dict[str, Any]]:
    """The records of a run in order; a line that was cut short or damaged is left out."""
    path = run_dir / METRICS_NAME
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            record = parse_record(line)
            if record is not None:
                yield record


def list_records(run_dir: Path, kind: str) -> list[dict[str, Any]]:
    """The records of one kind, in order."""
    return [record for record in iter_records(run_dir) if record.get("kind") == kind]


def keep_figures(record: Mapping[str, Any]) -> dict[str, float]:
    """Of a record only what was learned: losses and accuracies, without those that are no number."""
    kept = {name: value for name, value in record.items() if name.endswith(("_loss", "_accuracy"))}
    return {name: value for name, value in kept.items() if value is not None}


def parse_record(line: str) -> dict[str, Any] | None:
    """The record of a line; None where it is none, as when it was cut or damaged."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("step"), int) else None


class MetricsLog:
    """Appends to a run's records; opened at `first_step`, it drops what lies after it: it comes again.

    Records are worth less than the run: where they cannot be written, that is said once, and it goes on.
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
            with self._surviving():
                self._board = _open_board(run_dir / TENSORBOARD_DIR, first_step)

    def write(self, kind: str, step: int, **values: Any) -> None:
        """One record of a kind (train, evaluate, skip, save, start, end), with its figures."""
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
        """Write out what is still held."""
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
    """The records of a process that keeps none."""

    def write(self, kind: str, step: int, **values: Any) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def _open_board(folder: Path, first_step: int) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=first_step + 1 if first_step else None)
