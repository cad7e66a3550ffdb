"""What any run has told of itself, whether finished, killed or still at work: all that it is judged by."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from albert.app.doctor.curves import Curve, read_curve
from albert.app.doctor.findings import Figure
from albert.training.metrics import parse_record
from albert.training.run_folder import RunFacts
from albert.training.settings import LoopSettings

Record = dict[str, Any]
MIN_RECORDS = 8  # fewer say nothing about a direction


@dataclass(frozen=True)
class Run(ABC):
    """A run as it stands: how it began, its records in order, and whether a process is at work on it.

    `cut_lines` are the numbers of the lines of its records that cannot be read.
    """

    path: Path
    settings: LoopSettings
    facts: RunFacts
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
    def launcher(self) -> list[str]:
        """The first words of the command that goes on with it exactly: with as many processes."""
        starts = self.list_records("start")
        number = starts[-1].get("processes", 1) if starts else 1
        return ["albert"] if number == 1 else ["torchrun", f"--nproc-per-node={number}", "-m", "albert"]

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
        return self.settings.schedule.count_warmup(self.num_steps)

    @property
    @abstractmethod
    def num_steps(self) -> int:
        """All of them."""

    @abstractmethod
    def format_resume(self, *overrides: str) -> str:
        """The command that goes on with this run."""

    @abstractmethod
    def list_figures(self) -> dict[str, Figure]:
        """What it has learned so far; nothing, where nothing is recorded."""

    @property
    def num_tokens(self) -> int:
        """Pieces seen, as often as they were."""
        return max((record.get("tokens", 0) for record in self.trains), default=0)

    @cached_property
    def stages(self) -> list[tuple[int, str]]:
        """The first step of each stage so far, and what it looks like; where all steps are alike, none."""
        return []

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


def take_last_quarter(records: list[Record]) -> list[Record]:
    """The last quarter of some records, but no fewer than can be judged by where there are as many."""
    return records[-max(MIN_RECORDS, len(records) // 4) :]


def find_cut_lines(path: Path, *, is_growing: bool) -> tuple[int, ...]:
    """The lines that are no records; the end of a growing file may be a line that is being written."""
    if not path.exists():
        return ()
    found = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if is_growing and not line.endswith("\n"):
                continue
            if parse_record(line) is None:
                found.append(number)
    return tuple(found)
