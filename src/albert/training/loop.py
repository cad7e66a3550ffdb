"""The training loop: steps, evaluations and checkpoints of a job, until its last step or a signal.

A job (pretraining, fine-tuning) brings batches, losses and an evaluation. The loop brings the schedule, the
loss-spike filter, checkpoints, metrics and signals.
"""

import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import torch
from torch import Tensor, nn

from albert.errors import AlbertError, EchoError, FileFormatError, InputError, one_line
from albert.examples.randomness import derive, seed_key
from albert.model.albert_model import AlbertModel
from albert.model.runtime import build_autocast
from albert.progress import Reporter, format_seconds
from albert.threads import count_cores, is_spinning
from albert.training.checkpoints import (
    Checkpoint,
    CheckpointFolder,
    DistributedCheckpointFolder,
    list_tensors,
    restore_tensors,
)
from albert.training.distributed import DistributedContext, is_torchrun, raise_together
from albert.training.optimizers import build_optimizer
from albert.training.run_folder import CHECKPOINTS_DIR, MetricsLog, format_steps, summarize_steps
from albert.training.settings import LoopSettings
from albert.training.step import LossSpikeFilter, Objective, StepPlan, StepReport, TrainStep

B = TypeVar("B")
_DROPOUT_STREAM = 1001  # must not be one of `Stream`, which makes examples


class Job(ABC, Generic[B]):
    """The interface of a training job: model, batches (with token ids in `ids_T`), losses and evaluation."""

    name: str  # shown with the progress
    model: AlbertModel
    settings: LoopSettings

    @property
    @abstractmethod
    def num_steps(self) -> int: ...

    @property
    @abstractmethod
    def objective(self) -> Objective[B]: ...

    @abstractmethod
    def build_network(self) -> nn.Module:
        """Build the module that maps a batch to summed losses and numbers of correct predictions."""

    @abstractmethod
    def iter_batches(self, first_step: int) -> Generator[list[B], None, None]:
        """Yield the micro-batches of each step, from `first_step` on."""

    @abstractmethod
    def evaluate(self, step: int) -> dict[str, float]:
        """Evaluate on held-out data; the model is in evaluation mode."""

    @abstractmethod
    def score(self, figures: dict[str, float]) -> float:
        """Return the number by which the best step is selected; lower is better, as for a loss."""

    def build_optimizer(self) -> torch.optim.Optimizer:
        return build_optimizer(self.model, self.settings.optimizer)

    def find_options(self, step: int) -> dict[str, Any]:
        """Return keyword arguments of the network at a step."""
        return {}

    def is_new_stage(self, step: int) -> bool:
        """Whether the losses from this step on cannot be compared with those before it."""
        return False

    def find_cost(self, step: int) -> float:
        """Return the work before a step, in any unit, for the estimate of the time left."""
        return float(step)

    def describe(self, step: int) -> dict[str, float]:
        """Return more values for the record of a step."""
        return {}


@dataclass
class Progress:
    """The progress of a run, saved in its checkpoints."""

    step: int = 0
    num_tokens: int = 0
    seconds: float = 0.0
    best_step: int | None = None
    best_score: float | None = None
    num_stale: int = 0  # evaluations since the best one
    figures: dict[str, float] = field(default_factory=dict)  # of the last evaluation


class StoppedError(Exception):
    """Raised when a signal, named in the message, has stopped a run; it is saved and can be resumed."""


class TrainingStoppedError(AlbertError):
    """Raised after too many skipped steps in a row; the weights before them are saved."""


@dataclass(frozen=True)
class LoopOutcome:
    """How a run ended; `signal` is the name of the signal that stopped it, if any."""

    progress: Progress
    is_finished: bool
    signal: str | None = None

    def check_finished(self) -> None:
        """Raise a StoppedError if a signal stopped the run."""
        if not self.is_finished:
            raise StoppedError(self.signal or "a signal")


