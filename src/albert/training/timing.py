"""A budget and a recipe come in; the recipe with as many steps as fit into the time goes out."""

import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import nn

from albert.examples.batches import PretrainingBatch
from albert.model.runtime import build_autocast
from albert.reporting import Reporter, format_seconds
from albert.training.budget import ShapeCost, fit_steps
from albert.training.checkpoints import CheckpointFolder
from albert.training.guard import Guard
from albert.training.pretrain_data import PretrainData
from albert.training.pretrain_job import PretrainJob
from albert.training.pretrain_model import build_pretrain_model
from albert.training.settings import PretrainSettings
from albert.training.state import Saver, list_tensors
from albert.training.step import StepTaker
from albert.training.world import World

_SAMPLE = 64  # examples of an evaluation
_NUM_BATCHES = 4  # of each shape, made before the clock starts
_TIMED_SHARE = 0.05  # of a budget goes into measuring how long a step takes


def freeze_steps(
    settings: PretrainSettings,
    data: PretrainData,
    run_dir: Path,
    *,
    seconds: float,
    began: float,
    reporter: Reporter,
    world: World,
) -> PretrainSettings:
    """Time a few steps of each shape on a model that is thrown away, and choose the number of steps.

    Evaluations and checkpoints are timed, too; `began` is when the clock of the budget started. Warm-up
    becomes a share: so many steps of a long run may be all of a short one.
    """
    cost = time_recipe(settings, data, run_dir, limit=_TIMED_SHARE * seconds, reporter=reporter, world=world)
    fitting = fit_steps(seconds - (time.monotonic() - began) - cost.pause_seconds, cost.shapes)
    num_steps = int(world.exchange([fitting])[0][0])  # the first one's clock counts
    reporter.say(f"{num_steps:,} steps fit into {format_seconds(seconds)}: {cost.describe()}")
    return share_warmup(settings).model_copy(update={"num_steps": num_steps})


@dataclass(frozen=True)
class RecipeCost:
    """How long the steps of a recipe take, by their kinds, and all that is not a step: `pause_seconds`."""

    shapes: tuple[ShapeCost, ...]
    names: tuple[str, ...]
    pause_seconds: float

    @property
    def step_seconds(self) -> float:
        """A step, on average over the kinds."""
        return sum(shape.share * shape.seconds for shape in self.shapes)

    def describe(self) -> str:
        """For a person."""
        pairs = zip(self.names, self.shapes, strict=True)
        return ", ".join(f"{shape.seconds:.3g} s a step of {name}" for name, shape in pairs)


def time_recipe(
    settings: PretrainSettings,
    data: PretrainData,
    run_dir: Path,
    *,
    limit: float,
    reporter: Reporter,
    world: World,
) -> RecipeCost:
    """Time steps of each shape for about `limit` seconds, then evaluations and checkpoints.

    The model is thrown away. Refused: a corpus that does not fill a batch.
    """
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
    if world.size == 1:  # many processes write theirs while they train
        pauses += settings.num_evaluations * _time_save(job, run_dir)
    return RecipeCost(
        tuple(
            ShapeCost(len(steps) / long.num_steps, each)
            for (_, steps), each in zip(shapes, times, strict=True)
        ),
        tuple(f"depth {shape.depth} and length {shape.length}" for shape, _ in shapes),
        pauses,
    )


def share_warmup(settings: PretrainSettings) -> PretrainSettings:
    """The same with warm-up as a share of the steps."""
    schedule = settings.schedule
    if schedule.warmup_steps is None:
        return settings
    share = schedule.warmup_steps / settings.num_steps
    changed = schedule.model_copy(update={"warmup_steps": None, "warmup_share": share})
    return settings.model_copy(update={"schedule": changed})


def _time_shapes(job: PretrainJob, network: nn.Module, *, limit: float) -> list[float]:
    """Seconds of a step of each shape: all of them in turns, so that a slow moment is nobody's alone."""
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
    batches = [_take_batches(job, step) for step in steps]
    times: list[list[float]] = [[] for _ in steps]
    began = time.perf_counter()
    # The first round warms up and is not counted.
    while len(times[0]) < 4 or job.world.exchange([time.perf_counter() - began])[0][0] < limit:
        for number, step in enumerate(steps):
            found = batches[number][len(times[number]) % _NUM_BATCHES]
            start = time.perf_counter()
            taker.take(step, found, taker.plan(found), learning_rate=0.0, options=job.find_options(step))
            times[number].append(time.perf_counter() - start)
    return [sum(found[1:]) / (len(found) - 1) for found in times]


def _take_batches(job: PretrainJob, step: int) -> list[list[PretrainingBatch]]:
    with closing(job.iter_batches(step)) as batches:
        return list(islice(batches, _NUM_BATCHES))


def _time_evaluations(job: PretrainJob) -> float:
    """Seconds of all evaluations of a run: a few examples are timed at each depth that will be asked."""
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
    # The last evaluation, or every one, asks both sentence questions.
    twice = depths if held_out.asks_both else depths[-1:]
    return sum(seconds[depth] for depth in [*depths, *twice])


def _time_save(job: PretrainJob, run_dir: Path) -> float:
    """Seconds of a checkpoint, written where those of the run will be."""
    optimizer = job.build_optimizer()
    began = time.perf_counter()
    tensors = list_tensors(job.model, optimizer)
    moments = {f"{number}.{name}": value.clone() for number in (1, 2) for name, value in tensors.items()}
    with tempfile.TemporaryDirectory(prefix=".timing.", dir=run_dir) as name:
        Saver(CheckpointFolder(Path(name))).save(0, {**tensors, **moments}, {}, best_step=None)
        return time.perf_counter() - began
