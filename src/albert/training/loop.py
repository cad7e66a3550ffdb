"""The training loop: steps, evaluations and checkpoints of a job, until its last step or a signal.

Pretraining and fine-tuning are jobs of this one loop.
"""

import signal
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import torch
from torch import Tensor, nn

from albert.errors import AlbertError, EchoError, FileFormatError, InputError, one_line
from albert.examples.randomness import derive, seed_key
from albert.model.albert_model import AlbertModel
from albert.model.runtime import build_autocast
from albert.progress import Reporter, format_seconds
from albert.training.checkpoints import (
    Checkpoint,
    CheckpointFolder,
    list_tensors,
    open_saver,
    restore_tensors,
)
from albert.training.metrics import LogWindow, MetricsLog, SilentLog, count_cores
from albert.training.run_folder import CHECKPOINTS_DIR
from albert.training.schedules import find_factor
from albert.training.settings import LoopSettings
from albert.training.step import Guard, Objective, StepPlan, StepReport, StepTaker
from albert.training.world import DistributedContext

B = TypeVar("B")
Log = MetricsLog | SilentLog
_DROPOUT_STREAM = 1001  # far from the streams that make examples


class Job(Protocol[B]):
    """What is trained, on which batches, and how it is evaluated."""

    @property
    def name(self) -> str:
        """The name of its progress bar."""

    @property
    def model(self) -> AlbertModel:
        """The model that is trained."""

    @property
    def settings(self) -> LoopSettings:
        """The settings of the loop."""

    @property
    def num_steps(self) -> int:
        """The number of steps."""

    @property
    def objective(self) -> Objective[B]:
        """The losses of a batch."""

    def iter_batches(self, first_step: int) -> Generator[list[B], None, None]:
        """Yield the micro-batches of each step, from `first_step` on."""

    def count_tokens(self, batch: B) -> int:
        """Count the tokens of a batch."""

    def build_network(self) -> nn.Module:
        """The model with its losses: maps a batch to summed losses and numbers of correct predictions."""

    def build_optimizer(self) -> torch.optim.Optimizer:
        """Build the optimizer, over parameters that may be sharded."""

    def find_options(self, step: int) -> dict[str, Any]:
        """Keyword arguments of the network at a step."""

    def is_new_stage(self, step: int) -> bool:
        """Whether another loss is to be expected from this step on."""

    def find_cost(self, step: int) -> float:
        """The work before a step, in any unit, for the estimate of the time left."""

    def describe(self, step: int) -> dict[str, float]:
        """Figures for the record of a step."""

    def evaluate(self, step: int) -> dict[str, float]:
        """Evaluate on held-out data; the model is in evaluation mode."""

    def score(self, figures: dict[str, float]) -> float:
        """The figure that selects the best step; lower is better."""


@dataclass
class Progress:
    """Where a run is: what a checkpoint keeps besides tensors and the state of the guard.

    `figures` are those of the last evaluation.
    """

    step: int = 0
    num_tokens: int = 0
    seconds: float = 0.0
    best_step: int | None = None
    best_score: float | None = None
    num_stale: int = 0  # evaluations since the best
    figures: dict[str, float] = field(default_factory=dict)


class StoppedError(Exception):
    """A signal, by its name, has stopped a run; its state is saved, and it can be resumed."""


@dataclass(frozen=True)
class LoopOutcome:
    """How a run ended; `signal` is what stopped it before its end."""

    progress: Progress
    is_finished: bool
    signal: str | None = None

    def check_finished(self) -> None:
        """Raise a StoppedError if the run was stopped."""
        if not self.is_finished:
            raise StoppedError(self.signal or "a signal")


def run_job(
    job: Job[B], *, run_dir: Path, newest: Checkpoint | None, reporter: Reporter, world: DistributedContext
) -> LoopOutcome:
    """Train from the newest checkpoint, or from the beginning, to the end or to a signal."""
    loop = TrainingLoop(job, run_dir=run_dir, reporter=reporter, world=world)
    if newest is not None:
        loop.restore(newest)
        newest.tensors.clear()  # they take three times the memory of the model
        reporter.say(f"goes on at step {newest.step:,} of {job.num_steps:,}")
    elif CheckpointFolder(run_dir / CHECKPOINTS_DIR).list_steps():
        reporter.say("no checkpoint is whole: begins again, from the beginning")
    return loop.run()


