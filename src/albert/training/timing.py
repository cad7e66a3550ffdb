"""A budget and a recipe come in; the recipe with as many steps as fit into the time goes out."""

import tempfile
import time
from contextlib import closing
from pathlib import Path

import torch

from albert.reporting import Reporter, format_seconds
from albert.training.budget import ShapeCost, fit_steps
from albert.training.checkpoints import Checkpoint, CheckpointFolder, gather_tensors
from albert.training.guard import Guard
from albert.training.optimizers import build_optimizer
from albert.training.pretrain_data import PretrainData
from albert.training.pretrain_job import PretrainJob
from albert.training.pretrain_model import build_autocast, build_pretrain_model
from albert.training.settings import PretrainSettings
from albert.training.step import StepTaker

_SAMPLE = 64  # examples of an evaluation
_TIMED_SHARE = 0.03  # of a budget goes into measuring how long a step takes


def freeze_steps(
    settings: PretrainSettings,
    data: PretrainData,
    run_dir: Path,
    *,
    seconds: float,
    began: float,
    reporter: Reporter,
) -> PretrainSettings:
    """Time a few steps of each shape on a model that is thrown away, and choose the number of steps.

    Evaluations and checkpoints are timed, too; `began` is when the clock of the budget started. Warm-up
    becomes a share: so many steps of a long run may be all of a short one.
    """
    model = build_pretrain_model(settings, data.tokenizer)
    long = settings.model_copy(update={"num_steps": 1_000_000})
    job = PretrainJob(model, long, data)
    job.check()
    shapes = job.curriculum.list_shapes()
    costs, step = [], 0
    for shape, num_steps in shapes:
        reporter.show("timing", f"steps of depth {shape.depth} and length {shape.length}")
        limit = _TIMED_SHARE * seconds * num_steps / long.num_steps
        costs.append(ShapeCost(num_steps / long.num_steps, _time_steps(job, step, limit)))
        step += num_steps
    pauses = _time_evaluations(job) + settings.num_evaluations * _time_save(job, run_dir)
    num_steps = fit_steps(seconds - (time.monotonic() - began) - pauses, costs)
    listed = ", ".join(
        f"{cost.seconds:.3g} s a step of depth {shape.depth} and length {shape.length}"
        for (shape, _), cost in zip(shapes, costs, strict=True)
    )
    reporter.say(f"{num_steps:,} steps fit into {format_seconds(seconds)}: {listed}")
    return share_warmup(settings).model_copy(update={"num_steps": num_steps})


def share_warmup(settings: PretrainSettings) -> PretrainSettings:
    """The same with warm-up as a share of the steps."""
    schedule = settings.schedule
    if schedule.warmup_steps is None:
        return settings
    share = schedule.warmup_steps / settings.num_steps
    changed = schedule.model_copy(update={"warmup_steps": None, "warmup_share": share})
    return settings.model_copy(update={"schedule": changed})


def _time_steps(job: PretrainJob, step: int, limit: float) -> float:
    """Seconds of a step of one shape: the mean of at least three, after one that warms up."""
    settings = job.settings
    taker = StepTaker(
        job.model,
        build_optimizer(job.model, settings.optimizer),
        job.objective,
        Guard(settings.guard),
        settings.optimizer.max_grad_norm,
        build_autocast(settings.runtime),
    )
    job.model.train()
    times: list[float] = []
    with closing(job.iter_batches(step)) as batches:
        while len(times) < 4 or (sum(times) < limit and len(times) < 200):
            began = time.perf_counter()
            taker.take(step, next(batches), learning_rate=0.0)
            times.append(time.perf_counter() - began)
    return sum(times[1:]) / (len(times) - 1)


def _time_evaluations(job: PretrainJob) -> float:
    """Seconds of all evaluations of a run: a few examples are timed at each depth that will be asked."""
    number, held_out = job.settings.num_evaluations, job.settings.held_out
    sample = min(_SAMPLE, held_out.num_examples)
    steps = [max(1, count * job.num_steps // number) for count in range(1, number + 1)]
    depths = [job.curriculum.find(step - 1).depth for step in steps]
    seconds = {}
    job.model.eval()
    with torch.inference_mode(), build_autocast(job.settings.runtime)():
        for depth in sorted(set(depths)):
            began = time.perf_counter()
            job.ask(job.settings.examples.objective, depth=depth, num_examples=sample)
            seconds[depth] = (time.perf_counter() - began) * held_out.num_examples / sample
    # The last evaluation, or every one, asks both sentence questions.
    twice = depths if held_out.asks_both else depths[-1:]
    return sum(seconds[depth] for depth in [*depths, *twice])


def _time_save(job: PretrainJob, run_dir: Path) -> float:
    """Seconds of a checkpoint, written where those of the run will be."""
    optimizer = build_optimizer(job.model, job.settings.optimizer)
    began = time.perf_counter()
    tensors = gather_tensors(job.model, optimizer)
    moments = {f"{number}.{name}": value.clone() for number in (1, 2) for name, value in tensors.items()}
    with tempfile.TemporaryDirectory(prefix=".timing.", dir=run_dir) as name:
        CheckpointFolder(Path(name)).save(Checkpoint(0, {**tensors, **moments}, {}))
        return time.perf_counter() - began