def run_job(
    job: Job[B], *, run_dir: Path, newest: Checkpoint | None, reporter: Reporter, context: DistributedContext
) -> LoopOutcome:
    """Train from the newest checkpoint, or from the beginning, to the end or to a signal."""
    loop = TrainingLoop(job, run_dir=run_dir, reporter=reporter, context=context)
    if newest is not None:
        loop.restore(newest)
        newest.tensors.clear()  # weights and moments, which were copied
        reporter.say(f"Resuming at step {newest.step:,} of {job.num_steps:,}")
    elif loop.checkpoints.list_steps():
        reporter.say("All checkpoints are damaged: starting again from the beginning")
    return loop.run()


def load_newest(run_dir: Path, *, reporter: Reporter, context: DistributedContext) -> Checkpoint | None:
    """Load the newest undamaged checkpoint that the first process finds, in every process."""
    folder = CheckpointFolder(run_dir / CHECKPOINTS_DIR)
    newest = folder.load_newest(say=reporter.say) if context.is_main else None
    step, failure = context.gather(newest and newest.step)[0], None
    if step is not None and newest is None:
        try:
            newest = folder.load(step)
        except AlbertError as error:
            failure = f"{error}, in process {context.rank}; all processes must see the same folder"
    raise_together(context, failure)
    return newest


def fetch_weights(model: AlbertModel, context: DistributedContext) -> dict[str, Tensor]:
    """Gather the weights of a model, sharded or not, on the CPU."""
    return {name: context.full_tensor(tensor).cpu() for name, tensor in model.state_dict().items()}


def load_best(
    run_dir: Path, step: int, *, names: Iterable[str], reporter: Reporter
) -> dict[str, Tensor] | None:
    """Load the weights of the best evaluation; if its checkpoint is damaged, report that and return None."""
    try:
        tensors = CheckpointFolder(run_dir / CHECKPOINTS_DIR).load(step).tensors
    except AlbertError as error:
        reporter.say(f"{error}. The model of the best evaluation, step {step}, is lost.")
        return None
    return {name: tensors[f"model.{name}"] for name in names}


