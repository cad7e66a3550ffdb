"""Diagnose a training run from its records, or the machine.

A run may be finished, killed or active, and is not changed. Each check is a function from a run to findings.
The thresholds are rules of thumb for small models on few cores; docs/doctor.md lists them.
"""

import math
import os
import platform
import shlex
import shutil
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
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
from albert.threads import count_cores, read_quota
from albert.training import run_folder
from albert.training.run_folder import BEST_DIR, MODEL_DIR, RUN_NAME, PretrainMetadata, RunMetadata
from albert.training.settings import LoopSettings, PretrainSettings

if TYPE_CHECKING:  # imports torch
    from albert.tasks.finetune import FinetuneMetadata

Record = dict[str, Any]
Value = float | int | str
Kind = Literal["damaged", "stuck", "slow", "machine", "healthy"]
Severity = Literal["serious", "warning", "note", "fine"]
KINDS, SEVERITIES = get_args(Kind), get_args(Severity)
MIN_RECORDS = 8  # to estimate a trend
PLATEAU = 0.97  # times the unigram loss; above it, the model predicts only by token frequency
# Lowest, best and highest peak learning rate at a number of tokens per step; they scale with its square root,
# up to the last factor. LAMB: section 4.1 of the paper. The others: measured on small models.
LEARNING_RATES = {
    "lamb": (0.00176, 0.00176, 0.00176, 4096 * 512, math.inf),
    "adamw": (1e-4, 1e-3, 3e-3, 8192, 2.0),
    "muon": (5e-4, 4e-3, 7e-3, 2048, 1.0),
}


@dataclass(frozen=True)
class Finding:
    """A result of a check: the problem, the values that show it, and a hint how to fix it."""

    kind: Kind
    severity: Severity
    title: str
    figures: Mapping[str, Value] = field(default_factory=dict)
    hint: str = ""


@dataclass(frozen=True)
class Curve:
    """The values of a metric at the steps where it was recorded."""

    steps: NDArray[np.float64]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.steps)

    def between(self, first: float, last: float) -> NDArray[np.float64]:
        """Return the values after step `first` and up to step `last`."""
        return self.values[(self.steps > first) & (self.steps <= last)]


def read_curve(records: Iterable[Record], key: str) -> Curve:
    """Collect the finite values of a metric."""
    rows = [(record["step"], record[key]) for record in records if record.get(key) is not None]
    table = np.array(rows, dtype=np.float64).reshape(-1, 2)
    table = table[np.isfinite(table[:, 1])]
    return Curve(table[:, 0], table[:, 1])


@dataclass(frozen=True)
class Trend:
    """A line fitted to a metric."""

    mean: float
    noise: float  # two standard errors of the relative change
    direction: int  # 1 if it rises by more than the noise and 2%, -1 if it falls by more than that and 1%


