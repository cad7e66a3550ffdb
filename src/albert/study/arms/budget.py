"""A budget for a whole study comes in; the number of steps of each arm goes out, measured once and frozen."""

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from albert.corpus.workers import Engine
from albert.errors import InputError
from albert.pretrained.folder import save_model
from albert.reporting import Reporter, Silence, format_seconds
from albert.study.arms.folder import StudyPlan
from albert.study.arms.results import Unit
from albert.study.arms.schedule import Schedule, build_schedule
from albert.study.arms.settings import list_task_overrides, resolve_arm
from albert.tasks.finetune_cost import estimate_cost
from albert.training.pretrain_job import build_pretrain_model, open_data
from albert.training.timing import time_recipe
from albert.training.world import World

_TIMED_SHARE = 0.03  # of the budget goes into timing, over all arms
_MIN_STEPS = 10
_NUM_HALVINGS = 60  # of the search for what fits: as fine as floats are
_FIXED_SECONDS = 3.0  # of a unit: reading the corpus, writing the model
_NUM_QUESTIONS = 4  # masked words of held-out and of training text, order, next sentence
_NUM_PROBED = 10  # for two probes: held-out examples, and four times as many to learn from
_PROBE_SECONDS = 20.0  # of both, for learning from vectors
_AGREEMENT_SECONDS = 15.0  # of the default 4,000 pairs of short sentences
_FOOTPRINT_SECONDS, _FOOTPRINT_STEPS = 8.0, 6  # of a fresh process, before its first step; and its steps
_FORWARD_SHARE = 1 / 3  # of a training step


@dataclass(frozen=True)
class Crew:
    """Who runs the arms, and with how many threads each (None: with all there are)."""

    engine: Engine
    num_threads: int | None = None


@dataclass(frozen=True)
class ArmCost:
    """Seconds of one step, and of all that is no step, of one training of an arm; and of its footprint.

    The footprint is measured once, alone, when all arms are trained.
    """

    step_seconds: float
    fixed_seconds: float
    footprint_seconds: float = 0.0


def freeze_study(
    plan: StudyPlan, study_dir: Path, *, seconds: float, crew: Crew, reporter: Reporter
) -> StudyPlan:
    """Time a few steps of every arm, and give each as many as fit: equally many, or in equal time.

    They are timed as they will run: as many side by side, with as many threads. Refused: a budget in which
    not even ten steps of each would fit.
    """
    arms = plan.settings.arms
    limit = _TIMED_SHARE * seconds / len(arms)
    told = reporter if crew.num_threads is None else Silence()
    time_it = partial(_time_arm, plan, limit=limit, num_threads=crew.num_threads, reporter=told)
    reporter.show("timing", f"a few steps of {len(arms)} arms")
    found = crew.engine.run(time_it, [Unit(study_dir, arm, 0) for arm in arms])
    timed = {unit.arm: cost for unit, cost in found}
    costs = {arm: timed[arm] for arm in arms}
    schedule = build_schedule(plan.settings, num_at_once=crew.engine.num_at_once)
    is_equal_time = plan.settings.equal == "time"
    available = seconds * (1 - _TIMED_SHARE)
    steps = share_steps(costs, schedule, seconds=available, is_equal_time=is_equal_time)
    least = min(steps, key=lambda arm: steps[arm])
    if steps[least] < _MIN_STEPS:
        shortest = find_shortest(costs, schedule, is_equal_time=is_equal_time)
        need = shortest / (1 - _TIMED_SHARE)
        raise InputError(
            f"study {plan.name}: {format_seconds(seconds)} are room for {max(0, steps[least])} steps of arm "
            f"{least}; give {format_seconds(need)} or more, fewer num_seeds, or some --arms"
        )
    listed = ", ".join(f"{arm} {number:,}" for arm, number in steps.items())
    reporter.say(f"steps that fit into {format_seconds(seconds)}: {listed}")
    return plan.model_copy(update={"num_steps": steps, "budget_seconds": seconds})