def load_newest(run_dir: Path, *, reporter: Reporter, world: DistributedContext) -> Checkpoint | None:
    """Load the newest undamaged checkpoint that the first process finds, in every process."""
    folder = CheckpointFolder(run_dir / CHECKPOINTS_DIR)
    newest = folder.load_newest(say=reporter.say) if world.is_main else None
    step = world.gather(None if newest is None else newest.step)[0]
    failure = None
    if step is not None and newest is None:
        try:
            newest = folder.load(step)
        except AlbertError as error:
            failure = str(error)
    failures = [found for found in world.gather(failure) if found is not None]
    if failures:
        told = f"{failures[0]}, in one process, while another has read it; see that all reach the same folder"
        raise FileFormatError(told) if world.is_main else EchoError(told)
    return newest


def fetch_weights(model: AlbertModel, world: DistributedContext) -> dict[str, Tensor]:
    """Gather the weights of a model that may be sharded, on the CPU."""
    return {name: world.fetch(tensor).cpu() for name, tensor in model.state_dict().items()}


def load_best(
    run_dir: Path, step: int, *, names: Iterable[str], reporter: Reporter
) -> dict[str, Tensor] | None:
    """Load the weights of the best evaluation; report it and return None if its checkpoint is damaged."""
    try:
        tensors = CheckpointFolder(run_dir / CHECKPOINTS_DIR).load(step).tensors
    except AlbertError as error:
        reporter.say(f"{error}; the model of the best evaluation, step {step}, is lost")
        return None
    return {name: tensors[f"model.{name}"] for name in names}


