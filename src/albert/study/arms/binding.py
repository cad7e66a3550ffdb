"""A plan comes in; it goes out with all that its results depend on, or is refused before it is begun."""

import re
from pathlib import Path
from typing import get_args

from albert.corpus.corpus import open_corpus
from albert.errors import AlbertError, InputError
from albert.study.agreement.pairs import generate_pairs
from albert.study.agreement.scoring import build_questions
from albert.study.agreement.settings import AgreementSettings
from albert.study.arms.folder import StudyPlan
from albert.study.arms.plan import ArmSettings, Dimension, StudySettings
from albert.study.arms.results import Unit
from albert.study.arms.settings import find_start, list_task_overrides, resolve_arm
from albert.tasks.assignment import open_assignment
from albert.tasks.finetune_recipes import choose_recipe, read_finetune_recipe
from albert.training.pretrain_job import open_data
from albert.training.run_folder import identify_corpus
from albert.training.settings import PretrainSettings

_PLACE = re.compile(rf"\{{({'|'.join(get_args(Dimension))})\}}")  # in a label


def bind_plan(plan: StudyPlan) -> StudyPlan:
    """The plan with the complete settings of every arm, its label, the questions, and a recipe for each task.

    Every arm is asked the same and taught a task in the same way, whatever it was trained on and however wide
    it is: as its base is. Refused: an arm that no model can be built of.
    """
    resolved = {arm: _resolve(plan, arm) for arm in plan.settings.arms}
    arms = {
        name: {
            "pretrain": {**resolved[name].model_dump(mode="json"), "init_from": find_start(plan, name)},
            "finetune": arm.finetune,
            "start_from": arm.start_from,
        }
        for name, arm in plan.settings.arms.items()
    }
    base = resolved[plan.settings.base]
    assert base.model is not None, "it is resolved"
    width = base.model.hidden_size
    return plan.model_copy(
        update={
            "settings": _name_arms(plan.settings, resolved),
            "bound": arms,
            "examples": base.examples.model_copy(update={"objective": "none", "unit": "segments"}),
            "task_recipes": {task: choose_recipe(task, hidden_size=width) for task in plan.settings.tasks},
        }
    )


def list_twins(plan: StudyPlan) -> list[tuple[str, str]]:
    """Arms of a bound plan that are one model, trained in one way: a width may make them so."""
    names = list(plan.bound)
    return [
        (one, other)
        for number, one in enumerate(names)
        for other in names[number + 1 :]
        if plan.bound[one] == plan.bound[other]
    ]


def _name_arms(settings: StudySettings, resolved: dict[str, PretrainSettings]) -> StudySettings:
    """Labels and places in charts, by what the models have."""

    def name_it(name: str, arm: ArmSettings) -> ArmSettings:
        config = resolved[name].model
        label = _PLACE.sub(lambda found: str(getattr(config, found[1])), arm.label)
        x = getattr(config, settings.x_from) if arm.x is None and settings.x_from is not None else arm.x
        return arm.model_copy(update={"label": label, "x": x})

    arms = {name: name_it(name, arm) for name, arm in settings.arms.items()}
    return settings.model_copy(update={"arms": arms})


def _resolve(plan: StudyPlan, arm: str) -> PretrainSettings:
    try:
        return resolve_arm(plan, Unit(Path(), arm, 0))
    except AlbertError as error:
        raise InputError(
            f"arm {arm}: {error}; or leave it out, with --arms and the names of others"
        ) from error


def bind_questions(plan: StudyPlan) -> StudyPlan:
    """The plan with hashes of what its arms are asked: held-out text, tasks.

    Refused: what would fail once arms are trained: tasks without data, minimal pairs in another language.
    """
    units = [Unit(Path(), arm, 0) for arm in plan.settings.arms]
    asked: dict[str, str] = {}
    for task, recipe in plan.task_recipes.items():
        assert plan.task_data is not None, "a study with tasks has their data"
        taught = [read_finetune_recipe(recipe, overrides=list_task_overrides(plan, each)) for each in units]
        assignment = open_assignment(
            task, plan.task_data, dev=None, columns=taught[0].columns, dev_share=taught[0].dev_share
        )
        asked[task] = assignment.fingerprint
    held_out = resolve_arm(plan, Unit(Path(), plan.settings.base, 0)).held_out
    if held_out.data is not None:
        asked["held_out"] = identify_corpus(open_corpus(held_out.data))
    if plan.settings.has_agreement:
        tokenizer = open_data(plan.data, held_out).tokenizer
        questions = build_questions(generate_pairs(AgreementSettings()), tokenizer)
        if all(question is None for question in questions):
            raise InputError(
                f"study {plan.name}: asks English minimal pairs, which the vocabulary of {plan.data} cannot "
                "write; add has_agreement=false"
            )
    return plan.model_copy(update={"asked": asked})