@contextmanager
def _collect_signals() -> Iterator[list[signal.Signals]]:
    """Collect SIGINT and SIGTERM while the block lasts; a second Ctrl-C raises KeyboardInterrupt."""
    caught: list[signal.Signals] = []

    def handle(number: int, frame: object) -> None:
        if number == signal.SIGINT and signal.SIGINT in caught:
            raise KeyboardInterrupt
        caught.append(signal.Signals(number))

    is_main = threading.current_thread() is threading.main_thread()  # others cannot set handlers
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    previous = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield caught
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class TrainingLoop(Generic[B]):
    """Trains one job from its first step, or from a checkpoint, to its last."""

    def __init__(
        self, job: Job[B], *, run_dir: Path, reporter: Reporter, context: DistributedContext | None = None
    ) -> None:
        self.job, self.model, self.settings = job, job.model, job.settings
        self.run_dir, self.reporter, self.context = run_dir, reporter, context or DistributedContext()
        self.network = self.context.wrap(job.build_network())
        self.optimizer = job.build_optimizer()  # over the parameters as they are sharded
        self.progress = Progress()
        self.spike_filter = LossSpikeFilter(self.settings.loss_spike_filter)
        self.autocast = build_autocast(self.settings.runtime)
        limit = self.settings.optimizer.max_grad_norm
        self.train_step = TrainStep(
            self.network, self.optimizer, job.objective, self.spike_filter, limit, self.autocast, self.context
        )
        path, num_kept = run_dir / CHECKPOINTS_DIR, self.settings.num_checkpoints
        self.checkpoints = CheckpointFolder(path, num_kept)
        if is_torchrun():
            self.checkpoints = DistributedCheckpointFolder(path, num_kept, self.context)
        self._saved_step: int | None = None
        self._saved_time = time.monotonic()

    def restore(self, checkpoint: Checkpoint) -> None:
        restore_tensors(checkpoint.tensors, self.model, self.optimizer, self.context)
        self.progress = Progress(**checkpoint.state["progress"])
        self.spike_filter.restore(checkpoint.state["guard"])  # its name in earlier checkpoints
        self._saved_step = checkpoint.step

    def run(self) -> LoopOutcome:
        """Train to the end, or until a signal, and save in both cases."""
        log = MetricsLog(self.run_dir, say=self.reporter.say)
        if self.context.is_main:
            log.open(first_step=self.progress.step, has_tensorboard=self.settings.has_tensorboard)
        with _collect_signals() as signals, closing(log):
            threads = torch.get_num_threads()
            machine = {"threads": threads, "cores": count_cores(), "is_spinning": is_spinning()}
            now = round(time.time(), 3)
            log.write("start", self.progress.step, processes=self.context.size, **machine, time=now)
            try:
                self._train(log, signals)
            except BaseException as error:
                log.write("end", self.progress.step, is_finished=False, error=one_line(error))
                raise
            is_finished = self._is_finished
            self._save(log, is_last=True)
            # Without a signal of its own, this process was stopped by the signal of another one.
            ended_by = None if is_finished else signals[-1].name if signals else "SIGTERM"
            log.write("end", self.progress.step, is_finished=is_finished, signal=ended_by)
        return LoopOutcome(self.progress, is_finished, ended_by)

    def _train(self, log: MetricsLog, signals: list[signal.Signals]) -> None:
        reports: list[StepReport] = []  # since the last record
        self.model.train()
        with closing(self.job.iter_batches(self.progress.step)) as batches:
            while not self._is_finished:
                start = time.perf_counter()
                micro_batches: list[Any] = []
                failure: Exception | None = None
                try:
                    micro_batches = next(batches)
                except Exception as error:  # damaged data may fail in any way; the state is saved first
                    failure = error
                waited = time.perf_counter() - start
                is_due = time.monotonic() - self._saved_time > 60.0 * self.settings.save_minutes
                flags = bool(signals), failure is not None, is_due
                num_tokens = sum(len(batch.ids_T) for batch in micro_batches)
                plan = self.train_step.plan(micro_batches, num_tokens=num_tokens, flags=flags)
                if plan.is_failed:
                    self._fail(failure, log)
                if plan.is_stopped:
                    return
                report = self._run_step(micro_batches, plan)
                seconds = time.perf_counter() - start
                self.progress.num_tokens += plan.num_tokens
                self.progress.seconds += seconds
                reports.append(replace(report, waited_seconds=waited, seconds=seconds))
                if report.skipped is not None:
                    self._report_skipped(report.skipped, log)
                step, total, number = self.progress.step, self.job.num_steps, self.settings.num_evaluations
                if step % self.settings.log_every == 0 or step == total:
                    self._report(reports, log)
                    reports = []
                # As many evaluations as set, evenly spread, the last one at the end.
                if step * number // total > (step - 1) * number // total:
                    self._evaluate(log)
                if plan.is_saved:
                    self._save(log)

    @property
    def _is_finished(self) -> bool:
        patience = self.settings.patience
        is_stale = patience is not None and self.progress.num_stale >= patience
        return is_stale or self.progress.step >= self.job.num_steps

    def _fail(self, error: Exception | None, log: MetricsLog) -> NoReturn:
        """Save and raise, because the data of one process could not be read."""
        self._save(log, is_last=True)
        if error is None or isinstance(error, AlbertError):
            raise error or EchoError("another process cannot read its data")
        raise FileFormatError(
            f"cannot read the data at step {self.progress.step} ({one_line(error)}). All steps are saved: "
            "fix the data and use --resume"
        ) from error

    def _run_step(self, micro_batches: list[B], plan: StepPlan) -> StepReport:
        step = self.progress.step
        if self.job.is_new_stage(step):
            self.spike_filter.reset()
            self.progress.best_step = self.progress.best_score = None
            self.progress.num_stale = 0
        factor = self.settings.schedule.find_factor(step, num_steps=self.job.num_steps)
        # Each step seeds dropout anew: a checkpoint needs no generator state.
        stream = derive(derive(seed_key(self.settings.seed), _DROPOUT_STREAM), step)
        if self.context.rank:
            stream = derive(stream, self.context.rank)
        torch.manual_seed(int(stream) % 2**63)
        report = self.train_step.run(
            micro_batches,
            plan,
            learning_rate=self.settings.optimizer.learning_rate * factor,
            options=self.job.find_options(step),
        )
        self.progress.step += 1
        return report

    def _report_skipped(self, reason: str, log: MetricsLog) -> None:
        """Report a skipped step; save and raise after too many in a row."""
        step, number = self.progress.step, self.spike_filter.num_in_a_row
        self.reporter.say(f"Skipped step {step}: {reason}")
        log.write("skip", step, reason=reason, num_skipped=self.spike_filter.num_skipped)
        if number >= self.settings.loss_spike_filter.max_skipped:
            self._save(log, is_last=True)
            raise TrainingStoppedError(
                f"Stopped at step {step}: {number} steps in a row were skipped, the last because {reason}. "
                "The weights before them are saved. Start a new run with half the learning rate, "
                f"optimizer.learning_rate={self.settings.optimizer.learning_rate / 2:.3g}"
            )

    def _report(self, reports: list[StepReport], log: MetricsLog) -> None:
        """Log the means of the last steps, and estimate the time left."""
        step, total = self.progress.step, self.job.num_steps
        figures = summarize_steps(reports)
        log.write("train", step, **figures, **self.job.describe(step - 1), tokens=self.progress.num_tokens)
        cost, total_cost = self.job.find_cost(step), self.job.find_cost(total)
        recent = cost - self.job.find_cost(step - len(reports))
        left = sum(report.seconds for report in reports) * (total_cost - cost) / max(recent, 1e-9)
        message = f"step {step:,} of {total:,}, {format_steps(figures)}, {format_seconds(left)} left"
        self.reporter.show(self.job.name, message, fraction=cost / total_cost)

    def _evaluate(self, log: MetricsLog) -> None:
        start = time.perf_counter()
        self.model.eval()
        with self.context.full_parameters(self.network), torch.inference_mode(), self.autocast():
            figures = self.job.evaluate(self.progress.step)
        self.model.train()
        progress = self.progress
        progress.figures = figures
        score = self.job.score(figures)
        progress.num_stale += 1
        if progress.best_score is None or score < progress.best_score:
            progress.best_step, progress.best_score, progress.num_stale = progress.step, score, 0
        seconds = time.perf_counter() - start
        progress.seconds += seconds
        log.write("evaluate", progress.step, **figures, seconds=round(seconds, 3))
        listed = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
        self.reporter.say(f"step {progress.step:,}, held out: {listed}")
        self._save(log)

    def _save(self, log: MetricsLog, *, is_last: bool = False) -> None:
        """Write a checkpoint.

        If the disk is full, training continues and tries again later. At the end it tries twice (the error
        may be that of the previous save, which is written in the background) and raises.
        """
        for is_repeated in (False, True):
            try:
                if self._saved_step != self.progress.step:
                    self._write_checkpoint(log)
                if is_last:
                    self.checkpoints.wait()
                return
            except OSError as error:  # noqa: PERF203 - at most twice
                self._saved_step = None
                message = (
                    f"{self.checkpoints.path}: cannot save step {self.progress.step} "
                    f"({error.strerror or error}). Checkpoints: {self.checkpoints.list_steps() or 'none'}"
                )
                if not is_last:
                    self.reporter.say(f"{message}. Training continues and tries to save again later.")
                    return
                if is_repeated:
                    raise InputError(f"{message}. Free some space and use --resume") from error

    def _write_checkpoint(self, log: MetricsLog) -> None:
        start = time.perf_counter()
        self._saved_time = time.monotonic()
        step = self.progress.step
        state = {"progress": vars(self.progress).copy(), "guard": self.spike_filter.state()}
        checkpoint = Checkpoint(step, list_tensors(self.model, self.optimizer), state)
        self.checkpoints.save(checkpoint, best_step=self.progress.best_step)
        self._saved_step = step
        log.write("save", step, seconds=round(time.perf_counter() - start, 3))
