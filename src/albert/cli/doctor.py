"""Diagnose a training run from what it has recorded, or the machine.

A run may be finished, killed or still active; nothing of it is changed. A check is a function from a run to
its findings. The thresholds are rules of thumb for small models on few cores; docs/doctor.md lists them.
"""

import math
import os
import platform
import shlex
import shutil
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

import albert
from albert.errors import AlbertError, InputError
from albert.files import is_held, read_json
from albert.pretrained.huggingface import CONFIG_NAME
from albert.report.content import Chart, Level, Series
from albert.tasks.finetune_settings import FinetuneSettings
from albert.training.run_folder import (
    BEST_DIR,
    CHECKPOINTS_DIR,
    LOCK_NAME,
    MEMORY_PATH,
    MODEL_DIR,
    RUN_NAME,
    PretrainMetadata,
    RunMetadata,
    count_cores,
    has_run,
    iter_records,
    read_amounts,
    read_pretrain_run,
)
from albert.training.settings import LoopSettings, PretrainSettings

if TYPE_CHECKING:  # imports torch
    from albert.tasks.finetune import FinetuneMetadata

Record = dict[str, Any]
Value = float | int | str
Kind = Literal["damaged", "stuck", "slow", "machine", "healthy"]
Severity = Literal["serious", "warning", "note", "fine"]
KINDS, SEVERITIES = get_args(Kind), get_args(Severity)
MIN_RECORDS = 8  # needed to estimate a trend
PLATEAU = 0.97  # times the unigram loss; a model above it has learned token frequencies only


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
class Trend:
    """A line through a metric: its mean, its relative change, and two standard errors of that change."""

    mean: float
    change: float
    noise: float

    @property
    def direction(self) -> int:
        """1 if it rises by more than the noise and 2%, -1 if it falls by more than the noise and 1%."""
        return int(self.change > max(0.02, self.noise)) - int(-self.change > max(0.01, self.noise))


@dataclass(frozen=True)
class Run:
    """A training run; `stage_step` is the first step of the current curriculum stage.

    `arguments` are those of the command that started it, without --out.
    """

    path: Path
    settings: LoopSettings
    metadata: RunMetadata
    records: tuple[Record, ...]
    is_active: bool
    step: int
    num_steps: int
    stage_step: int
    arguments: tuple[str, ...]

    @property
    def is_finished(self) -> bool:
        return any(record.get("is_finished") is True for record in self.list_records("end"))

    @property
    def is_stopped(self) -> bool:
        """Whether the run ended because too many steps in a row were skipped."""
        steps = {record["step"] for record in self.list_records("skip")}
        last = range(self.step - self.settings.guard.max_skipped + 1, self.step + 1)
        return not self.is_finished and steps.issuperset(last)

    @property
    def num_warmup(self) -> int:
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
        return read_curve(self.list_records("train"), key)

    def held_out_curve(self, key: str) -> Curve:
        return read_curve(self.list_records("evaluate"), key)

    def measure_share(self, part: str) -> float:
        """Return the share of the recent time spent on the model, the optimizer or (waited) on data."""
        total = sum(record.get("seconds") or 0.0 for record in self.recent)
        return float(sum(record.get(f"{part}_seconds") or 0.0 for record in self.recent) / max(total, 1e-9))

    def fit_trend(self, key: str, *, start: int) -> Trend | None:
        """Fit a line to the last quarter of a training metric after a step; None if it is too short."""
        records = [record for record in self.list_records("train") if record["step"] > start]
        curve = read_curve(_take_last_quarter(records), key)
        if len(curve) < MIN_RECORDS:
            return None
        line, covariance = np.polyfit(curve.steps - curve.steps.mean(), curve.values, 1, cov=True)
        mean = float(curve.values.mean())
        scale = float(curve.steps[-1] - curve.steps[0]) / max(abs(mean), 1e-9)
        return Trend(mean, float(line[0]) * scale, 2 * math.sqrt(covariance[0, 0]) * scale)

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
    metadata: PretrainMetadata

    @property
    def num_epochs(self) -> float:
        """How many times the corpus was seen."""
        num_tokens = max((record.get("tokens", 0) for record in self.list_records("train")), default=0)
        return float(num_tokens / max(1, self.metadata.num_pieces))

    @property
    def mlm_losses(self) -> dict[str, float]:
        """The latest MLM losses, as far as there are any."""
        held_out, train = self.held_out_curve("mlm_loss").values, self.train_curve("mlm_loss").values
        found = {"held_out_mlm_loss": float(held_out[-1])} if len(held_out) else {}
        return {**found, "train_mlm_loss": float(train[-5:].mean())} if len(train) else found


