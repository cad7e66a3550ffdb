"""The training loop: a job comes in; steps, evaluations and checkpoints happen; how it ended goes out.

Pretraining and fine-tuning are jobs of this one loop.
"""

import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import torch
from torch import nn

from albert.errors import AlbertError, EchoError, FileFormatError, InputError, one_line
from albert.examples.randomness import derive, seed_key
from albert.reporting import Reporter, format_seconds
from albert.training.checkpoints import Checkpoint, CheckpointFolder
from albert.training.guard import Guard
from albert.training.health import count_cores
from albert.training.job import Job, LoopOutcome, Progress
from albert.training.launch import open_saver
from albert.training.loop_settings import LoopSettings
from albert.training.metrics import MetricsLog, SilentLog
from albert.training.run_folder import CHECKPOINTS_DIR
from albert.training.schedules import find_factor
from albert.training.signals import StopRequest
from albert.training.state import list_tensors, restore_tensors
from albert.training.step import StepPlan, StepReport, StepTaker
from albert.training.window import LogWindow
from albert.training.world import World

B = TypeVar("B")
Log = MetricsLog | SilentLog
_DROPOUT_STREAM = 1001  # far from the streams that make examples


class TrainingLoop(Generic[B]):
    """One job on its way from its first step, or from a checkpoint, to its last."""

    def __init__(
        self,
        job: Job[B],
        *,
        model: nn.Module,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        settings: LoopSettings,
        run_dir: Path,
        seed: int,
        reporter: Reporter,
        autocast: Any = nullcontext,
        world: World | None = None,
    ) -> None:
        self.job, self.model, self.network, self.optimizer = job, model, network, optimizer
        self.settings, self.world = settings, world or World()
        self.run_dir, self.seed, self.reporter, self._autocast = run_dir, seed, reporter, autocast
        self.progress = Progress()
        self.guard = Guard(settings.guard)
        self._checkpoints = CheckpointFolder(run_dir / CHECKPOINTS_DIR, settings.num_checkpoints)
        self._saver = open_saver(self.world, self._checkpoints)
        self._saved_step: int | None = None
        self._saved_time = time.monotonic()

    def restore(self, checkpoint: Checkpoint) -> None:
        """Take up a checkpoint; from here on everything is as if the run had never stopped."""
        restore_tensors(checkpoint.tensors, self.model, self.optimizer, self.world)
        self.progress = Progress(**checkpoint.state["progress"])
        self.guard.restore(checkpoint.state["guard"])
        self._saved_step = checkpoint.step

    def run(self) -> LoopOutcome:
        """Train to the end, or until a signal; saved in both cases."""
        log: Log = self._open_log() if self.world.is_main else SilentLog()
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
            # Stopped without a signal of its own, a process was stopped by another's.
            name = "SIGTERM" if stop.signal is None else stop.signal.name
            signal = None if is_finished else name
            log.write("end", self.progress.step, is_finished=is_finished, signal=signal)
        return LoopOutcome(self.progress, is_finished, signal)

    def _open_log(self) -> MetricsLog:
        return MetricsLog(
            self.run_dir,
            first_step=self.progress.step,
            say=self.reporter.say,
            has_tensorboard=self.settings.has_tensorboard,
        )

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
                    is_stopped=stop.is_set,
                    is_failed=failure is not None,
                    is_saved=self._is_save_due(),
                )
                if plan.is_failed:
                    self._give_up(failure, log)
                if plan.is_stopped:
                    return
                report = self._step(taker, micro_batches, plan)
                self.progress.num_tokens += plan.num_tokens
                self.progress.seconds += time.perf_counter() - began
                seconds = time.perf_counter() - began
                window.add(report, num_tokens=plan.num_tokens, waited=waited, seconds=seconds)
                self._note(report, window, log)
                if self._is_evaluation_due():
                    self._evaluate(log)
                if plan.is_saved:
                    self._save(log)

    @property
    def _is_finished(self) -> bool:
        patience = self.settings.patience
        is_settled = patience is not None and self.progress.num_stale >= patience
        return is_settled or self.progress.step >= self.job.num_steps

    def _fetch(self, batches: Iterator[list[B]]) -> tuple[list[B], Exception | None]:
        """The next step's batches, or why there are none."""
        try:
            return next(batches), None
        except Exception as error:  # damaged data may fail in any way; what was learned is saved first
            return [], error

    def _give_up(self, error: Exception | None, log: Log) -> NoReturn:
        """End because the data of one process failed; what was learned is saved first, by all of them."""
        self._save(log, is_last=True)
        if error is None:
            raise EchoError("another process could not read its data")
        if isinstance(error, AlbertError):
            raise error
        raise FileFormatError(
            f"the data could not be read at step {self.progress.step} ({' '.join(str(error).split())}); "
            "what was learned is saved: mend the corpus and go on with --resume"
        ) from error

    def _step(self, taker: StepTaker[B], micro_batches: list[B], plan: StepPlan) -> StepReport:
        step = self.progress.step
        if self.job.is_new_stage(step):
            # What was good before is no measure for what comes now.
            self.guard.forget()
            self.progress.best_step = self.progress.best_score = None
            self.progress.num_stale = 0
        factor = find_factor(self.settings.schedule, step, num_steps=self.job.num_steps)
        # Dropout draws from a stream of its own at each step: nothing to keep, and nothing to go astray.
        stream = derive(derive(seed_key(self.seed), _DROPOUT_STREAM), step)
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

    def _note(self, report: StepReport, window: LogWindow, log: Log) -> None:
        step = self.progress.step
        if report.skipped is not None:
            self.reporter.say(f"step {step} left out: {report.skipped}")
            log.write("skip", step, reason=report.skipped, num_skipped=self.guard.num_skipped)
            try:
                self.guard.check(step, report.skipped, learning_rate=self.settings.optimizer.learning_rate)
            except AlbertError:
                self._save(log, is_last=True)
                raise
        is_last = step == self.job.num_steps
        if step % self.settings.log_every == 0 or is_last:
            figures = window.summarise()
            log.write(
                "train", step, **figures, **self.job.describe(report.step), tokens=self.progress.num_tokens
            )
            message = f"step {step:,} of {self.job.num_steps:,}, {window.format(figures)}"
            left = self._estimate_left(window.seconds, window.num_steps)
            self.reporter.show(
                self.job.name, f"{message}{left}", fraction=self.job.find_cost(step) / self._total_cost
            )
            window.clear()

    @property
    def _total_cost(self) -> float:
        return self.job.find_cost(self.job.num_steps)

    def _estimate_left(self, seconds: float, num_steps: int) -> str:
        step = self.progress.step
        recent = self.job.find_cost(step) - self.job.find_cost(step - num_steps)
        left = seconds * (self._total_cost - self.job.find_cost(step)) / max(recent, 1e-9)
        return f", {format_seconds(left)} left"

    def _is_evaluation_due(self) -> bool:
        # As many as were asked for, evenly spread, the last one at the end.
        step, total, number = self.progress.step, self.job.num_steps, self.settings.num_evaluations
        return step * number // total > (step - 1) * number // total

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

    def _is_save_due(self) -> bool:
        return time.monotonic() - self._saved_time > 60.0 * self.settings.save_minutes

    def _save(self, log: Log, *, is_last: bool = False) -> bool:
        """Write a checkpoint; where there is no room the run goes on and tries again, but not at its end."""
        try:
            self._write(log, is_last=is_last)
        except OSError as error:
            self._saved_step = None
            self._forget_lost_best()
            if is_last:  # it may be the save before this one that failed, and the next one is the last
                return self._save_at_last(log)
            self._explain_failed_save(error, is_last=False)
            return False
        return True

    def _forget_lost_best(self) -> None:
        """The best is one that is there; what failed to be written aside is known only at the next save."""
        progress = self.progress
        if progress.best_step is not None and progress.best_step not in self._checkpoints.list_steps():
            progress.best_step = progress.best_score = None

    def _save_at_last(self, log: Log) -> bool:
        try:
            self._write(log, is_last=True)
        except OSError as error:
            self._explain_failed_save(error, is_last=True)
            return False
        return True

    def _write(self, log: Log, *, is_last: bool) -> None:
        if self._saved_step != self.progress.step:
            self._begin_save(log)
        if is_last:
            self._saver.wait()

    def _begin_save(self, log: Log) -> None:
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
