"""Time budgets: measure the steps of a recipe and choose as many as fit into the time.

They are measured once. The number of steps becomes a setting of the run, which a resumed run keeps.
"""

import re
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from albert.errors import InputError
from albert.model.runtime import build_autocast
from albert.progress import Reporter, format_seconds
from albert.training.checkpoints import Checkpoint, CheckpointFolder, list_tensors
from albert.training.loop import TrainingLoop
from albert.training.settings import PretrainSettings

if TYPE_CHECKING:
    from albert.examples.batches import PretrainingBatch
    from albert.training.pretrain import PretrainJob

_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_MIN_STEPS = 10
_SAMPLE = 64  # examples of an evaluation
_NUM_BATCHES = 4  # of each shape, made before the clock starts
_TIMED_SHARE = 0.05  # of a budget is spent on timing steps


@dataclass(frozen=True)
class ShapeCost:
    """The cost of a shape of steps."""

    name: str
    share: float  # of all steps
    seconds: float  # of one step


@dataclass(frozen=True)
class RecipeCost:
    """The cost of each shape of steps, and the seconds of evaluations and checkpoints."""

    shapes: Sequence[ShapeCost]
    pause_seconds: float

    @property
    def step_seconds(self) -> float:
        return sum(shape.share * shape.seconds for shape in self.shapes)

    def count_steps(self, seconds: float) -> int:
        """Count the steps that fit into the time; raise an InputError for fewer than ten."""
        available = seconds - self.pause_seconds
        num_steps = int(available / self.step_seconds)
        if num_steps < _MIN_STEPS:
            raise InputError(
                f"the budget leaves {max(available, 0):.0f} s for {max(num_steps, 0)} steps, but at least "
                f"{_MIN_STEPS} are needed; give more time, or choose a smaller batch_size or model"
            )
        return num_steps


def parse_duration(text: str) -> float:
    """Parse `2h`, `90m`, `1h30m` or `45s` into seconds."""
    compact = text.replace(" ", "").lower()
    parts = re.findall(r"(\d+(?:\.\d+)?)([dhms])", compact)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != compact or seconds <= 0:
        raise InputError(f"{text!r} is not a time budget; write it as 45s, 20m, 2h or 1h30m")
    return seconds


def freeze_steps(
    job: "PretrainJob", run_dir: Path, *, seconds: float, start: float, reporter: Reporter
) -> PretrainSettings:
    """Time a few steps and return the settings with as many as fit into the time since `start`."""
    cost = time_recipe(job, run_dir, limit=_TIMED_SHARE * seconds, reporter=reporter)
    fitting = cost.count_steps(seconds - (time.monotonic() - start))
    num_steps = int(job.context.gather_floats([fitting])[0][0])  # the first process decides by its clock
    listed = ", ".join(f"{shape.seconds:.3g} s for a step of {shape.name}" for shape in cost.shapes)
    reporter.say(f"{num_steps:,} steps fit into {format_seconds(seconds)}: {listed}")
    return job.settings.with_warmup_share().model_copy(update={"num_steps": num_steps})


def time_recipe(job: "PretrainJob", run_dir: Path, *, limit: float, reporter: Reporter) -> RecipeCost:
    """Time steps of each shape for about `limit` seconds, then evaluations and a checkpoint."""
    num_steps = 1_000_000
    job = replace(job, settings=job.settings.model_copy(update={"num_steps": num_steps}))
    job.check()
    shapes = job.curriculum.list_shapes()
    reporter.show("timing", f"steps of {len(shapes)} shapes")
    loop = TrainingLoop(job, run_dir=run_dir, reporter=reporter, context=job.context)
    times = _time_steps(loop, [steps.start for _, steps in shapes], limit=limit)
    with job.context.full_parameters(loop.network):
        pause_seconds = time_evaluations(job)
    if job.context.size == 1:  # several processes write checkpoints while they train
        with tempfile.TemporaryDirectory(prefix=".timing.", dir=run_dir) as name:  # on the disk of the run
            start = time.perf_counter()
            CheckpointFolder(Path(name)).save(Checkpoint(0, list_tensors(loop.model, loop.optimizer), {}))
            pause_seconds += job.settings.num_evaluations * (time.perf_counter() - start)
    costs = [
        ShapeCost(f"depth {shape.depth} and length {shape.length}", len(steps) / num_steps, seconds)
        for (shape, steps), seconds in zip(shapes, times, strict=True)
    ]
    return RecipeCost(costs, pause_seconds)


def _time_steps(loop: "TrainingLoop[PretrainingBatch]", steps: list[int], *, limit: float) -> list[float]:
    """Time each of the steps, in turns, so that a slow moment affects all of them alike."""
    job, train_step = loop.job, loop.train_step
    job.model.train()
    batches = []
    for step in steps:
        with closing(job.iter_batches(step)) as found:
            batches.append(list(islice(found, _NUM_BATCHES)))
    times: list[list[float]] = [[] for _ in steps]
    began = time.perf_counter()
    # The first round warms up and is not counted.
    while len(times[0]) < 4 or loop.context.gather_floats([time.perf_counter() - began])[0][0] < limit:
        for index, step in enumerate(steps):
            batch = batches[index][len(times[index]) % _NUM_BATCHES]
            start = time.perf_counter()
            options = job.find_options(step)
            train_step.run(batch, train_step.plan(batch), learning_rate=0.0, options=options)
            times[index].append(time.perf_counter() - start)
    return [sum(each[1:]) / (len(each) - 1) for each in times]


def time_evaluations(job: "PretrainJob") -> float:
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
            start = time.perf_counter()
            job.evaluate_part(depth=depth, num_examples=sample)
            seconds[depth] = (time.perf_counter() - start) * num_examples / sample
    # The last evaluation, or each of them, has both sentence objectives.
    twice = depths if held_out.evaluates_both else depths[-1:]
    return sum(seconds[depth] for depth in [*depths, *twice])