@dataclass(frozen=True)
class FinetuneRun(Run):
    """A run of `albert finetune`."""

    settings: FinetuneSettings
    metadata: "FinetuneMetadata"


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
    recipe = str(path / "settings.yaml")
    if read_json(path / RUN_NAME).get("job") == "finetune":
        from albert.tasks.finetune import read_finetune_run

        tuning, task = read_finetune_run(path)
        dev = () if task.dev is None else ("--dev", task.dev)
        inputs = ("--model", task.model, "--data", task.data, *dev)
        arguments = ("finetune", task.task.task, *inputs, "--recipe", recipe)
        num_steps = tuning.num_steps or task.num_steps or max(1, step)
        return FinetuneRun(path, tuning, task, records, is_active, step, num_steps, 0, arguments)
    settings, metadata = read_pretrain_run(path)
    shapes = settings.build_curriculum(settings.model).list_shapes() if settings.model else ()
    stage = max((steps.start for _, steps in shapes if steps.start <= step), default=0)
    arguments = ("pretrain", recipe, "--data", metadata.data)
    return PretrainRun(
        path, settings, metadata, records, is_active, step, settings.num_steps, stage, arguments
    )


def _take_last_quarter(records: list[Record]) -> list[Record]:
    return records[-max(MIN_RECORDS, len(records) // 4) :]


def diagnose(run: AnyRun) -> list[Finding]:
    """Run all checks and return the findings, worst first; without a warning also that the run is healthy."""
    findings = [finding for check in CHECKS for finding in check(run)]
    if isinstance(run, PretrainRun):
        findings += [finding for check in PRETRAIN_CHECKS for finding in check(run)]
    else:
        findings += check_score(run)
    if all(finding.severity == "note" for finding in findings):
        values: dict[str, Value] = {"step": run.step, "of_steps": run.num_steps, **_list_results(run)}
        findings.append(Finding("healthy", "fine", "no problem found", values))
    return sorted(findings, key=lambda each: (SEVERITIES.index(each.severity), KINDS.index(each.kind)))


def _list_results(run: AnyRun) -> dict[str, Value]:
    """Return the latest losses and scores, and the speed."""
    values: dict[str, Value] = {}
    if isinstance(run, PretrainRun):
        values = {**run.mlm_losses, "unigram_loss": run.metadata.unigram_loss, "epochs_seen": run.num_epochs}
        name = f"{run.settings.examples.pair_objective}_accuracy"
        if len(pairs := run.held_out_curve(name).values):
            values[name] = float(pairs[-1])
    elif len(scores := run.held_out_curve("score")):
        best = int(scores.values.argmax())
        values = {"best_score": float(scores.values[best]), "best_step": int(scores.steps[best])}
        values |= {} if run.metadata.guess is None else {"score_of_guessing": run.metadata.guess}
    if len(speeds := read_curve(run.recent, "tokens_per_second").values):
        values["tokens_per_second"] = float(np.median(speeds))
        values |= {f"{part}_share": run.measure_share(part) for part in ("model", "optimizer")}
    return values


# Damaged or unfinished runs.


def check_checkpoints(run: Run) -> Iterator[Finding]:
    """Find checkpoints that cannot be loaded."""
    from albert.training.checkpoints import CheckpointFolder

    folder = CheckpointFolder(run.path / CHECKPOINTS_DIR)
    errors = {step: _find_error(folder.load, step) for step in folder.list_steps()}
    steps = folder.list_steps()  # an active run deletes old checkpoints
    damaged = {f"step-{step}": error for step, error in errors.items() if error and step in steps}
    if not damaged:
        return
    title = f"damaged checkpoint: {', '.join(damaged)}"
    if run.is_finished or not errors[steps[-1]]:
        yield Finding("damaged", "note", title, damaged, "No action needed: nothing reads it.")
    else:
        usable = [step for step in steps if not errors[step]]
        hint = f"Restore it from a copy, or resume, which continues from step {(usable or [0])[-1]}."
        yield Finding("damaged", "serious", title, damaged, hint)


def check_model(run: AnyRun) -> Iterator[Finding]:
    """Find model folders of a finished run that cannot be loaded."""
    for folder in (run.path / MODEL_DIR, run.path / BEST_DIR):
        if (
            run.is_finished
            and (folder / CONFIG_NAME).exists()
            and (reason := _find_error(albert.load, folder))
        ):
            hint = f"Write it again from the checkpoints: `{run.format_resume()}`"
            yield Finding("damaged", "serious", "the model cannot be loaded", {"reason": reason}, hint)


def _find_error(load: Callable[[Any], object], what: Any) -> str:
    try:
        load(what)
    except (AlbertError, OSError) as error:
        return str(error)
    return ""


def check_end(run: Run) -> Iterator[Finding]:
    """Find a run that is not finished although no process works on it."""
    has_model = (run.path / MODEL_DIR / CONFIG_NAME).exists()
    if run.is_active or run.is_stopped or (run.is_finished and has_model):
        return
    last = run.records[-1] if run.records and run.records[-1].get("kind") == "end" else {}
    reason = last.get("signal") or last.get("error") or "killed or crashed"
    values: dict[str, Value] = {"step": run.step, "of_steps": run.num_steps, "ended_by": reason}
    title = "all steps are done but the model was not written" if run.is_finished else "unfinished run"
    when = " after fixing the error" if last.get("error") else ""
    yield Finding("damaged", "warning", title, values, f"Resume it{when}: `{run.format_resume()}`")


# Pretraining that is stuck or overfits.


def check_mlm_loss(run: PretrainRun) -> Iterator[Finding]:
    """Find an MLM loss that stays at the unigram loss."""
    losses, unigram, settings = run.mlm_losses, run.metadata.unigram_loss, run.settings
    if not losses or min(losses.values()) < PLATEAU * unigram:
        return
    values: dict[str, Value] = {**losses, "unigram_loss": unigram, "step": run.step}
    longer = f"num_steps={4 * run.num_steps}"
    trend = run.fit_trend("mlm_loss", start=run.num_warmup)
    if trend is not None and trend.direction == 0 and trend.noise < 0.04:
        curve = run.train_curve("mlm_loss")
        away = np.flatnonzero(abs(curve.values - trend.mean) > 0.05 * trend.mean)
        since = int(curve.steps[min(away[-1] + 1, len(curve) - 1) if len(away) else 0])
        # Small models often stay there for thousands of steps and then leave it.
        severity: Severity = "serious" if run.is_finished or run.step - since > 3000 else "warning"
        muon = "optimizer.name=muon optimizer.learning_rate=0.004"
        changes = {
            muon: settings.optimizer.name != "muon" and settings.strategy != "fsdp",
            f"--batch-size {max(1, settings.batch_size // 2)}": settings.batch_size > 32,
            "'length_schedule=[{until: 0.7, value: 32}]'": not settings.length_schedule,
            "'depth_schedule=[{until: 0.5, value: 1}]'": not settings.depth_schedule,
            "position_init=sinusoidal": settings.position_init == "normal" and settings.init_from is None,
            longer: True,
        }
        possible = [change for change, is_possible in changes.items() if is_possible]
        lines = "\n".join(f"({number}) {change}" for number, change in enumerate(possible, 1))
        hint = f"Start a new run with the first of these changes: `{run.format_new('CHANGE')}`\n{lines}"
        title = f"the MLM loss has been at the unigram loss since step {since:,}"
        yield Finding("stuck", severity, title, {**values, "since_step": since}, hint)
    elif run.is_finished and (trend is None or trend.direction <= 0):
        hint = f"Train longer: `{run.format_new(longer)}`"
        yield Finding("stuck", "warning", "the run ended at the unigram loss", values, hint)
    elif trend is None or trend.direction == 0:  # a rising loss is divergence
        later = max(run.num_warmup + MIN_RECORDS * settings.log_every, 2 * run.step)
        hint = f"Run `albert doctor {run.path}` again after step {later:,}."
        yield Finding("stuck", "note", "too early to tell whether the MLM loss falls", values, hint)


def check_pairs(run: PretrainRun) -> Iterator[Finding]:
    """Find SOP or NSP at chance although the MLM loss is well below the unigram loss."""
    name, losses = run.settings.examples.pair_objective, run.mlm_losses
    held_out = run.held_out_curve(f"{name}_accuracy").values
    if name is None or not len(held_out) or min(losses.values()) >= 0.85 * run.metadata.unigram_loss:
        return  # pairs are learned later than words
    accuracy = float(held_out[-3:].mean())
    error = 0.5 / math.sqrt(run.metadata.num_asked or run.settings.held_out.num_examples)
    if accuracy <= 0.5 + 2 * error:
        values: dict[str, Value] = {f"held_out_{name}_accuracy": accuracy, "standard_error": error}
        hint = (
            f"Check that documents have several sentences in order: `albert corpus show {run.metadata.data} "
            f"--example 0`. Then train longer: `{run.format_new(f'num_steps={2 * run.num_steps}')}`"
        )
        yield Finding("stuck", "warning", f"{name} accuracy is at chance", values, hint)


def check_overfitting(run: PretrainRun) -> Iterator[Finding]:
    """Find a held-out loss that rises while the training loss falls."""
    held_out = run.held_out_curve("mlm_loss").between(run.stage_step, run.step)
    if len(held_out) < 4:
        return
    best = int(held_out.values.argmin())
    step, least, latest = int(held_out.steps[best]), float(held_out.values[best]), float(held_out.values[-1])
    train = run.train_curve("mlm_loss")
    before = train.between(held_out.steps[best - 1] if best else run.stage_step, step).values
    now = train.between(held_out.steps[-2], held_out.steps[-1]).values
    if latest < 1.02 * least or len(held_out) <= best + 2 or not len(before) or not len(now):
        return
    if now.mean() < before.mean():
        values: dict[str, Value] = {"held_out_mlm_loss": latest, "train_mlm_loss": float(now.mean())}
        values |= {"best_held_out_mlm_loss": least, "best_step": step, "epochs_seen": run.num_epochs}
        hint = (
            f"Use more text (this was seen {run.num_epochs:.1f} times), or fewer steps: "
            f"`{run.format_new(f'num_steps={step}')}`. The best model is in {run.path / BEST_DIR}."
        )
        yield Finding("stuck", "warning", f"overfitting since step {step:,}", values, hint)


# Any training that diverges; fine-tuning that does not learn, or overfits.


def check_divergence(run: Run) -> Iterator[Finding]:
    """Find a rising training loss and skipped steps in the current stage."""
    trend = run.fit_trend("loss", start=max(run.stage_step, run.num_warmup))
    is_rising = trend is not None and trend.direction > 0
    skips = [record for record in run.list_records("skip") if record["step"] > 0.75 * run.step]
    values: dict[str, Value] = {"steps_left_out": len(skips)}
    if skips:
        values["last_left_out"] = f"step {skips[-1]['step']}, {skips[-1].get('reason', '')}"
    if is_rising or run.is_stopped or len(skips) >= 3:
        sign = "the training loss rises" if is_rising else "steps were skipped"
        title = "stopped after too many skipped steps" if run.is_stopped else f"diverging: {sign}"
        command = run.format_new(
            f"optimizer.learning_rate={0.5 * run.settings.optimizer.learning_rate:.3g}",
            f"schedule.warmup_steps={max(2 * run.num_warmup, run.num_steps // 20)}",
            "schedule.warmup_share=null",
        )
        hint = f"Start a new run with half the learning rate and a longer warm-up: `{command}`"
        yield Finding("stuck", "serious" if is_rising or run.is_stopped else "warning", title, values, hint)
    elif skips:
        hint = "No action needed while they are few: skipped steps do not change the weights."
        yield Finding("stuck", "note", "steps were skipped", values, hint)


def check_score(run: FinetuneRun) -> Iterator[Finding]:
    """Compare the dev scores with those of a constant prediction, and the latest one with the best."""
    scores, losses, guess = run.held_out_curve("score"), run.train_curve("loss"), run.metadata.guess
    if len(scores) < 3 or not len(losses):
        return
    index = int(scores.values.argmax())
    step, best, latest = int(scores.steps[index]), float(scores.values[index]), float(scores.values[-1])
    values: dict[str, Value] = {"best_score": best, "best_step": step, "latest_score": latest}
    margin = 100.0 / math.sqrt(max(1, run.metadata.num_dev))  # two standard errors
    is_late = run.is_finished or run.step >= 0.5 * run.num_steps
    if guess is not None and is_late and best <= guess + margin:
        rate = run.settings.optimizer.learning_rate
        hint = (
            "Check that the text and label columns belong together. If all predictions are the same, lower "
            f"the learning rate: `{run.format_new(f'optimizer.learning_rate={rate / 3:.2g}')}`. If the "
            f"training loss has hardly moved, use {3 * rate:.2g} or more epochs."
        )
        if losses.values[-3:].mean() < 0.97 * losses.values[0]:
            hint = (
                "The training loss falls but the model does not generalize: use more examples than "
                f"{run.metadata.num_train:,} or a larger model than {run.metadata.model}."
            )
        title = "the dev score is not better than that of a constant prediction"
        values |= {"score_of_guessing": guess, "margin": margin}
        yield Finding("stuck", "serious" if run.is_finished else "warning", title, values, hint)
        return
    before, after = losses.between(0, step).values, losses.between(step, run.step).values
    is_memorized = len(before) and len(after) and after[-1] < 0.9 * before[-1]
    if is_memorized and index < len(scores) - 2 and latest <= best - margin:
        hint = (
            f"{run.path / MODEL_DIR} of the finished run holds the weights of step {step}. To stop earlier: "
            f"`{run.format_new('patience=3')}`; or add dropout=0.1"
        )
        yield Finding("stuck", "note", f"overfitting since step {step:,}", values, hint)
    if run.is_finished and latest >= scores.values[: -(len(scores) // 3)].max() + margin:
        steps = run.settings.num_steps
        longer = f"num_steps={2 * steps}" if steps else f"num_epochs={2 * run.settings.num_epochs:g}"
        hint = f"Train longer: `{run.format_new(longer)}`"
        yield Finding("stuck", "note", "the dev score was still rising at the end", values, hint)


# Slow runs.


def check_time(run: AnyRun) -> Iterator[Finding]:
    """Find parts of a run that take a large share of its time."""
    kinds = ("train", "evaluate", "save")
    seconds = {kind: sum(record.get("seconds") or 0.0 for record in run.list_records(kind)) for kind in kinds}
    total = max(sum(seconds.values()), 1e-9)
    waiting, limit = "Find other processes with `top`.", 0.4
    if isinstance(run, PretrainRun):
        command = run.format_resume(f"num_workers={run.settings.num_workers + 1}")
        waiting, limit = f"Stop the run and resume it with one more data loader: `{command}`", 0.15
    rarer = run.format_new(f"num_evaluations={max(1, run.settings.num_evaluations // 2)}")
    saving = run.format_resume(f"save_minutes={3 * run.settings.save_minutes:g}")
    for name, share, most, hint in (
        ("waiting_for_data", run.measure_share("waited"), 0.1, waiting),
        ("evaluation", seconds["evaluate"] / total, limit, f"Evaluate less often: `{rarer}`"),
        ("saving", seconds["save"] / total, 0.1, f"Save less often, or to a faster disk: `{saving}`"),
    ):
        if share > most:
            title = f"{name.replace('_', ' ')} takes much of the time"
            yield Finding("slow", "warning", title, {f"{name}_share": share, "limit_share": most}, hint)


def check_machine_use(run: AnyRun) -> Iterator[Finding]:
    """Compare the threads and the load with the number of cores, and find swapping."""
    start = run.last_start
    cores: int = start.get("cores") or count_cores()
    threads: int = start.get("threads") or cores
    # torch counts two hardware threads as one core; several processes share the cores.
    if not threads <= cores <= 2 * threads and start.get("processes", 1) == 1:
        hint = f"Use as many threads as cores: `export OMP_NUM_THREADS={cores}`"
        values: dict[str, Value] = {"threads": threads, "cores": cores}
        severity: Severity = "warning" if threads > cores else "note"
        yield Finding("slow", severity, f"{threads} threads on {cores} cores", values, hint)
    load = np.median(read_curve(run.recent, "load").values) if run.recent else 0.0
    if load > 1.25 * max(cores, threads) + 0.5:
        values = {"load": float(load), "cores": cores}
        hint = "Find them with `top` and run one after the other."
        yield Finding("slow", "warning", "other processes use the same cores", values, hint)
    swap = read_curve(run.recent, "swap_mb").values.max(initial=0.0)
    if swap >= 1.0:
        change = f"micro_batch_tokens={max(1, run.settings.micro_batch_tokens // 2)}"
        hint = f"Close other programs, or use less memory: `{run.format_new(change)}`"
        title = "memory is short: the run is partly swapped out"
        yield Finding("slow", "note", title, {"swapped_mb": float(swap)}, hint)


CHECKS: tuple[Callable[[AnyRun], Iterator[Finding]], ...] = (
    check_checkpoints, check_model, check_end, check_divergence, check_time, check_machine_use,
)  # fmt: skip
PRETRAIN_CHECKS: tuple[Callable[[PretrainRun], Iterator[Finding]], ...] = (
    check_mlm_loss, check_pairs, check_overfitting,
)  # fmt: skip


def build_charts(run: AnyRun) -> list[Chart]:
    """Return the charts of a run: losses and scores, learning rate and speed; none without records."""
    if not run.list_records("train"):
        return []
    if isinstance(run, PretrainRun):
        pair, unigram = run.settings.examples.pair_objective, run.metadata.unigram_loss
        parts = [("mlm_loss", "MLM loss", [Level(unigram, f"unigram loss {unigram:.2f}")])]
        parts += (
            [] if pair is None else [(f"{pair}_accuracy", f"{pair.upper()} accuracy", [Level(0.5, "chance")])]
        )
    else:
        guess = [] if run.metadata.guess is None else [Level(run.metadata.guess, "constant prediction")]
        parts = [("loss", "loss", []), ("score", "dev score", guess)]
    parts.append(("learning_rate", f"learning rate of {run.settings.optimizer.name}", []))
    parts.append(("tokens_per_second", "tokens per second", []))
    title = f"{run.path.resolve().name}, step {run.step:,} of {run.num_steps:,}"
    charts: list[Chart] = []
    for key, label, levels in parts:
        curves = {"train": run.train_curve(key), "held out": run.held_out_curve(key)}
        series = [
            Series(name, list(each.steps), list(each.values)) for name, each in curves.items() if len(each)
        ]
        charts.append(Chart(key, title if not charts else "", "step", label, series, levels=levels))
    return charts


def diagnose_machine() -> list[Finding]:
    """Return one finding for each part of the machine; those with a problem have a hint."""
    import torch

    from albert.model.runtime import autocast, select_device

    findings: list[Finding] = []

    def add(title: str, values: Mapping[str, Value], has_problem: bool = False, hint: str = "") -> None:
        severity: Severity = "warning" if has_problem else "fine"
        findings.append(Finding("machine", severity, title, values, hint if has_problem else ""))

    versions = {"albert": albert.__version__, "torch": torch.__version__}
    add("versions", {**versions, "python": platform.python_version()})
    cores, threads, quota = count_cores(), torch.get_num_threads(), read_quota()
    usable = cores if quota is None else max(1, min(cores, round(quota)))
    variable = os.environ.get("OMP_NUM_THREADS")
    values: dict[str, Value] = {"cores_allowed": cores, "cores_in_all": os.cpu_count() or cores}
    values |= {} if quota is None else {"quota_of_cores": quota}
    values |= {"torch_threads": threads, "OMP_NUM_THREADS": variable or "not set"}
    # torch counts two hardware threads as one core.
    is_few = threads < usable and (variable is not None or 2 * threads < usable)
    add("threads", values, threads > usable or is_few, f"export OMP_NUM_THREADS={usable}")

    if amounts := read_amounts(MEMORY_PATH):  # of Linux
        total, available, swap, free_swap = (
            amounts[name] / 1e9 for name in ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree")
        )
        values = {"total_gb": total, "available_gb": available}
        values |= {"swap_used_gb": swap - free_swap, "swap_gb": swap}
        add("memory", values, available < 2.0 or swap - free_swap > available, "close other programs")
    else:
        add("memory", {"memory": "not known on this system"})
    values = {"load_of_the_last_minute": os.getloadavg()[0], "cores_allowed": cores}
    hint = "other processes use the cores: find them with `top`"
    add("load", values, os.getloadavg()[0] > cores, hint)

    device, bf16 = select_device(), "yes: try runtime.precision=bf16"
    try:
        autocast(device, "bf16")
    except InputError:
        bf16 = "not in this hardware: use float32"
    add("arithmetic", {"device": str(device), "bf16": bf16})
    names = (os.environ.get("CXX"), "g++", "clang++", "cl")
    compiler = next((path for name in names if name and (path := shutil.which(name))), None)
    has_headers = (Path(sysconfig.get_paths()["include"]) / "Python.h").exists()
    values = {"compiler": compiler or "none", "headers": "yes" if has_headers else "none"}
    hint = "is_compiled=true needs g++ and python3-dev: install them"
    add("compiler", values, not (compiler and has_headers), hint)
    disk = shutil.disk_usage(".")  # three checkpoints of albert-base take 420 MB
    values = {"folder": str(Path.cwd()), "free_gb": disk.free / 1e9, "total_gb": disk.total / 1e9}
    add("disk", values, disk.free < 2e9, "free space, or use another --out")
    return findings


def read_quota(path: Path = Path("/sys/fs/cgroup/cpu.max")) -> float | None:
    """Return the number of cores a container may use; None if there is no limit."""
    try:
        quota, period = path.read_text(encoding="ascii").split()
        return int(quota) / int(period)
    except (OSError, ValueError):  # no such file, or `max`
        return None