def find_shortest(costs: dict[str, ArmCost], schedule: Schedule, *, is_equal_time: bool) -> float:
    """Seconds in which each arm may take as few steps as are allowed."""
    slowest = max(cost.step_seconds for cost in costs.values())
    amount = _MIN_STEPS * slowest if is_equal_time else float(_MIN_STEPS)
    return _find_seconds(costs, schedule, amount, is_equal_time=is_equal_time)


def share_steps(
    costs: dict[str, ArmCost], schedule: Schedule, *, seconds: float, is_equal_time: bool
) -> dict[str, int]:
    """How many steps each arm takes, if the whole schedule takes so many seconds.

    Equal time is that of pretraining: what an arm is asked and taught afterwards is not counted against it.
    """
    fits, exceeds = (
        0.0,
        seconds / (1.0 if is_equal_time else min(cost.step_seconds for cost in costs.values())),
    )
    for _ in range(_NUM_HALVINGS):
        middle = (fits + exceeds) / 2
        if _find_seconds(costs, schedule, middle, is_equal_time=is_equal_time) <= seconds:
            fits = middle
        else:
            exceeds = middle
    amount = fits * (1 + 1e-9)  # what fits exactly is not lost to rounding
    return {arm: int(amount / cost.step_seconds if is_equal_time else amount) for arm, cost in costs.items()}


def _find_seconds(
    costs: dict[str, ArmCost], schedule: Schedule, amount: float, *, is_equal_time: bool
) -> float:
    """How long the study takes if each arm trains for so many steps, or seconds where time is equal."""
    each = {
        arm: cost.fixed_seconds + amount * (1.0 if is_equal_time else cost.step_seconds)
        for arm, cost in costs.items()
    }
    return schedule.find_seconds(each) + sum(cost.footprint_seconds for cost in costs.values())


def _time_arm(
    plan: StudyPlan, unit: Unit, *, limit: float, num_threads: int | None, reporter: Reporter
) -> ArmCost:
    if num_threads is not None:
        torch.set_num_threads(num_threads)
    settings = resolve_arm(plan, unit)
    data = open_data(plan.data, settings.held_out, share=settings.data_share)
    with tempfile.TemporaryDirectory() as name:
        cost = time_recipe(settings, data, Path(name), limit=limit, reporter=reporter, world=World())
        model = Path(name) / "untrained"
        save_model(model, build_pretrain_model(settings), tokenizer=data.tokenizer)
        tasks = sum(
            _time_task(plan, unit, task, model=model, reporter=reporter) for task in plan.settings.tasks
        )
    # The last kind of step has the full depth and length, as questions have.
    full_step = cost.shapes[-1].seconds
    asking = _estimate_asking(plan, step_seconds=full_step, batch_size=settings.batch_size)
    footprint = _FOOTPRINT_SECONDS + _FOOTPRINT_STEPS * full_step if plan.settings.has_footprint else 0.0
    return ArmCost(cost.step_seconds, _FIXED_SECONDS + cost.pause_seconds + asking + tasks, footprint)


def _estimate_asking(plan: StudyPlan, *, step_seconds: float, batch_size: int) -> float:
    """Seconds of all that a trained model is asked."""
    settings = plan.settings
    num_asked = settings.num_examples * (_NUM_QUESTIONS + _NUM_PROBED * settings.has_probes)
    num_steps = _FORWARD_SHARE * num_asked / batch_size
    extras = _PROBE_SECONDS * settings.has_probes + _AGREEMENT_SECONDS * settings.has_agreement
    return num_steps * step_seconds + extras


def _time_task(plan: StudyPlan, unit: Unit, task: str, *, model: Path, reporter: Reporter) -> float:
    assert plan.task_data is not None, "a study with tasks has their data"
    reporter.show("timing", f"{unit.arm}: {task}")
    overrides = list_task_overrides(plan, unit)
    recipe = plan.task_recipes[task]
    return estimate_cost(
        task, model=model, data=Path(plan.task_data), recipe=recipe, overrides=overrides
    ).seconds
