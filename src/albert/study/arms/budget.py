"""The order in which the arms of a study run, and how many steps of each fit into a time budget."""

import heapq
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from albert.data.engines import Engine
from albert.errors import InputError
from albert.pretrained.folder import save_model
from albert.progress import NullReporter, Reporter, format_seconds
from albert.study.arms.folder import StudyPlan
from albert.study.arms.plan import StudySettings
from albert.study.arms.results import Unit
from albert.study.arms.settings import list_task_overrides, resolve_arm
from albert.tasks.finetune_cost import estimate_cost
from albert.training.pretrain import PretrainJob, build_pretrain_model, open_data
from albert.training.timing import time_recipe

_TIMED_SHARE = 0.03  # of the budget goes into timing, over all arms
_MIN_STEPS = 10
_NUM_HALVINGS = 60  # of the search for what fits: as fine as floats are
_FIXED_SECONDS = 3.0  # of a run: reading the corpus, writing the model
_NUM_QUESTIONS = 4  # masked words of held-out and of training text, order, next sentence
_NUM_PROBED = 10  # for two probes: held-out examples, and four times as many to train on
_PROBE_SECONDS = 20.0  # of training both
_AGREEMENT_SECONDS = 15.0  # for the sample of 304 minimal pairs
_FOOTPRINT_SECONDS, _FOOTPRINT_STEPS = 8.0, 6  # of a fresh process before its first step; and its steps
_FORWARD_SHARE = 1 / 3  # of a training step


@dataclass(frozen=True)
class Schedule:
    """Arms with their seeds in groups: one is started when all of the one before it are finished."""

    groups: Sequence[Sequence[tuple[str, int]]]
    num_at_once: int = 1

    def find_seconds(self, seconds: Mapping[str, float]) -> float:
        """Compute how long all takes if a run of each arm takes so long and a free worker takes the next."""
        total = 0.0
        for group in self.groups:
            free_at = [0.0] * self.num_at_once
            for arm, _ in group:
                heapq.heapreplace(free_at, free_at[0] + seconds[arm])
            total += max(free_at)
        return total


def build_schedule(settings: StudySettings, *, num_at_once: int = 1) -> Schedule:
    """Order the arms: none runs before the one that it starts from.

    One at a time, all arms with the first seed come before any with the second, so that a study that is
    stopped early has compared them. With several at a time that would leave workers idle while an arm waits
    for another; there, only arms that start by themselves are in that order.
    """
    waves = settings.list_waves()
    if num_at_once == 1:
        return Schedule([[(arm, seed) for arm in wave] for seed in settings.seeds for wave in waves])
    groups = [[(arm, seed) for seed in settings.seeds for arm in wave] for wave in waves]
    return Schedule(groups, num_at_once)


@dataclass(frozen=True)
class ArmCost:
    """Seconds of a step, and of all else in one run of an arm; and of its footprint, measured once, alone."""

    step_seconds: float
    fixed_seconds: float
    footprint_seconds: float = 0.0


def freeze_study(
    plan: StudyPlan,
    study_dir: Path,
    *,
    seconds: float,
    engine: Engine,
    num_threads: int | None,
    reporter: Reporter,
) -> StudyPlan:
    """Time a few steps of every arm and set how many each takes: equally many, or in equal time.

    They are timed as they will run: as many side by side, with as many threads.

    Raises:
        InputError: If not even ten steps of each fit into the budget.
    """
    arms = plan.settings.arms
    limit = _TIMED_SHARE * seconds / len(arms)
    shown = reporter if num_threads is None else NullReporter()
    time_it = partial(_time_arm, plan, limit=limit, num_threads=num_threads, reporter=shown)
    reporter.show("timing", f"a few steps of {len(arms)} arms")
    timed = {unit.arm: cost for unit, cost in engine.run(time_it, [Unit(study_dir, arm, 0) for arm in arms])}
    costs = {arm: timed[arm] for arm in arms}
    schedule = build_schedule(plan.settings, num_at_once=engine.num_at_once)
    is_equal_time = plan.settings.equal == "time"
    available = seconds * (1 - _TIMED_SHARE)
    steps = share_steps(costs, schedule, seconds=available, is_equal_time=is_equal_time)
    least = min(steps, key=lambda arm: steps[arm])
    if steps[least] < _MIN_STEPS:
        need = find_shortest(costs, schedule, is_equal_time=is_equal_time) / (1 - _TIMED_SHARE)
        raise InputError(
            f"study {plan.name}: {format_seconds(seconds)} are room for {max(0, steps[least])} steps of arm "
            f"{least}; give {format_seconds(need)} or more, fewer num_seeds, or some --arms"
        )
    listed = ", ".join(f"{arm} {number:,}" for arm, number in steps.items())
    reporter.say(f"steps that fit into {format_seconds(seconds)}: {listed}")
    return plan.model_copy(update={"num_steps": steps, "budget_seconds": seconds})


def find_shortest(costs: dict[str, ArmCost], schedule: Schedule, *, is_equal_time: bool) -> float:
    """Compute the seconds in which each arm takes the least number of steps that is allowed."""
    slowest = max(cost.step_seconds for cost in costs.values())
    amount = _MIN_STEPS * slowest if is_equal_time else float(_MIN_STEPS)
    return _find_seconds(costs, schedule, amount, is_equal_time=is_equal_time)


def share_steps(
    costs: dict[str, ArmCost], schedule: Schedule, *, seconds: float, is_equal_time: bool
) -> dict[str, int]:
    """Find how many steps each arm takes if the whole schedule takes so many seconds.

    Equal time is that of pretraining: scoring and fine-tuning do not count against an arm.
    """
    fastest = min(cost.step_seconds for cost in costs.values())
    fits, exceeds = 0.0, seconds / (1.0 if is_equal_time else fastest)
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
    """Compute how long the study takes if each arm trains for `amount` steps, or seconds if time is equal."""
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
    study, settings = plan.settings, resolve_arm(plan, unit)
    data = open_data(plan.data, settings.held_out, share=settings.data_share)
    fixed = _FIXED_SECONDS
    with tempfile.TemporaryDirectory() as name:
        job = PretrainJob(build_pretrain_model(settings), settings, data)
        cost = time_recipe(job, Path(name), limit=limit, reporter=reporter)
        model = Path(name) / "untrained"
        save_model(model, build_pretrain_model(settings), tokenizer=data.tokenizer)
        for task in study.tasks:
            assert plan.task_data is not None, "a study with tasks has their data"
            reporter.show("timing", f"{unit.arm}: {task}")
            fixed += estimate_cost(
                task,
                model=model,
                data=Path(plan.task_data),
                recipe=plan.task_recipes[task],
                overrides=list_task_overrides(plan, unit),
            ).seconds
    # The last kind of step has the full depth and length, as scored examples have.
    full_step = cost.shapes[-1].seconds
    num_scored = study.num_examples * (_NUM_QUESTIONS + _NUM_PROBED * study.has_probes)
    fixed += cost.pause_seconds + full_step * _FORWARD_SHARE * num_scored / settings.batch_size
    fixed += _PROBE_SECONDS * study.has_probes + _AGREEMENT_SECONDS * study.has_agreement
    footprint = _FOOTPRINT_SECONDS + _FOOTPRINT_STEPS * full_step if study.has_footprint else 0.0
    return ArmCost(cost.step_seconds, fixed, footprint)