class StopRequest:
    """While the `with` block lasts, SIGINT and SIGTERM set a flag that the loop checks between steps.

    A second Ctrl-C raises KeyboardInterrupt. Outside of the main thread no handler can be set.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            numbers = (signal.SIGINT, signal.SIGTERM)
            self._before = {number: signal.signal(number, self._note) for number in numbers}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)


class TrainingLoop(Generic[B]):
    """Trains one job from its first step, or from a checkpoint, to its last."""

    def __init__(
        self, job: Job[B], *, run_dir: Path, reporter: Reporter, world: DistributedContext | None = None
    ) -> None:
        self.job, self.model, self.settings = job, job.model, job.settings
        self.run_dir, self.reporter, self.world = run_dir, reporter, world or DistributedContext()
        self.network = self.world.spread(job.build_network())
        self.optimizer = job.build_optimizer()  # over the parameters as they are sharded
        self.progress = Progress()
        self.guard = Guard(self.settings.guard)
        self._autocast = build_autocast(self.settings.runtime)
        self._checkpoints = CheckpointFolder(run_dir / CHECKPOINTS_DIR, self.settings.num_checkpoints)
        self._saver = open_saver(self.world, self._checkpoints)
        self._saved_step: int | None = None
        self._saved_time = time.monotonic()

    def restore(self, checkpoint: Checkpoint) -> None:
        """Load a checkpoint; training continues exactly where it was written."""
        restore_tensors(checkpoint.tensors, self.model, self.optimizer, self.world)
        self.progress = Progress(**checkpoint.state["progress"])
        self.guard.restore(checkpoint.state["guard"])
        self._saved_step = checkpoint.step

    def run(self) -> LoopOutcome:
        """Train to the end, or until a signal, and save in both cases."""
        log: Log = SilentLog()
        if self.world.is_main:
            log = MetricsLog(
                self.run_dir,
                first_step=self.progress.step,
                say=self.reporter.say,
                has_tensorboard=self.settings.has_tensorboard,
            )
        with StopRequest() as stop, closing(log):
            log.write(
                "start",
                self.progress.step,
                processes=self.world.size,
                threads=torch.get_num_threads(),
                cores=count_cores(),
                time=round(time.time(), 3),
            )
            try:
                self._train(log, stop)
            except BaseException as error:
                log.write("end", self.progress.step, is_finished=False, error=one_line(error))
                raise
            is_finished = self._is_finished
            self._save(log, is_last=True)
            # A process that was stopped without a signal of its own was stopped by another one's.
            name = "SIGTERM" if stop.signal is None else stop.signal.name
            ended_by = None if is_finished else name
            log.write("end", self.progress.step, is_finished=is_finished, signal=ended_by)
        return LoopOutcome(self.progress, is_finished, ended_by)

    def _train(self, log: Log, stop: StopRequest) -> None:
        taker = StepTaker(
            self.network,
            self.optimizer,
            self.job.objective,
            self.guard,
            self.settings.optimizer.max_grad_norm,
            self._autocast,
            self.world,
        )
        window = LogWindow()
        self.model.train()
        with closing(self.job.iter_batches(self.progress.step)) as batches:
            while not self._is_finished:
                began = time.perf_counter()
                micro_batches, failure = self._fetch(batches)
                waited = time.perf_counter() - began
                plan = taker.plan(
                    micro_batches,
                    num_tokens=sum(map(self.job.count_tokens, micro_batches)),
                    is_stopped=stop.signal is not None,
                    is_failed=failure is not None,
                    is_saved=time.monotonic() - self._saved_time > 60.0 * self.settings.save_minutes,
                )
                if plan.is_failed:
                    self._give_up(failure, log)
                if plan.is_stopped:
                    return
                report = self._step(taker, micro_batches, plan)
                seconds = time.perf_counter() - began
                self.progress.num_tokens += plan.num_tokens
                self.progress.seconds += seconds
                window.add(report, num_tokens=plan.num_tokens, waited=waited, seconds=seconds)
                self._report(report, window, log)
                # As many evaluations as asked for, evenly spread, the last one at the end.
                step, total, number = self.progress.step, self.job.num_steps, self.settings.num_evaluations
                if step * number // total > (step - 1) * number // total:
                    self._evaluate(log)
                if plan.is_saved:
                    self._save(log)

    @property
    def _is_finished(self) -> bool:
        patience = self.settings.patience
        is_settled = patience is not None and self.progress.num_stale >= patience
        return is_settled or self.progress.step >= self.job.num_steps

    def _fetch(self, batches: Iterator[list[B]]) -> tuple[list[B], Exception | None]:
        """Fetch the batches of the next step, or the error that prevented it."""
        try:
            return next(batches), None
        except Exception as error:  # damaged data may fail in any way; the state is saved first
            return [], error

    def _give_up(self, error: Exception | None, log: Log) -> NoReturn:
        """Save and raise, because the data of one process could not be read."""
        self._save(log, is_last=True)
        if error is None:
            raise EchoError("another process could not read its data")
        if isinstance(error, AlbertError):
            raise error
        raise FileFormatError(
            f"the data could not be read at step {self.progress.step} ({one_line(error)}); "
            "what was learned is saved: mend the corpus and go on with --resume"
        ) from error

    def _step(self, taker: StepTaker[B], micro_batches: list[B], plan: StepPlan) -> StepReport:
        step = self.progress.step
        if self.job.is_new_stage(step):
            # Losses of different stages cannot be compared.
            self.guard.forget()
            self.progress.best_step = self.progress.best_score = None
            self.progress.num_stale = 0
        factor = find_factor(self.settings.schedule, step, num_steps=self.job.num_steps)
        # Each step seeds dropout anew: a checkpoint needs no generator state.
        stream = derive(derive(seed_key(self.settings.seed), _DROPOUT_STREAM), step)
        if self.world.rank:
            stream = derive(stream, self.world.rank)
        torch.manual_seed(int(stream) % 2**63)
        report = taker.take(
            step,
            micro_batches,
            plan,
            learning_rate=self.settings.optimizer.learning_rate * factor,
            options=self.job.find_options(step),
        )
        self.progress.step += 1
        return report

    def _report(self, report: StepReport, window: LogWindow, log: Log) -> None:
        """Log a skipped step, and the mean of the last steps every `log_every` steps."""
        step, total = self.progress.step, self.job.num_steps
        if report.skipped is not None:
            self.reporter.say(f"step {step} left out: {report.skipped}")
            log.write("skip", step, reason=report.skipped, num_skipped=self.guard.num_skipped)
            try:
                self.guard.check(step, report.skipped, learning_rate=self.settings.optimizer.learning_rate)
            except AlbertError:
                self._save(log, is_last=True)
                raise
        if step % self.settings.log_every and step != total:
            return
        figures = window.summarise()
        log.write("train", step, **figures, **self.job.describe(report.step), tokens=self.progress.num_tokens)
        done, all_of_it = self.job.find_cost(step), self.job.find_cost(total)
        recent = done - self.job.find_cost(step - len(window.reports))
        left = window.seconds * (all_of_it - done) / max(recent, 1e-9)
        message = f"step {step:,} of {total:,}, {window.format(figures)}, {format_seconds(left)} left"
        self.reporter.show(self.job.name, message, fraction=done / all_of_it)
        window.clear()

    def _evaluate(self, log: Log) -> None:
        began = time.perf_counter()
        self.model.eval()
        with self.world.whole(self.network), torch.inference_mode(), self._autocast():
            figures = self.job.evaluate(self.progress.step)
        self.model.train()
        progress = self.progress
        progress.figures = figures
        before = progress.best_step, progress.best_score
        score = self.job.score(figures)
        progress.num_stale += 1
        if progress.best_score is None or score < progress.best_score:
            progress.best_step, progress.best_score, progress.num_stale = progress.step, score, 0
        seconds = time.perf_counter() - began
        progress.seconds += seconds
        log.write("evaluate", progress.step, **figures, seconds=round(seconds, 3))
        listed = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
        self.reporter.say(f"step {progress.step:,}, held out: {listed}")
        if not self._save(log):
            progress.best_step, progress.best_score = before
            self._forget_lost_best()

    def _save(self, log: Log, *, is_last: bool = False) -> bool:
        """Write a checkpoint and return whether it worked.

        Where there is no room, training continues and tries again. At its end, it tries a second time (the
        error may be that of the save before, written in the background) and raises.
        """
        for is_retry in (False, True):
            try:
                if self._saved_step != self.progress.step:
                    self._write(log)
                if is_last:
                    self._saver.wait()
                return True
            except OSError as error:  # noqa: PERF203 - at most twice
                self._saved_step = None
                self._forget_lost_best()
                if is_retry or not is_last:
                    self._explain_failed_save(error, is_last=is_last)
                    break
        return False

    def _forget_lost_best(self) -> None:
        """Forget the best step if its checkpoint could not be written."""
        progress = self.progress
        if progress.best_step is not None and progress.best_step not in self._checkpoints.list_steps():
            progress.best_step = progress.best_score = None

    def _write(self, log: Log) -> None:
        began = time.perf_counter()
        self._saved_time = time.monotonic()
        state = {"progress": vars(self.progress).copy(), "guard": self.guard.state()}
        tensors = list_tensors(self.model, self.optimizer)
        self._saver.save(self.progress.step, tensors, state, best_step=self.progress.best_step)
        self._saved_step = self.progress.step
        log.write("save", self.progress.step, seconds=round(time.perf_counter() - began, 3))

    def _explain_failed_save(self, error: OSError, *, is_last: bool) -> None:
        steps = self._checkpoints.list_steps()
        kept = f"the checkpoint of step {steps[-1]} is whole" if steps else "there is no checkpoint yet"
        message = (
            f"{self._checkpoints.path}: step {self.progress.step} could not be saved "
            f"({error.strerror or error}); {kept}"
        )
        if is_last:
            raise InputError(f"{message}. Make room and go on with --resume") from error
        self.reporter.say(f"{message}; training goes on and saving is tried again")
