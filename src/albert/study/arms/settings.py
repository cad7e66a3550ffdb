"""Resolve a study before it starts: the settings of every arm, and hashes of what all are scored on."""

import re
from bisect import bisect_left
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import get_args

from albert.data.corpus import open_corpus
from albert.errors import AlbertError, InputError
from albert.model.config import ModelConfig, count_parameters
from albert.study.agreement import hash_pairs, read_pairs
from albert.study.arms.folder import StudyPlan
from albert.study.arms.plan import ArmSettings, Dimension, list_overrides
from albert.study.arms.results import PRETRAIN_DIR, Unit
from albert.tasks.assignment import open_assignment
from albert.tasks.finetune_settings import choose_recipe, read_finetune_recipe
from albert.training.pretrain_job import open_data, resolve_model
from albert.training.recipes import read_recipe
from albert.training.run_folder import MODEL_DIR, identify_corpus
from albert.training.settings import PretrainSettings

# TensorBoard files of many runs would only take room; the records are in metrics.jsonl.
_QUIET = "has_tensorboard=false"
# Every arm is scored on next sentences, which need two documents, and all hold out the same text.
_ALIKE = "held_out.min_documents=2"
_HEAD_SIZE, _WIDTH_STEP, _MAX_WIDTH = 64, 16, 65536
_SIZE_TOLERANCE = 0.1  # of the parameters by which an arm may miss the size of another
_PLACEHOLDER = re.compile(rf"\{{({'|'.join(get_args(Dimension))})\}}")  # in a label


def bind_plan(plan: StudyPlan) -> StudyPlan:
    """Add the complete settings of every arm, its label, the examples to score and a recipe for each task.

    Every arm is scored on the same examples and fine-tuned by the same recipe, those of the base, whatever it
    was trained on and however wide it is.

    Raises:
        InputError: If no model can be built for an arm.
    """
    settings = plan.settings
    arms: dict[str, ArmSettings] = {}
    bound = {}
    resolved = {}
    for name, arm in settings.arms.items():
        try:
            resolved[name] = resolve_arm(plan, Unit(Path(), name, 0))
        except AlbertError as error:
            raise InputError(
                f"arm {name}: {error}; or leave it out, with --arms and the names of others"
            ) from error
        config = resolved[name].model
        label = _PLACEHOLDER.sub(lambda found: str(getattr(config, found[1])), arm.label)  # noqa: B023
        x = getattr(config, settings.x_from) if arm.x is None and settings.x_from is not None else arm.x
        arms[name] = arm.model_copy(update={"label": label, "x": x})
        overrides = list_overrides(settings.pretrain, arm.pretrain)
        start = read_recipe(settings.recipe, overrides=overrides).init_from
        bound[name] = {
            "pretrain": {**resolved[name].model_dump(mode="json"), "init_from": start},
            "finetune": arm.finetune,
            "start_from": arm.start_from,
        }
    base = resolved[settings.base]
    width = _get_config(base).hidden_size
    return plan.model_copy(
        update={
            "settings": settings.model_copy(update={"arms": arms}),
            "bound": bound,
            "examples": base.examples.model_copy(update={"objective": "none", "unit": "segments"}),
            "task_recipes": {task: choose_recipe(task, hidden_size=width) for task in settings.tasks},
        }
    )


def list_duplicates(plan: StudyPlan) -> list[tuple[str, str]]:
    """List the arms of a bound plan that are the same model trained in the same way."""
    return [pair for pair in combinations(plan.bound, 2) if plan.bound[pair[0]] == plan.bound[pair[1]]]


