"""A budget and a recipe come in; the recipe with as many steps as fit into the time goes out."""

import time
from contextlib import closing
from functools import partial

import torch

from albert.model.runtime import autocast, select_device
from albert.reporting import Reporter, format_seconds
from albert.training.budget import ShapeCost, fit_steps
from albert.training.guard import Guard
from albert.training.optimizers import build_optimizer
from albert.training.pretrain_data import PretrainData
from albert.training.pretrain_job import PretrainJob
from albert.training.pretrain_model import build_pretrain_model
from albert.training.settings import PretrainSettings
from albert.training.step import StepTaker

_TIMED_SHARE = 0.03  # of a budget goes into measuring how long a step takes


def freeze_steps(
    settings: PretrainSettings, data: PretrainData, seconds: float, began: float, reporter: Reporter
) -> PretrainSettings:
    """Time a few steps of each shape on a model that is thrown away, and choose the number of steps."""
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
    evaluation = _time_evaluation(job) * settings.num_evaluations
    left = seconds - (time.monotonic() - began) - evaluation
    num_steps = fit_steps(left, costs)
    reporter.say(
        f"{num_steps:,} steps fit into {format_seconds(seconds)}: "
        + ", ".join(
            f"{cost.seconds:.3g} s a step of depth {shape.depth} and length {shape.length}"
            for (shape, _), cost in zip(shapes, costs, strict=True)
        )
    )
    return settings.model_copy(update={"num_steps": num_steps})


def _time_steps(job: PretrainJob, step: int, limit: float) -> float:
    """Seconds of a step of one shape: the mean of at least three, after one that warms up."""
    settings = job.settings
    model = job.model
    optimizer = build_optimizer(model, settings.optimizer)
    taker = StepTaker(
        model, optimizer, job.objective, Guard(settings.guard), settings.optimizer.max_grad_norm,
        partial(autocast, select_device(settings.runtime.device), settings.runtime.precision),
    )  # fmt: skip
    model.train()
    times: list[float] = []
    with closing(job.iter_batches(step)) as batches:
        while len(times) < 4 or (sum(times) < limit and len(times) < 200):
            began = time.perf_counter()
            taker.take(step, next(batches), learning_rate=0.0)
            times.append(time.perf_counter() - began)
    return sum(times[1:]) / (len(times) - 1)


def _time_evaluation(job: PretrainJob) -> float:
    began = time.perf_counter()
    job.model.eval()
    with torch.inference_mode():
        job.evaluate()
    return time.perf_counter() - began
