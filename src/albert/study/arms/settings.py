"""A study's plan and one of its arms come in; the settings that it is trained with go out."""

from bisect import bisect_left
from dataclasses import replace

from albert.errors import InputError
from albert.model.parameters import count_parameters
from albert.study.arms.folder import StudyPlan
from albert.study.arms.plan import ArmSettings, list_overrides
from albert.study.arms.results import PRETRAIN_DIR, Unit
from albert.training.pretrain_job import open_data, resolve_model
from albert.training.recipes import read_recipe
from albert.training.run_folder import MODEL_DIR
from albert.training.settings import PretrainSettings
from albert.training.timing import share_warmup

# Nobody watches a run of a study with TensorBoard, and its records are in metrics.jsonl.
_QUIET = "has_tensorboard=false"
# Every arm is asked for the next sentence, which needs two documents, and all hold out the same text.
_ALIKE = "held_out.min_documents=2"
_HEAD_SIZE, _WIDTH_STEP, _MAX_WIDTH = 64, 16, 65536
_SIZE_TOLERANCE = 0.1  # of parameters, by which an arm may miss the size of another


def list_pretrain_overrides(plan: StudyPlan, unit: Unit) -> list[str]:
    """All in which the training of a unit differs from the study's recipe."""
    settings = plan.settings
    arm = settings.arms[unit.arm]
    words = [_ALIKE, *list_overrides(settings.pretrain, arm.pretrain), f"seed={unit.seed}", _QUIET]
    if arm.times_as_wide is not None or arm.embedding_share is not None:
        words += list_overrides({"model": _scale(_resolve(plan, words), arm)})
    if arm.as_large_as is not None:
        other = resolve_arm(plan, replace(unit, arm=arm.as_large_as)).model
        assert other is not None, "it is resolved"
        size = count_parameters(other).backbone
        sizes = _widen(_resolve(plan, words), to=size, other=arm.as_large_as)
        words += list_overrides({"model": sizes})
    if unit.arm in plan.num_steps:
        words += _list_frozen(read_recipe(settings.recipe, overrides=words), plan.num_steps[unit.arm])
    if arm.start_from is not None:
        start = Unit(unit.study_dir, arm.start_from, unit.seed)
        words.append(f"init_from={start.folder / PRETRAIN_DIR / MODEL_DIR}")
    return words


def _scale(settings: PretrainSettings, arm: ArmSettings) -> dict[str, int]:
    """The widths that an arm asks for in proportion to the recipe's."""
    config = settings.model
    assert config is not None, "it is resolved"
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


def _widen(settings: PretrainSettings, *, to: int, other: str) -> dict[str, int]:
    """The width that brings a model nearest to so many parameters, with heads of about 64 and 4 H between.

    Refused: a word table that is larger by itself, so that no width would do.
    """
    config = settings.model
    assert config is not None, "it is resolved"

    def count(width: int) -> int:
        shape = config.model_copy(update={"hidden_size": width, "intermediate_size": 4 * width})
        return count_parameters(shape).backbone

    widths = range(_WIDTH_STEP, _MAX_WIDTH + 1, _WIDTH_STEP)
    place = bisect_left(widths, to, key=count)
    width = min(widths[max(place - 1, 0) : place + 1], key=lambda each: abs(count(each) - to))
    if abs(count(width) - to) > _SIZE_TOLERANCE * to:
        raise InputError(
            f"as_large_as {other}, which has {to:,} parameters: the nearest is {width} wide and has "
            f"{count(width):,}, with embedding_size {config.embedding_size}; give "
            "pretrain.model.embedding_size another"
        )
    heads = [number for number in range(1, width // 2) if width % (2 * number) == 0]
    num_heads = min(heads, key=lambda number: abs(width / number - _HEAD_SIZE))
    return {"hidden_size": width, "num_attention_heads": num_heads, "intermediate_size": 4 * width}


def _list_frozen(settings: PretrainSettings, num_steps: int) -> list[str]:
    """So many steps, and of them the same share for warm-up as before."""
    words = [f"num_steps={num_steps}"]
    if settings.schedule.warmup_steps is not None:
        share = share_warmup(settings).schedule.warmup_share
        words += ["schedule.warmup_steps=null", f"schedule.warmup_share={share}"]
    return words


def list_task_overrides(plan: StudyPlan, unit: Unit) -> list[str]:
    """All in which the fine-tuning of a unit differs from the tasks' recipes."""
    arm = plan.settings.arms[unit.arm]
    return [*list_overrides(plan.settings.finetune, arm.finetune), f"seed={unit.seed}", _QUIET]


def resolve_arm(plan: StudyPlan, unit: Unit) -> PretrainSettings:
    """The settings of its pretraining, complete with its shape; refused where no model can be built of it."""
    return _resolve(plan, list_pretrain_overrides(plan, unit))


def find_start(plan: StudyPlan, arm: str) -> str | None:
    """The model that an arm goes on from, if the recipe or its differences name one."""
    settings = plan.settings
    overrides = list_overrides(settings.pretrain, settings.arms[arm].pretrain)
    return read_recipe(settings.recipe, overrides=overrides).init_from


def _resolve(plan: StudyPlan, words: list[str]) -> PretrainSettings:
    settings = read_recipe(plan.settings.recipe, overrides=words)
    # The arm that it starts from may not be there yet; the shape is its own.
    settings = settings.model_copy(update={"init_from": None})
    data = open_data(plan.data, settings.held_out)
    return resolve_model(settings, data.tokenizer)
