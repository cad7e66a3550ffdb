"""A time budget: time the steps of a recipe and choose as many as fit."""

import re
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import nn

from albert.errors import InputError
from albert.model.runtime import build_autocast
from albert.progress import Reporter, format_seconds
from albert.training.checkpoints import CheckpointFolder, Saver, list_tensors
from albert.training.pretrain_job import PretrainData, PretrainJob, build_pretrain_model
from albert.training.settings import PretrainSettings
from albert.training.step import Guard, StepTaker
from albert.training.world import DistributedContext

_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_SAMPLE = 64  # examples of an evaluation
_NUM_BATCHES = 4  # of each shape, made before the clock starts
_TIMED_SHARE = 0.05  # of a budget is spent on timing steps


@dataclass(frozen=True)
class ShapeCost:
    """A shape of steps: its share of all steps, and the seconds of one."""

    share: float
    seconds: float


@dataclass(frozen=True)
class RecipeCost:
    """The cost of each shape of steps, and the seconds of everything else: `pause_seconds`."""

    shapes: tuple[ShapeCost, ...]
    names: tuple[str, ...]
    pause_seconds: float

    @property
    def step_seconds(self) -> float:
        return sum(shape.share * shape.seconds for shape in self.shapes)

    def describe(self) -> str:
        pairs = zip(self.names, self.shapes, strict=True)
        return ", ".join(f"{shape.seconds:.3g} s a step of {name}" for name, shape in pairs)


def parse_duration(text: str) -> float:
    """Parse `2h`, `90m`, `1h30m` or `45s` into seconds."""
    compact = text.replace(" ", "").lower()
    if not re.fullmatch(r"(?:\d+(?:\.\d+)?[dhms])+", compact):
        raise InputError(f"a budget of {text!r} is not understood; write 45s, 20m, 2h or 1h30m")
    parts = re.findall(r"(\d+(?:\.\d+)?)([dhms])", compact)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds <= 0:
        raise InputError(f"a budget of {text!r} is no time at all; write 45s, 20m, 2h or 1h30m")
    return seconds


def freeze_steps(
    settings: PretrainSettings,
    data: PretrainData,
    run_dir: Path,
    *,
    seconds: float,
    began: float,
    reporter: Reporter,
    world: DistributedContext,
) -> PretrainSettings:
    """Time a few steps of each shape on a temporary model, and choose the number of steps.

    Evaluations and checkpoints are timed as well; `began` is when the clock of the budget started. Warm-up
    becomes a share of the steps.
    """
    cost = time_recipe(settings, data, run_dir, limit=_TIMED_SHARE * seconds, reporter=reporter, world=world)
    fitting = fit_steps(seconds - (time.monotonic() - began) - cost.pause_seconds, cost.shapes)
    num_steps = int(world.exchange([fitting])[0][0])  # by the clock of the first process
    reporter.say(f"{num_steps:,} steps fit into {format_seconds(seconds)}: {cost.describe()}")
    return share_warmup(settings).model_copy(update={"num_steps": num_steps})


def fit_steps(seconds: float, shapes: Sequence[ShapeCost]) -> int:
    """Compute how many steps fit into the time; raise an InputError for fewer than ten."""
    mean = sum(shape.share * shape.seconds for shape in shapes)
    num_steps = int(seconds / mean)
    if num_steps < 10:
        raise InputError(
            f"the budget leaves {max(seconds, 0):.0f} s for training and a step takes {mean:.1f} s: room for "
            f"{max(num_steps, 0)} steps; give more time, or choose a smaller batch_size or model"
        )
    return num_steps


def share_warmup(settings: PretrainSettings) -> PretrainSettings:
    """Express warm-up as a share of the steps."""
    schedule = settings.schedule
    if schedule.warmup_steps is None:
        return settings
    share = schedule.warmup_steps / settings.num_steps
    changed = schedule.model_copy(update={"warmup_steps": None, "warmup_share": share})
    return settings.model_copy(update={"schedule": changed})