def bind_questions(plan: StudyPlan) -> StudyPlan:
    """Add hashes of what the arms are scored on: held-out text, tasks, minimal pairs.

    Raises:
        AlbertError: If a task has no data, or no minimal pair can be encoded: before anything is trained.
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
        pairs, tokenizer = read_pairs(), open_data(plan.data, held_out).tokenizer
        encodings = tokenizer.encode_batch([pair.sentence_good for pair in pairs])
        if all(tokenizer.unk_id in encoding.ids for encoding in encodings):
            raise InputError(
                f"study {plan.name}: scores English minimal pairs, which the vocabulary of {plan.data} "
                "cannot write; add has_agreement=false"
            )
        asked["agreement"] = hash_pairs(pairs)
    return plan.model_copy(update={"asked": asked})


def resolve_arm(plan: StudyPlan, unit: Unit) -> PretrainSettings:
    """Build the complete pretraining settings of an arm, with the shape of its model."""
    return _resolve(plan, list_pretrain_overrides(plan, unit))


def list_pretrain_overrides(plan: StudyPlan, unit: Unit) -> list[str]:
    """List all in which the pretraining of an arm differs from the study's recipe."""
    settings = plan.settings
    arm = settings.arms[unit.arm]
    words = [_ALIKE, *list_overrides(settings.pretrain, arm.pretrain), f"seed={unit.seed}", _QUIET]
    if arm.times_as_wide is not None or arm.embedding_share is not None:
        words += list_overrides({"model": _scale(_get_config(_resolve(plan, words)), arm)})
    if arm.as_large_as is not None:
        other = _get_config(resolve_arm(plan, replace(unit, arm=arm.as_large_as)))
        size = count_parameters(other).backbone
        sizes = _widen(_get_config(_resolve(plan, words)), to=size, other=arm.as_large_as)
        words += list_overrides({"model": sizes})
    if unit.arm in plan.num_steps:  # frozen by a budget; warm-up keeps its share of the steps
        recipe = read_recipe(settings.recipe, overrides=words)
        words.append(f"num_steps={plan.num_steps[unit.arm]}")
        if recipe.schedule.warmup_steps is not None:
            share = recipe.schedule.warmup_steps / recipe.num_steps
            words += ["schedule.warmup_steps=null", f"schedule.warmup_share={share}"]
    if arm.start_from is not None:
        start = Unit(unit.study_dir, arm.start_from, unit.seed)
        words.append(f"init_from={start.folder / PRETRAIN_DIR / MODEL_DIR}")
    return words


def list_task_overrides(plan: StudyPlan, unit: Unit) -> list[str]:
    """List all in which the fine-tuning of an arm differs from the tasks' recipes."""
    arm = plan.settings.arms[unit.arm]
    return [*list_overrides(plan.settings.finetune, arm.finetune), f"seed={unit.seed}", _QUIET]


def _resolve(plan: StudyPlan, words: list[str]) -> PretrainSettings:
    settings = read_recipe(plan.settings.recipe, overrides=words)
    # The arm that it starts from may not be trained yet; the shape is its own.
    settings = settings.model_copy(update={"init_from": None})
    return resolve_model(settings, open_data(plan.data, settings.held_out).tokenizer)


def _get_config(settings: PretrainSettings) -> ModelConfig:
    assert settings.model is not None, "it is resolved"
    return settings.model


def _scale(config: ModelConfig, arm: ArmSettings) -> dict[str, int]:
    """Compute the widths that an arm gives in proportion to the recipe's."""
    times = arm.times_as_wide or 1.0
    width = max(1, round(times * config.hidden_size))
    sizes = {
        "hidden_size": width,
        "num_attention_heads": max(1, round(times * config.num_attention_heads)),
        "intermediate_size": max(1, round(times * config.intermediate_size)),
    }
    if arm.embedding_share is not None:
        sizes["embedding_size"] = max(1, round(arm.embedding_share * width))
    return sizes


def _widen(config: ModelConfig, *, to: int, other: str) -> dict[str, int]:
    """Find the width nearest to a number of parameters, with heads of about 64 and an inner width of 4 H.

    Raises:
        InputError: If no width comes near, because the word embeddings alone are larger.
    """

    def count(width: int) -> int:
        shape = config.model_copy(update={"hidden_size": width, "intermediate_size": 4 * width})
        return count_parameters(shape).backbone

    widths = range(_WIDTH_STEP, _MAX_WIDTH + 1, _WIDTH_STEP)
    index = bisect_left(widths, to, key=count)
    width = min(widths[max(index - 1, 0) : index + 1], key=lambda each: abs(count(each) - to))
    if abs(count(width) - to) > _SIZE_TOLERANCE * to:
        raise InputError(
            f"as_large_as {other}, which has {to:,} parameters: the nearest is {width} wide and has "
            f"{count(width):,}, with embedding_size {config.embedding_size}; give "
            "pretrain.model.embedding_size another"
        )
    heads = [number for number in range(1, width // 2) if width % (2 * number) == 0]
    num_heads = min(heads, key=lambda number: abs(width / number - _HEAD_SIZE))
    return {"hidden_size": width, "num_attention_heads": num_heads, "intermediate_size": 4 * width}
