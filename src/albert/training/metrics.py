"""What a run tells of itself: records come in; lines of metrics.jsonl and TensorBoard scalars go out."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from albert.files import write_text

METRICS_NAME = "metrics.jsonl"
TENSORBOARD_DIR = "tensorboard"


def iter_records(run_dir: Path) -> Iterator[dict[str, Any]]:
    """The records of a run in order; a last line that a crash cut short is left out."""
    path = run_dir / METRICS_NAME
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(record, dict) and isinstance(record.get("step"), int):
                yield record


class MetricsLog:
    """Appends to a run's records; opened at `first_step`, it drops what lies after it: it comes again."""

    def __init__(self, run_dir: Path, *, first_step: int, has_tensorboard: bool = True) -> None:
        path = run_dir / METRICS_NAME
        kept = [record for record in iter_records(run_dir) if record["step"] <= first_step]
        write_text(path, "".join(json.dumps(record) + "\n" for record in kept))
        self._file = path.open("a", encoding="utf-8")
        self._board: Any = None
        if has_tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(
                str(run_dir / TENSORBOARD_DIR), purge_step=first_step + 1 if first_step else None
            )

    def write(self, kind: str, step: int, **values: Any) -> None:
        """One record of a kind (train, evaluate, skip, save, start, end), with its figures."""
        self._file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        self._file.flush()
        if self._board is not None and kind in ("train", "evaluate"):
            for name, value in values.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    self._board.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        """Write out what is still held."""
        self._file.close()
        if self._board is not None:
            self._board.close()