def time_recipe(
    settings: PretrainSettings,
    data: PretrainData,
    run_dir: Path,
    *,
    limit: float,
    reporter: Reporter,
    world: DistributedContext,
) -> RecipeCost:
    """Time steps of each shape for about `limit` seconds, then evaluations and checkpoints."""
    model = build_pretrain_model(settings)
    long = settings.model_copy(update={"num_steps": 1_000_000})
    job = PretrainJob(model, long, data, world)
    job.check()
    shapes = job.curriculum.list_shapes()
    reporter.show("timing", f"steps of {len(shapes)} shapes")
    network = world.spread(job.build_network())
    times = _time_shapes(job, network, limit=limit)
    with world.whole(network):
        pauses = _time_evaluations(job)
    if world.size == 1:  # several processes write checkpoints while they train
        pauses += settings.num_evaluations * _time_save(job, run_dir)
    shares = [len(steps) / long.num_steps for _, steps in shapes]
    return RecipeCost(
        tuple(ShapeCost(share, each) for share, each in zip(shares, times, strict=True)),
        tuple(f"depth {shape.depth} and length {shape.length}" for shape, _ in shapes),
        pauses,
    )


def _time_shapes(job: PretrainJob, network: nn.Module, *, limit: float) -> list[float]:
    """Time a step of each shape, all of them in turns, so that a slow moment affects all alike."""
    settings = job.settings
    taker = StepTaker(
        network,
        job.build_optimizer(),
        job.objective,
        Guard(settings.guard),
        settings.optimizer.max_grad_norm,
        build_autocast(settings.runtime),
        job.world,
    )
    job.model.train()
    steps = [steps.start for _, steps in job.curriculum.list_shapes()]
    batches = []
    for step in steps:
        with closing(job.iter_batches(step)) as found:
            batches.append(list(islice(found, _NUM_BATCHES)))
    times: list[list[float]] = [[] for _ in steps]
    began = time.perf_counter()
    # The first round warms up and is not counted.
    while len(times[0]) < 4 or job.world.exchange([time.perf_counter() - began])[0][0] < limit:
        for number, step in enumerate(steps):
            batch = batches[number][len(times[number]) % _NUM_BATCHES]
            start = time.perf_counter()
            taker.take(step, batch, taker.plan(batch), learning_rate=0.0, options=job.find_options(step))
            times[number].append(time.perf_counter() - start)
    return [sum(each[1:]) / (len(each) - 1) for each in times]


def _time_evaluations(job: PretrainJob) -> float:
    """Estimate the seconds of all evaluations of a run from a few examples at each depth."""
    number, held_out = job.settings.num_evaluations, job.settings.held_out
    objective = job.settings.examples.objective
    num_examples = min(held_out.num_examples, job.build_held_out(objective).num_examples)
    sample = min(_SAMPLE, num_examples)
    steps = [max(1, count * job.num_steps // number) for count in range(1, number + 1)]
    depths = [job.curriculum.find(step - 1).depth for step in steps]
    seconds = {}
    job.model.eval()
    with torch.inference_mode(), build_autocast(job.settings.runtime)():
        for depth in sorted(set(depths)):
            began = time.perf_counter()
            job.ask(objective, depth=depth, num_examples=sample)
            seconds[depth] = (time.perf_counter() - began) * num_examples / sample
    # The last evaluation, or every one, has both sentence objectives.
    twice = depths if held_out.asks_both else depths[-1:]
    return sum(seconds[depth] for depth in [*depths, *twice])


def _time_save(job: PretrainJob, run_dir: Path) -> float:
    """Time a checkpoint, written where those of the run will be."""
    optimizer = job.build_optimizer()
    began = time.perf_counter()
    tensors = list_tensors(job.model, optimizer)
    moments = {f"{number}.{name}": value.clone() for number in (1, 2) for name, value in tensors.items()}
    with tempfile.TemporaryDirectory(prefix=".timing.", dir=run_dir) as name:
        Saver(CheckpointFolder(Path(name))).save(0, {**tensors, **moments}, {}, best_step=None)
        return time.perf_counter() - began
