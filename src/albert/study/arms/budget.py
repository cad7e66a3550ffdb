"""A budget for a whole study comes in; the number of steps of each arm goes out, measured once and frozen."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from albert.errors import InputError
from albert.pretrained.folder import save_model
from albert.reporting import Reporter, format_seconds
from albert.study.arms.folder import StudyPlan
from albert.study.arms.results import Unit
from albert.study.arms.settings import list_task_overrides, resolve_arm
from albert.tasks.finetune_cost import estimate_cost
from albert.training.pretrain_data import open_data
from albert.training.pretrain_model import build_pretrain_model
from albert.training.timing import time_recipe
from albert.training.world import World

_TIMED_SHARE = 0.03  # of the budget goes into timing, over all arms
_MIN_STEPS = 10
_FIXED_SECONDS = 3.0  # of a unit: reading the corpus, writing the model
_NUM_QUESTIONS = 4  # masked words of held-out and of training text, order, next sentence
_FORWARD_SHARE = 1 / 3  # of a training step


@dataclass(frozen=True)
class ArmCost:
    """Seconds of one step, and of all that is no step, of one training of an arm."""

    step_seconds: float
    fixed_seconds: float


def freeze_study(
    plan: StudyPlan, study_dir: Path, *, seconds: float, num_side_by_side: int, reporter: Reporter
) -> StudyPlan:
    """Time a few steps of every arm, and give each as many as fit: equally many, or in equal time.

    Refused: a budget in which not even ten steps of each would fit.
    """
    arms = plan.settings.arms
    limit = _TIMED_SHARE * seconds / len(arms)
    costs = {arm: _time_arm(plan, Unit(study_dir, arm, 0), limit=limit, reporter=reporter) for arm in arms}
    available = seconds * (1 - _TIMED_SHARE) * num_side_by_side / plan.settings.num_seeds
    steps = share_steps(costs, seconds=available, is_equal_time=plan.settings.equal == "time")
    least = min(steps, key=lambda arm: steps[arm])
    if steps[least] < _MIN_STEPS:
        shortest = find_shortest(costs, is_equal_time=plan.settings.equal == "time")
        need = shortest * plan.settings.num_seeds / num_side_by_side / (1 - _TIMED_SHARE)
        raise InputError(
            f"study {plan.name}: {format_seconds(seconds)} are room for {max(0, steps[least])} steps of arm "
            f"{least}; give {format_seconds(need)} or more, fewer num_seeds, or some --arms"
        )
    listed = ", ".join(f"{arm} {number:,}" for arm, number in steps.items())
    reporter.say(f"steps that fit into {format_seconds(seconds)}: {listed}")
    return plan.model_copy(update={"num_steps": steps, "budget_seconds": seconds})


def find_shortest(costs: dict[str, ArmCost], *, is_equal_time: bool) -> float:
    """Seconds in which each arm may take as few steps as are allowed."""
    each = [cost.fixed_seconds + _MIN_STEPS * cost.step_seconds for cost in costs.values()]
    return len(each) * max(each) if is_equal_time else sum(each)


def share_steps(costs: dict[str, ArmCost], *, seconds: float, is_equal_time: bool) -> dict[str, int]:
    """How many steps each arm takes, if all of them once take so many seconds together."""
    if is_equal_time:
        each = seconds / len(costs)
        return {arm: int((each - cost.fixed_seconds) / cost.step_seconds) for arm, cost in costs.items()}
    left = seconds - sum(cost.fixed_seconds for cost in costs.values())
    number = int(left / sum(cost.step_seconds for cost in costs.values()))
    return dict.fromkeys(costs, number)


def _time_arm(plan: StudyPlan, unit: Unit, *, limit: float, reporter: Reporter) -> ArmCost:
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
    example = _FORWARD_SHARE * cost.shapes[-1].seconds / settings.batch_size
    asking = _NUM_QUESTIONS * plan.settings.num_examples * example
    return ArmCost(cost.step_seconds, cost.pause_seconds + asking + _FIXED_SECONDS + tasks)


def _time_task(plan: StudyPlan, unit: Unit, task: str, *, model: Path, reporter: Reporter) -> float:
    assert plan.task_data is not None, "a study with tasks has their data"
    reporter.show("timing", f"{unit.arm}: {task}")
    overrides = list_task_overrides(plan, unit)
    return estimate_cost(task, model=model, data=Path(plan.task_data), overrides=overrides).seconds
