"""The plan of a study in its folder (study.json): what it was started with, checked when it is resumed."""

import shlex
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from albert.data.corpus import open_corpus
from albert.errors import InputError
from albert.examples.settings import ExampleSettings
from albert.files import read_json, reject_foreign, require_folder, write_json
from albert.settings import Settings, build_settings, find_change
from albert.study.arms.plan import SHELF, StudySettings
from albert.training.run_folder import identify_corpus, list_versions

PLAN_NAME = "study.json"


class StudyPlan(Settings):
    """What a study was started with. It never changes, except that arms and seeds may be added.

    `bound` has the complete settings of every arm that was ever part of it, `examples` how held-out text is
    turned into examples for all of them, `task_recipes` how they are fine-tuned (all three from `bind_plan`).
    `asked` has hashes of the held-out text, the tasks' data and the minimal pairs (`bind_questions`).
    `num_steps` is set for arms whose steps were frozen by a budget.
    """

    name: str
    settings: StudySettings
    data: str
    corpus: str
    task_data: str | None = None
    bound: dict[str, Any] = Field(default_factory=dict)
    examples: ExampleSettings = ExampleSettings()
    task_recipes: dict[str, str] = Field(default_factory=dict)
    asked: dict[str, str] = Field(default_factory=dict)
    num_steps: dict[str, int] = Field(default_factory=dict)
    budget_seconds: float | None = None
    command: str = ""
    started: str = ""
    versions: dict[str, str] = Field(default_factory=dict)


def describe_plan(
    name: str, settings: StudySettings, *, data: str, task_data: str | None, command: Sequence[str]
) -> StudyPlan:
    """Build a new plan with absolute paths and the identity of the corpus."""
    if settings.tasks and task_data is None:
        raise InputError(
            f"study {name}: asks {', '.join(settings.tasks)}; give --task-data, the folder that has glue/, "
            "squad/ and race/, or tasks=[]"
        )
    return StudyPlan(
        name=name if name in SHELF.list_names() else str(Path(name).resolve()),
        settings=settings,
        data=str(Path(data).resolve()) if Path(data).exists() else data,
        corpus=identify_corpus(open_corpus(data)),
        task_data=None if task_data is None else str(Path(task_data).resolve()),
        command=shlex.join(command),
        started=time.strftime("%Y-%m-%d %H:%M:%S %z"),
        versions=list_versions(),
    )


def has_plan(study_dir: Path) -> bool:
    """Whether a study was started in the folder."""
    return (study_dir / PLAN_NAME).exists()


def read_plan(study_dir: Path) -> StudyPlan:
    """Read what the study in a folder was started with."""
    path = study_dir / PLAN_NAME
    return build_settings(StudyPlan, values=read_json(path), source=str(path))


def write_plan(study_dir: Path, plan: StudyPlan) -> None:
    """Write the plan; from now on the folder is a study's."""
    write_json(study_dir / PLAN_NAME, plan.model_dump(mode="json"))


def check_plan(study_dir: Path, asked: StudyPlan) -> StudyPlan:
    """Return the plan of the folder with the seeds and arms that are asked for now.

    Texts that no result depends on (titles, claims, the paper's figures) are updated.

    Raises:
        InputError: If anything differs that results depend on.
    """
    known = read_plan(study_dir)
    # Nothing is known of texts that were not asked about before. Studies of older code have no hash of their
    # minimal pairs, which were others: the remaining arms are not scored on them.
    texts = {key: value for key, value in asked.asked.items() if key != "agreement" or key in known.asked}
    asked = asked.model_copy(update={"asked": texts})
    known = known.model_copy(update={"asked": {**texts, **known.asked}})
    common = [name for name in known.bound if name in asked.bound]
    change = find_change(_list_binding(known, common), _list_binding(asked, common))
    if change is not None:
        raise InputError(f"{study_dir}: {change}; a study goes on as it began. Choose another --out")
    num_steps = dict(known.num_steps)
    added = [arm for arm in asked.settings.arms if arm not in num_steps]
    if num_steps and added:
        if known.settings.equal == "time":
            raise InputError(
                f"{study_dir}: its arms take equal time, measured when it began, and {added[0]} was not "
                "among them; leave it out, or choose another --out"
            )
        num_steps |= dict.fromkeys(added, next(iter(num_steps.values())))
    versions = dict(known.versions)
    for name, version in asked.versions.items():
        before = versions.get(name, version)
        versions[name] = before if before.split(", then ")[-1] == version else f"{before}, then {version}"
    updated = known.model_copy(
        update={
            "settings": asked.settings,
            "data": asked.data,  # the same corpus and tasks, perhaps at another path
            "task_data": asked.task_data,
            "command": asked.command,
            "versions": versions,
            "bound": {**known.bound, **asked.bound},
            "num_steps": num_steps,
        }
    )
    if updated != known:
        write_plan(study_dir, updated)
    return updated


def _list_binding(plan: StudyPlan, arm_names: Collection[str]) -> dict[str, Any]:
    """List what the results of these arms depend on."""
    settings = plan.settings.model_dump(mode="json")
    kept = ("finetune", "equal", "num_examples", "tasks", "has_probes", "has_agreement")
    arms = {}
    for name in arm_names:
        pretrain = plan.bound[name]["pretrain"]
        # Held-out text is known by its content (`asked`), not by its path.
        held_out = {**pretrain["held_out"], "data": pretrain["held_out"]["data"] is not None}
        arms[name] = {**plan.bound[name], "pretrain": {**pretrain, "held_out": held_out}}
    return {
        "study": plan.name,
        "corpus": plan.corpus,
        "asked": plan.asked,
        "task_recipes": plan.task_recipes,
        "examples": plan.examples.model_dump(mode="json"),
        "arms": arms,
        **{key: settings[key] for key in kept},
    }


def reject_strangers(study_dir: Path) -> None:
    """Reject a folder with files that are not a study's; a rejected study may have left its lock."""
    others = [name for name in require_folder(study_dir) if not name.startswith(".")]
    reject_foreign(study_dir, others, what="study")
