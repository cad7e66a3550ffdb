"""Load a training run, finished, killed or still active, with everything the checks look at."""

import math
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from albert.errors import InputError
from albert.files import is_held, read_json
from albert.report.content import Chart, Level, Series
from albert.tasks.finetune_settings import FinetuneSettings
from albert.training.run_folder import (
    LOCK_NAME,
    RUN_NAME,
    SETTINGS_NAME,
    PretrainMetadata,
    RunMetadata,
    has_run,
    iter_records,
    read_pretrain_run,
)
from albert.training.settings import LoopSettings, PretrainSettings

if TYPE_CHECKING:  # imports torch
    from albert.tasks.finetune_settings import FinetuneMetadata

Record = dict[str, Any]
Value = float | int | str
Kind = Literal["damaged", "stuck", "slow", "machine", "healthy"]
Severity = Literal["serious", "warning", "note", "fine"]
KINDS, SEVERITIES = get_args(Kind), get_args(Severity)
MIN_RECORDS = 8  # needed to estimate a trend


@dataclass(frozen=True)
class Finding:
    """One result of a check: what was found, the values that show it, and what to do about it."""

    kind: Kind
    severity: Severity
    title: str
    figures: Mapping[str, Value] = field(default_factory=dict)
    hint: str = ""


@dataclass(frozen=True)
class Curve:
    """The values of one metric at the steps where it was recorded."""

    steps: NDArray[np.float64]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.steps)

    def between(self, first: float, last: float) -> "Curve":
        """Keep the values after step `first` and up to step `last`."""
        chosen = (self.steps > first) & (self.steps <= last)
        return Curve(self.steps[chosen], self.values[chosen])


class Trend(NamedTuple):
    """A least-squares line: mean value, slope per step, standard error of the slope, number of steps."""

    mean: float
    slope: float
    error: float
    span: float

    @property
    def noise(self) -> float:
        """Relative change that is two standard errors."""
        return 2 * self.error * self.span / max(abs(self.mean), 1e-9)

    @property
    def direction(self) -> int:
        """1 if it rises by more than the noise and 2%, -1 if it falls by more than the noise and 1%."""
        change = self.slope * self.span / max(abs(self.mean), 1e-9)
        return int(change > max(0.02, self.noise)) - int(-change > max(0.01, self.noise))


def read_curve(records: Iterable[Record], key: str) -> Curve:
    """Collect a metric; records without a finite value are skipped."""
    found = [
        (record["step"], record[key])
        for record in records
        if isinstance(record.get(key), int | float) and math.isfinite(record[key])
    ]
    table = np.array(found, dtype=np.float64).reshape(-1, 2)
    return Curve(table[:, 0], table[:, 1])


@dataclass(frozen=True)
class Run:
    """A training run; `stage_step` is the first step of the current curriculum stage.

    `arguments` are those of the command that started it, without --out.
    """

    path: Path
    settings: LoopSettings
    facts: RunMetadata
    records: tuple[Record, ...]
    is_active: bool
    step: int
    num_steps: int
    stage_step: int
    arguments: tuple[str, ...]

    @property
    def is_finished(self) -> bool:
        """Whether the last step was reached."""
        return any(record.get("is_finished") is True for record in self.list_records("end"))

    @property
    def is_stopped(self) -> bool:
        """Whether the run ended because too many steps in a row were skipped."""
        steps = {record["step"] for record in self.list_records("skip")}
        last = range(self.step - self.settings.guard.max_skipped + 1, self.step + 1)
        return not self.is_finished and steps.issuperset(last)

    @property
    def num_warmup(self) -> int:
        """Number of warm-up steps."""
        return self.settings.schedule.count_warmup(self.num_steps)

    @property
    def last_start(self) -> Record:
        """The record of the last start: threads, cores, processes."""
        return (self.list_records("start") or [{}])[-1]

    @property
    def recent(self) -> list[Record]:
        """The last quarter of the training records, without the first of each start: it has start-up time."""
        found: list[Record] = []
        is_first = True
        for record in self.records:
            is_first = is_first or record.get("kind") == "start"
            if record.get("kind") == "train":
                found += [] if is_first else [record]
                is_first = False
        return _take_last_quarter(found)

    def list_records(self, kind: str) -> list[Record]:
        """Return the records of one kind: train, evaluate, skip, save, start or end."""
        return [record for record in self.records if record.get("kind") == kind]

    def train_curve(self, key: str) -> Curve:
        """Return a metric of the training set."""
        return read_curve(self.list_records("train"), key)

    def held_out_curve(self, key: str) -> Curve:
        """Return a metric of the dev set or the held-out text."""
        return read_curve(self.list_records("evaluate"), key)

    def fit_trend(self, key: str, *, start: int) -> Trend | None:
        """Fit a line to the last quarter of a training metric after a step; None if it is too short."""
        records = [record for record in self.list_records("train") if record["step"] > start]
        curve = read_curve(_take_last_quarter(records), key)
        if len(curve) < MIN_RECORDS:
            return None
        line, covariance = np.polyfit(curve.steps - curve.steps.mean(), curve.values, 1, cov=True)
        span = float(curve.steps[-1] - curve.steps[0])
        return Trend(float(curve.values.mean()), float(line[0]), math.sqrt(covariance[0, 0]), span)

    def format_resume(self, *overrides: str) -> str:
        """Return the command that resumes this run with as many processes."""
        number = self.last_start.get("processes", 1)
        launcher = ["albert"] if number == 1 else ["torchrun", f"--nproc-per-node={number}", "-m", "albert"]
        return shlex.join([*launcher, *self.arguments, *overrides, "--out", str(self.path), "--resume"])

    def format_new(self, *overrides: str) -> str:
        """Return a command that starts a new run with changed settings."""
        return shlex.join(["albert", *self.arguments, *overrides, "--out", f"{self.path}-2"])