@dataclass(frozen=True)
class Run:
    """A training run."""

    path: Path
    settings: LoopSettings
    metadata: RunMetadata
    records: tuple[Record, ...]
    is_active: bool
    step: int
    num_steps: int
    stage_step: int  # the first step of the current stage of the curriculum
    arguments: tuple[str, ...]  # of the command that started it, without --out

    @property
    def is_finished(self) -> bool:
        return any(record.get("is_finished") is True for record in self.list_records("end"))

    @property
    def is_stopped(self) -> bool:
        """Whether the run was stopped after too many skipped steps in a row."""
        steps = {record["step"] for record in self.list_records("skip")}
        last = range(self.step - self.settings.loss_spike_filter.max_skipped + 1, self.step + 1)
        return not self.is_finished and steps.issuperset(last)

    @property
    def num_warmup(self) -> int:
        return self.settings.schedule.count_warmup(self.num_steps)

    @property
    def last_start(self) -> Record:
        return (self.list_records("start") or [{}])[-1]

    def list_records(self, kind: str) -> list[Record]:
        """List the records of one kind: train, evaluate, skip, save, start or end."""
        return [record for record in self.records if record["kind"] == kind]

    def list_recent(self, *, after: int = 0) -> list[Record]:
        """List the last quarter of the training records after a step, without the first of each start."""
        pairs = [each for each in pairwise(self.records) if each[1]["kind"] == "train"]
        records = [new for old, new in pairs if old["kind"] != "start" and new["step"] > after]
        return records[-max(MIN_RECORDS, len(records) // 4) :]

    def curve(self, kind: str, key: str) -> Curve:
        return read_curve(self.list_records(kind), key)

    def measure_share(self, part: str) -> float:
        """Compute the share of the recent time for a part: model, optimizer, or waited (for data)."""
        parts, totals = (read_curve(self.list_recent(), key).values for key in (f"{part}_seconds", "seconds"))
        return float(parts.sum() / max(totals.sum(), 1e-9))

    def fit_trend(self, key: str, *, after: int) -> Trend | None:
        """Fit a line to the recent values of a training metric after a step; None if there are too few."""
        curve = read_curve(self.list_recent(after=after), key)
        if len(curve) < MIN_RECORDS:
            return None
        line, covariance = np.polyfit(curve.steps - curve.steps.mean(), curve.values, 1, cov=True)
        mean = float(curve.values.mean())
        scale = float(curve.steps[-1] - curve.steps[0]) / max(abs(mean), 1e-9)
        change, noise = float(line[0]) * scale, 2 * math.sqrt(covariance[0, 0]) * scale
        return Trend(mean, noise, int(change > max(0.02, noise)) - int(-change > max(0.01, noise)))

    def format_resume(self, *overrides: str) -> str:
        """Format the command that resumes this run with the same number of processes."""
        number = self.last_start.get("processes", 1)
        launcher = ["albert"] if number == 1 else ["torchrun", f"--nproc-per-node={number}", "-m", "albert"]
        return shlex.join([*launcher, *self.arguments, *overrides, "--out", str(self.path), "--resume"])

    def format_new(self, *overrides: str) -> str:
        """Format a command that starts a new run with changed settings."""
        return shlex.join(["albert", *self.arguments, *overrides, "--out", f"{self.path}-2"])


@dataclass(frozen=True)
class PretrainRun(Run):
    """A run of `albert pretrain`."""

    settings: PretrainSettings
    metadata: PretrainMetadata

    @property
    def num_epochs(self) -> float:
        """The number of epochs of the corpus that were seen."""
        return float(self.curve("train", "tokens").values.max(initial=0.0) / max(1, self.metadata.num_tokens))

    @property
    def mlm_losses(self) -> dict[str, float]:
        """The latest MLM losses, if there are any."""
        held_out, train = (self.curve(kind, "mlm_loss").values for kind in ("evaluate", "train"))
        latest = {"held_out_mlm_loss": held_out[-1:], "train_mlm_loss": train[-5:]}
        return {name: float(values.mean()) for name, values in latest.items() if len(values)}


@dataclass(frozen=True)
class FinetuneRun(Run):
    """A run of `albert finetune`."""

    settings: FinetuneSettings
    metadata: "FinetuneMetadata"


AnyRun = PretrainRun | FinetuneRun


def load_run(path: Path) -> AnyRun:
    """Load a run folder; raise an InputError if it is not one."""
    if not run_folder.has_run(path):
        seeds = sorted(path.glob(f"seed-*/{RUN_NAME}"))
        own = (
            f"one of its seeds, as {seeds[0].parent}" if seeds else "the --out of albert pretrain or finetune"
        )
        reason = f"has no {RUN_NAME}" if path.is_dir() else "does not exist"
        raise InputError(f"{path}: {reason}; give {own}")
    is_active = is_held(path / run_folder.LOCK_NAME)
    records = tuple(run_folder.iter_records(path))
    step = max((record["step"] for record in records), default=0)
    recipe = str(path / run_folder.SETTINGS_NAME)
    if read_json(path / RUN_NAME).get("job") == "finetune":
        from albert.tasks.finetune import read_finetune_run

        tuning, task = read_finetune_run(path)
        files = {"dev": task.dev, "teacher": task.teacher, "unlabeled": task.unlabeled}
        more = [word for name, path in files.items() if path for word in (f"--{name}", path)]
        inputs = ["--model", task.model, "--data", task.data, *more]
        arguments = ("finetune", task.task.task, *inputs, "--recipe", recipe)
        num_steps = tuning.num_steps or task.num_steps or max(1, step)
        return FinetuneRun(path, tuning, task, records, is_active, step, num_steps, 0, arguments)
    settings, metadata = run_folder.read_pretrain_run(path)
    shapes = settings.build_curriculum(settings.model).list_shapes() if settings.model else ()
    stage = max((steps.start for _, steps in shapes if steps.start <= step), default=0)
    arguments, num_steps = ("pretrain", recipe, "--data", metadata.data), settings.num_steps
    return PretrainRun(path, settings, metadata, records, is_active, step, num_steps, stage, arguments)


def diagnose(run: AnyRun) -> list[Finding]:
    """Run all checks and return the findings, worst first; if all are notes, also the latest results."""
    findings = [*check_checkpoints(run), *check_model(run), *check_end(run), *check_divergence(run)]
    findings += [*check_time(run), *check_machine_use(run)]
    results: dict[str, Value] = {"step": run.step, "of_steps": run.num_steps}
    if isinstance(run, PretrainRun):
        findings += [
            *check_mlm_loss(run),
            *check_pairs(run),
            *check_learning_rate(run),
            *check_overfitting(run),
        ]
        results |= {
            **run.mlm_losses,
            "unigram_loss": run.metadata.unigram_loss,
            "epochs_seen": run.num_epochs,
        }
        name = f"{run.settings.examples.pair_objective}_accuracy"
        if len(pairs := run.curve("evaluate", name).values):
            results[name] = float(pairs[-1])
    else:
        findings += check_score(run)
        if len(scores := run.curve("evaluate", "score")):
            best = int(scores.values.argmax())
            results |= {"best_score": float(scores.values[best]), "best_step": int(scores.steps[best])}
            results |= {} if run.metadata.guess is None else {"score_of_constant": run.metadata.guess}
    if len(speeds := read_curve(run.list_recent(), "tokens_per_second").values):
        results["tokens_per_second"] = float(np.median(speeds))
        results |= {f"{part}_share": run.measure_share(part) for part in ("model", "optimizer")}
    if all(finding.severity == "note" for finding in findings):
        findings.append(Finding("healthy", "fine", "no problem found", results))
    return sorted(findings, key=lambda each: (SEVERITIES.index(each.severity), KINDS.index(each.kind)))


def check_checkpoints(run: Run) -> Iterator[Finding]:
    """Find checkpoints that cannot be loaded."""
    from albert.training.checkpoints import CheckpointFolder

    folder = CheckpointFolder(run.path / run_folder.CHECKPOINTS_DIR)
    tried = {step: _find_error(folder.load, step) for step in folder.list_steps()}
    errors = {step: tried[step] for step in folder.list_steps() if step in tried}  # others are deleted by now
    if damaged := {f"step-{step}": error for step, error in errors.items() if error}:
        usable = max((step for step, error in errors.items() if not error), default=0)
        is_used = not run.is_finished and usable < max(errors)
        resuming = f"Restore it from a copy, or resume the run, which continues from step {usable}."
        hint = resuming if is_used else "No action needed: the checkpoint is not used."
        title = f"damaged checkpoint: {', '.join(damaged)}"
        yield Finding("damaged", "serious" if is_used else "note", title, damaged, hint)


def check_model(run: AnyRun) -> Iterator[Finding]:
    """Find model folders of a finished run that cannot be loaded."""
    for folder in (run.path / MODEL_DIR, run.path / BEST_DIR):
        exists = run.is_finished and (folder / CONFIG_NAME).exists()
        if exists and (reason := _find_error(albert.load, folder)):
            hint = f"Write it again from the checkpoints: `{run.format_resume()}`"
            yield Finding("damaged", "serious", "the model cannot be loaded", {"reason": reason}, hint)


def _find_error(load: Callable[[Any], object], what: Any) -> str:
    try:
        load(what)
    except (AlbertError, OSError) as error:
        return str(error)
    return ""


def check_end(run: Run) -> Iterator[Finding]:
    """Find a run that is neither finished nor active."""
    has_model = (run.path / MODEL_DIR / CONFIG_NAME).exists()
    if run.is_active or run.is_stopped or (run.is_finished and has_model):
        return
    last = run.records[-1] if run.records and run.records[-1]["kind"] == "end" else {}
    reason = last.get("signal") or last.get("error") or "killed or crashed"
    values = {"step": run.step, "of_steps": run.num_steps, "ended_by": reason}
    title = "all steps are done, but the model was not written" if run.is_finished else "unfinished run"
    when = " after fixing the error" if last.get("error") else ""
    yield Finding("damaged", "warning", title, values, f"Resume it{when}: `{run.format_resume()}`")


def check_mlm_loss(run: PretrainRun) -> Iterator[Finding]:
    """Find an MLM loss that stays at the unigram loss."""
    losses, unigram, settings = run.mlm_losses, run.metadata.unigram_loss, run.settings
    if not losses or min(losses.values()) < PLATEAU * unigram:
        return
    values = {**losses, "unigram_loss": unigram, "step": run.step}
    longer = f"num_steps={4 * run.num_steps}"
    trend = run.fit_trend("mlm_loss", after=run.num_warmup)
    if trend is not None and trend.direction == 0 and trend.noise < 0.04:
        curve = run.curve("train", "mlm_loss")
        away = np.flatnonzero(abs(curve.values - trend.mean) > 0.05 * trend.mean)
        since = int(curve.steps[min(away[-1] + 1, len(curve) - 1) if len(away) else 0])
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
        lines = "".join(f"\n({number}) {change}" for number, change in enumerate(possible, 1))
        hint = f"Start a new run with the first of these changes: `{run.format_new('CHANGE')}`{lines}"
        title = f"the MLM loss has been at the unigram loss since step {since:,}"
        # Small models often stay there for thousands of steps and then leave it.
        severity: Severity = "serious" if run.is_finished or run.step - since > 3000 else "warning"
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
    name = run.settings.examples.pair_objective
    held_out = run.curve("evaluate", f"{name}_accuracy").values
    if not len(held_out) or min(run.mlm_losses.values()) >= 0.85 * run.metadata.unigram_loss:
        return  # pairs are learned later than masked tokens
    accuracy = float(held_out[-3:].mean())
    error = 0.5 / math.sqrt(run.metadata.num_held_out or run.settings.held_out.num_examples)
    if accuracy <= 0.5 + 2 * error:
        values = {f"held_out_{name}_accuracy": accuracy, "standard_error": error}
        hint = (
            f"Check that documents have several sentences in order: `albert corpus show {run.metadata.data} "
            f"--example 0`. Then train longer: `{run.format_new(f'num_steps={2 * run.num_steps}')}`"
        )
        yield Finding("stuck", "warning", f"{name} accuracy is at chance", values, hint)


def check_learning_rate(run: PretrainRun) -> Iterator[Finding]:
    """Find a peak learning rate that is four times outside the usual range of its optimizer."""
    name, rate = run.settings.optimizer.name, run.settings.optimizer.learning_rate
    low, best, high, usual_tokens, max_scale = LEARNING_RATES[name]
    tokens = run.settings.batch_size * run.settings.examples.max_length
    scale = min(math.sqrt(tokens / usual_tokens), max_scale)
    is_low = rate < 0.25 * low * scale and run.settings.init_from is None
    if is_low or rate > 4 * high * scale:
        values = {"learning_rate": rate, "lowest": low * scale, "highest": high * scale}
        title = f"the learning rate is too {'low' if is_low else 'high'} for {name}"
        hint = f"Start a new run: `{run.format_new(f'optimizer.learning_rate={best * scale:.2g}')}`"
        yield Finding("stuck", "warning", title, {**values, "tokens_per_step": tokens}, hint)


def check_overfitting(run: PretrainRun) -> Iterator[Finding]:
    """Find a held-out loss that rises while the training loss falls."""
    held_out, train = run.curve("evaluate", "mlm_loss"), run.curve("train", "mlm_loss")
    losses = held_out.between(run.stage_step, run.step)
    best = int(losses.argmin()) if len(losses) >= 4 else len(losses)
    if best >= len(losses) - 2 or losses[-1] < 1.02 * losses[best]:
        return
    steps = [run.stage_step, *held_out.steps[-len(losses) :]]
    before, now = train.between(*steps[best : best + 2]), train.between(*steps[-2:])
    if len(before) and len(now) and now.mean() < before.mean():
        step, least, latest = int(steps[best + 1]), float(losses[best]), float(losses[-1])
        values: dict[str, Value] = {"held_out_mlm_loss": latest, "train_mlm_loss": float(now.mean())}
        values |= {"best_held_out_mlm_loss": least, "best_step": step, "epochs_seen": run.num_epochs}
        hint = (
            f"Use more text ({run.num_epochs:.1f} epochs were seen), or fewer steps: "
            f"`{run.format_new(f'num_steps={step}')}`. The best model is in {run.path / BEST_DIR}."
        )
        yield Finding("stuck", "warning", f"overfitting since step {step:,}", values, hint)


def check_divergence(run: Run) -> Iterator[Finding]:
    """Find a rising training loss and skipped steps in the current stage."""
    trend = run.fit_trend("loss", after=max(run.stage_step, run.num_warmup))
    is_rising = trend is not None and trend.direction > 0
    skips = [record for record in run.list_records("skip") if record["step"] > 0.75 * run.step]
    values: dict[str, Value] = {"steps_skipped": len(skips)}
    if skips:
        values["last_skipped"] = f"step {skips[-1]['step']}, {skips[-1]['reason']}"
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
        hint = "No action needed for a few steps: skipped steps do not change the weights."
        yield Finding("stuck", "note", "steps were skipped", values, hint)


def check_score(run: FinetuneRun) -> Iterator[Finding]:
    """Compare the dev scores with that of a constant prediction, and the latest with the best."""
    scores, losses, guess = run.curve("evaluate", "score"), run.curve("train", "loss"), run.metadata.guess
    if len(scores) < 3 or not len(losses):
        return
    index = int(scores.values.argmax())
    step, best, latest = int(scores.steps[index]), float(scores.values[index]), float(scores.values[-1])
    values = {"best_score": best, "best_step": step, "latest_score": latest}
    margin = 100.0 / math.sqrt(max(1, run.metadata.num_dev))  # two standard errors
    is_late = run.is_finished or run.step >= 0.5 * run.num_steps
    if guess is not None and is_late and best <= guess + margin:
        lower = run.format_new(f"optimizer.learning_rate={run.settings.optimizer.learning_rate / 3:.2g}")
        hint = f"Check the text and label columns. Use more epochs, or a lower learning rate: `{lower}`"
        if losses.values[-3:].mean() < 0.97 * losses.values[0]:  # it learns, but does not generalize
            number, model = run.metadata.num_train, run.metadata.model
            hint = f"Use more than {number:,} examples, or a larger model than {model}."
        title = "the dev score is not better than that of a constant prediction"
        values |= {"score_of_constant": guess, "margin": margin}
        yield Finding("stuck", "serious" if run.is_finished else "warning", title, values, hint)
        return
    before, after = losses.between(0, step), losses.between(step, run.step)
    is_memorized = len(before) and len(after) and after[-1] < 0.9 * before[-1]
    if is_memorized and index < len(scores) - 2 and latest <= best - margin:
        hint = (
            f"{run.path / MODEL_DIR} of the finished run has the weights of step {step}. To stop earlier: "
            f"`{run.format_new('patience=3')}`. Or set dropout=0.1"
        )
        yield Finding("stuck", "note", f"overfitting since step {step:,}", values, hint)
    if run.is_finished and latest >= scores.values[: -(len(scores) // 3)].max() + margin:
        steps, epochs = run.settings.num_steps, run.settings.num_epochs
        longer = run.format_new(f"num_steps={2 * steps}" if steps else f"num_epochs={2 * epochs:g}")
        hint = f"Train longer: `{longer}`"
        yield Finding("stuck", "note", "the dev score was still rising at the end", values, hint)


def check_time(run: AnyRun) -> Iterator[Finding]:
    """Find parts of a run that take too large a share of its time."""
    kinds = ("train", "evaluate", "save")
    seconds = {kind: float(run.curve(kind, "seconds").values.sum()) for kind in kinds}
    total = max(sum(seconds.values()), 1e-9)
    waiting, limit = "Find other busy processes with `top`.", 0.4
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
    """Compare threads and load with the number of cores, and find swapping."""
    start, recent = run.last_start, run.list_recent()
    cores: int = start.get("cores") or count_cores()
    threads: int = start.get("threads") or cores
    # torch counts two hardware threads as one core; several processes share the cores.
    if not threads <= cores <= 2 * threads and start.get("processes", 1) == 1:
        hint = f"Use as many threads as cores: `export OMP_NUM_THREADS={cores}`"
        severity: Severity = "warning" if threads > cores else "note"
        yield Finding(
            "slow",
            severity,
            f"{threads} threads on {cores} cores",
            {"threads": threads, "cores": cores},
            hint,
        )
    load = float(np.median(read_curve(recent, "load").values)) if recent else 0.0
    if load > 1.25 * max(cores, threads) + 0.5:
        hint = "Find them with `top`, and run them one after the other."
        if start.get("is_spinning"):
            hint += " Or call albert.tune_threads() before torch is imported: waiting threads then sleep."
        values = {"load": load, "cores": cores}
        yield Finding("slow", "warning", "other processes use the same cores", values, hint)
    swap = float(read_curve(recent, "swap_mb").values.max(initial=0.0))
    if swap >= 1.0:
        change = f"micro_batch_tokens={max(1, run.settings.micro_batch_tokens // 2)}"
        hint = f"Close other programs, or use less memory: `{run.format_new(change)}`"
        yield Finding(
            "slow", "note", "memory is low: the run is partly swapped out", {"swapped_mb": swap}, hint
        )


def build_charts(run: AnyRun) -> list[Chart]:
    """Build the charts of a run: losses and scores, learning rate and speed; none without records."""
    if isinstance(run, PretrainRun):
        pair, unigram = run.settings.examples.pair_objective or "", run.metadata.unigram_loss
        parts = [("mlm_loss", "MLM loss", [Level(unigram, f"unigram loss {unigram:.2f}")])]
        parts.append((f"{pair}_accuracy", f"{pair.upper()} accuracy", [Level(0.5, "chance")]))
    else:
        guess = [] if run.metadata.guess is None else [Level(run.metadata.guess, "constant prediction")]
        parts = [("loss", "loss", []), ("score", "dev score", guess)]
    parts += [("learning_rate", f"learning rate of {run.settings.optimizer.name}", [])]
    parts += [("tokens_per_second", "tokens per second", [])]
    charts: list[Chart] = []
    for key, label, levels in parts:
        curves = {"train": run.curve("train", key), "held out": run.curve("evaluate", key)}
        series = [Series(name, [*each.steps], [*each.values]) for name, each in curves.items() if len(each)]
        title = "" if charts else f"{run.path.resolve().name}, step {run.step:,} of {run.num_steps:,}"
        if series:
            charts.append(Chart(key, title, "step", label, series, levels=levels))
    return charts


def diagnose_machine() -> list[Finding]:
    """Check each part of the machine; findings with a problem have a hint."""
    import torch

    from albert.model.runtime import autocast, select_device

    findings: list[Finding] = []

    def add(title: str, values: Mapping[str, Value], has_problem: bool = False, hint: str = "") -> None:
        severity: Severity = "warning" if has_problem else "fine"
        findings.append(Finding("machine", severity, title, values, hint if has_problem else ""))

    python = platform.python_version()
    add("versions", {"albert": albert.__version__, "torch": torch.__version__, "python": python})
    usable, threads, quota = count_cores(), torch.get_num_threads(), read_quota()
    variable = os.environ.get("OMP_NUM_THREADS")
    values: dict[str, Value] = {"usable_cores": usable, "all_cores": os.cpu_count() or usable}
    values |= {} if quota is None else {"cpu_quota": quota}
    values |= {"torch_threads": threads, "OMP_NUM_THREADS": variable or "not set"}
    # torch counts two hardware threads as one core.
    is_few = threads < usable and (variable is not None or 2 * threads < usable)
    add("threads", values, threads > usable or is_few, f"export OMP_NUM_THREADS={usable}")

    if amounts := run_folder.read_amounts(run_folder.MEMORY_PATH):  # of Linux
        names = ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree")
        total, free, swap, free_swap = (amounts[name] / 1e9 for name in names)
        used = swap - free_swap
        values = {"total_gb": total, "available_gb": free, "swap_used_gb": used, "swap_gb": swap}
        add("memory", values, free < 2.0 or used > free, "close other programs")
    load = os.getloadavg()[0]
    values = {"load_1_minute": load, "usable_cores": usable}
    add("load", values, load > usable, "find the processes that use the cores with `top`")

    device = select_device()
    error = _find_error(lambda precision: autocast(device, precision), "bf16")
    bf16 = "not supported by this hardware" if error else "supported: try runtime.precision=bf16"
    add("arithmetic", {"device": str(device), "bf16": bf16})
    compilers = (os.environ.get("CXX"), "g++", "clang++", "cl")
    compiler = next((path for name in compilers if name and (path := shutil.which(name))), "none")
    headers = "yes" if (Path(sysconfig.get_paths()["include"]) / "Python.h").exists() else "none"
    hint = "install g++ and python3-dev to use is_compiled=true"
    add("compiler", {"compiler": compiler, "headers": headers}, "none" in (compiler, headers), hint)
    disk = shutil.disk_usage(".")  # three checkpoints of albert-base need 420 MB
    values = {"folder": str(Path.cwd()), "free_gb": disk.free / 1e9, "total_gb": disk.total / 1e9}
    add("disk", values, disk.free < 2e9, "free some space, or use another --out")
    return findings
