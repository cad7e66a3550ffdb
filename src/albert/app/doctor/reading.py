"""A run folder comes in, whether finished, killed or still at work; all that is judged by goes out."""

import json
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from albert.app.doctor.curves import Curve, read_curve
from albert.errors import InputError
from albert.training.metrics import METRICS_NAME, iter_records
from albert.training.pretrain_facts import PretrainFacts, read_pretrain_run
from albert.training.run_folder import LOCK_NAME, SETTINGS_NAME, has_run
from albert.training.settings import PretrainSettings

try:
    import fcntl
except ImportError:  # no such locks on Windows
    fcntl = None  # type: ignore[assignment]

Record = dict[str, Any]
MIN_RECORDS = 8  # fewer say nothing about a direction


@dataclass(frozen=True)
class Run:
    """A run as it stands: how it began, its records in order, and whether a process is at work on it.

    `cut_lines` are the numbers of the lines of its records that cannot be read.
    """

    path: Path
    settings: PretrainSettings
    facts: PretrainFacts
    records: tuple[Record, ...]
    cut_lines: tuple[int, ...]
    is_held: bool

    def list_records(self, kind: str) -> list[Record]:
        """The records of one kind."""
        return [record for record in self.records if record.get("kind") == kind]

    @cached_property
    def trains(self) -> list[Record]:
        """The means of some steps in a row, again and again."""
        return self.list_records("train")

    @cached_property
    def settled(self) -> list[Record]:
        """Those without the first after each start: in it, workers start and kernels are compiled."""
        found, is_first = [], False
        for record in self.records:
            is_first = is_first or record.get("kind") == "start"
            if record.get("kind") == "train":
                if not is_first:
                    found.append(record)
                is_first = False
        return found

    @property
    def recent(self) -> list[Record]:
        """The last quarter of the settled records, and not too few."""
        return take_last_quarter(self.settled)

    @cached_property
    def evaluations(self) -> list[Record]:
        """What held-out text said."""
        return self.list_records("evaluate")

    @property
    def step(self) -> int:
        """The last step that is known of."""
        return max((record["step"] for record in self.records), default=0)

    @property
    def is_finished(self) -> bool:
        """Whether its last step was taken."""
        return any(record.get("is_finished") is True for record in self.list_records("end"))

    @property
    def is_stopped_by_guard(self) -> bool:
        """Whether it ended because too many steps in a row were left out."""
        steps = {record["step"] for record in self.list_records("skip")}
        limit = self.settings.guard.max_skipped
        return not self.is_finished and steps.issuperset(range(self.step - limit + 1, self.step + 1))

    @property
    def num_warmup(self) -> int:
        """Steps of warm-up."""
        return self.settings.schedule.count_warmup(self.settings.num_steps)

    @property
    def pair_objective(self) -> str | None:
        """`sop` or `nsp`, where the run has a sentence objective."""
        objective = self.settings.examples.objective
        return None if objective == "none" else objective

    @property
    def num_tokens(self) -> int:
        """Pieces seen, as often as they were."""
        return max((record.get("tokens", 0) for record in self.trains), default=0)

    @property
    def num_epochs(self) -> float:
        """How often the corpus was seen."""
        return self.num_tokens / max(1, self.facts.num_pieces)

    @cached_property
    def stages(self) -> list[tuple[int, str]]:
        """The first step of each stage so far, and what it looks like."""
        model = self.settings.model
        if model is None:
            return []
        found, step = [], 0
        for shape, num_steps in self.settings.build_curriculum(model).list_shapes():
            if step <= self.step:
                found.append((step, f"depth {shape.depth}, length {shape.length}"))
            step += num_steps
        return found

    @property
    def stage_step(self) -> int:
        """The first step of the present stage: what lies before it is not alike."""
        return self.stages[-1][0] if self.stages else 0

    def train_curve(self, key: str) -> Curve:
        """A figure of training over the steps."""
        return read_curve(self.trains, key)

    def held_out_curve(self, key: str) -> Curve:
        """A figure of held-out text over the steps."""
        return read_curve(self.evaluations, key)

    def format_resume(self, *overrides: str) -> str:
        """The command that goes on with this run."""
        words = ["albert", "pretrain", str(self.path / SETTINGS_NAME), *overrides]
        return shlex.join([*words, "--data", self.facts.data, "--out", str(self.path), "--resume"])


def open_run(path: Path) -> Run:
    """Read a run folder; refused: what is none, and one whose settings cannot be read."""
    if not path.is_dir():
        raise InputError(f"{path}: no such folder; give the --out of `albert pretrain`")
    if not has_run(path):
        raise InputError(
            f"{path}: no run.json, so no run was begun there; give the --out of `albert pretrain`"
        )
    settings, facts = read_pretrain_run(path)
    is_busy = is_held(path / LOCK_NAME)
    return Run(
        path=path,
        settings=settings,
        facts=facts,
        records=tuple(iter_records(path)),
        cut_lines=_find_cut_lines(path / METRICS_NAME, is_growing=is_busy),
        is_held=is_busy,
    )


def take_last_quarter(records: list[Record]) -> list[Record]:
    """The last quarter of some records, but no fewer than can be judged by where there are as many."""
    return records[-max(MIN_RECORDS, len(records) // 4) :]


def is_held(path: Path) -> bool:
    """Whether a process keeps others out by a lock on this file; read only, so that nothing is changed."""
    if fcntl is None or not path.exists():
        return False
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # not ours to open
        return False
    return False


def _find_cut_lines(path: Path, *, is_growing: bool) -> tuple[int, ...]:
    """The lines that are no records; the end of a growing file may be a line that is being written."""
    if not path.exists():
        return ()
    found = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if is_growing and not line.endswith("\n"):
                continue
            try:
                is_whole = isinstance(json.loads(line), dict)
            except json.JSONDecodeError:
                is_whole = False
            if not is_whole:
                found.append(number)
    return tuple(found)