@dataclass(frozen=True)
class PretrainRun(Run):
    """A run of `albert pretrain`."""

    settings: PretrainSettings
    facts: PretrainMetadata

    @property
    def num_epochs(self) -> float:
        """How many times the corpus was seen."""
        num_tokens = max((record.get("tokens", 0) for record in self.list_records("train")), default=0)
        return float(num_tokens / max(1, self.facts.num_pieces))


@dataclass(frozen=True)
class FinetuneRun(Run):
    """A run of `albert finetune`."""

    settings: FinetuneSettings
    facts: "FinetuneMetadata"


AnyRun = PretrainRun | FinetuneRun


def load_run(path: Path) -> AnyRun:
    """Load a run folder.

    Raises:
        InputError: If the folder does not exist or holds no run.
    """
    hint = "give the --out of `albert pretrain` or `albert finetune`"
    if not path.is_dir():
        raise InputError(f"{path}: no such folder; {hint}")
    if not has_run(path):
        seeds = sorted(path.glob(f"seed-*/{RUN_NAME}"))
        hint = f"give one of its seeds, such as {seeds[0].parent}" if seeds else hint
        raise InputError(f"{path}: no {RUN_NAME}, so it is not a run folder; {hint}")
    is_active = is_held(path / LOCK_NAME)
    records = tuple(iter_records(path))
    step = max((record["step"] for record in records), default=0)
    values, recipe = read_json(path / RUN_NAME), str(path / SETTINGS_NAME)
    if isinstance(values, dict) and values.get("job") == "finetune":
        from albert.tasks.finetune_settings import read_finetune_run

        tuning, task = read_finetune_run(path)
        dev = () if task.dev is None else ("--dev", task.dev)
        words = ("finetune", task.task.task, "--model", task.model, "--data", task.data, *dev)
        num_steps = tuning.num_steps or task.num_steps or max(1, step)
        arguments = (*words, "--recipe", recipe)
        return FinetuneRun(path, tuning, task, records, is_active, step, num_steps, 0, arguments)
    settings, facts = read_pretrain_run(path)
    shapes = settings.build_curriculum(settings.model).list_shapes() if settings.model else ()
    stage_step = max((steps.start for _, steps in shapes if steps.start <= step), default=0)
    arguments = ("pretrain", recipe, "--data", facts.data)
    return PretrainRun(
        path, settings, facts, records, is_active, step, settings.num_steps, stage_step, arguments
    )


def build_charts(run: AnyRun) -> list[Chart]:
    """Return the charts of a run: losses and scores, learning rate and speed; none without records."""
    if not run.list_records("train"):
        return []
    train, held_out = {"train": run.train_curve}, {"held out": run.held_out_curve}
    if isinstance(run, PretrainRun):
        pair, both = run.settings.examples.pair_objective, train | held_out
        unigram = Level(run.facts.unigram_loss, f"unigram loss {run.facts.unigram_loss:.2f}")
        parts = [("mlm_loss", "MLM loss", both, [unigram])]
        if pair is not None:
            parts.append((f"{pair}_accuracy", f"{pair.upper()} accuracy", both, [Level(0.5, "chance")]))
    else:
        guess = [] if run.facts.guess is None else [Level(run.facts.guess, "constant prediction")]
        parts = [("loss", "loss", train, []), ("score", "dev score", held_out, guess)]
    parts.append(("learning_rate", f"learning rate of {run.settings.optimizer.name}", train, []))
    parts.append(("tokens_per_second", "tokens per second", train, []))
    title = f"{run.path.resolve().name}, step {run.step:,} of {run.num_steps:,}"
    charts: list[Chart] = []
    for key, label, curves, levels in parts:
        found = {name: get_curve(key) for name, get_curve in curves.items()}
        series = [
            Series(name, list(each.steps), list(each.values)) for name, each in found.items() if len(each)
        ]
        charts.append(Chart(key, title if not charts else "", "step", label, series, levels=levels))
    return charts


def _take_last_quarter(records: list[Record]) -> list[Record]:
    return records[-max(MIN_RECORDS, len(records) // 4) :]
