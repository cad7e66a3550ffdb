"""A study's plan and one of its arms come in; the settings that it is trained with go out."""

from albert.study.arms.folder import StudyPlan
from albert.study.arms.plan import list_overrides
from albert.study.arms.results import PRETRAIN_DIR, Unit
from albert.training.pretrain_data import open_data
from albert.training.pretrain_model import resolve_model
from albert.training.recipes import read_recipe
from albert.training.run_folder import MODEL_DIR
from albert.training.settings import PretrainSettings
from albert.training.timing import share_warmup

# Nobody watches a run of a study with TensorBoard, and its records are in metrics.jsonl.
_QUIET = "has_tensorboard=false"
# Every arm is asked for the next sentence, which needs two documents, and all hold out the same text.
_ALIKE = "held_out.min_documents=2"


def list_pretrain_overrides(plan: StudyPlan, unit: Unit) -> list[str]:
    """All in which the training of a unit differs from the study's recipe."""
    settings = plan.settings
    arm = settings.arms[unit.arm]
    words = [_ALIKE, *list_overrides(settings.pretrain, arm.pretrain), f"seed={unit.seed}", _QUIET]
    if unit.arm in plan.num_steps:
        words += _list_frozen(read_recipe(settings.recipe, overrides=words), plan.num_steps[unit.arm])
    if arm.start_from is not None:
        start = Unit(unit.study_dir, arm.start_from, unit.seed)
        words.append(f"init_from={start.folder / PRETRAIN_DIR / MODEL_DIR}")
    return words


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
    settings = read_recipe(plan.settings.recipe, overrides=list_pretrain_overrides(plan, unit))
    # The arm that it starts from may not be there yet; the shape is its own.
    settings = settings.model_copy(update={"init_from": None})
    data = open_data(plan.data, settings.held_out)
    return resolve_model(settings, data.tokenizer)
