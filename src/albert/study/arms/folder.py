"""The folder of a study: what it was begun with comes in, and is found again when it goes on."""

import shlex
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from albert.corpus.corpus import open_corpus
from albert.errors import InputError
from albert.examples.settings import ExampleSettings
from albert.files import read_json, write_json
from albert.settings import Settings, build_settings, find_change
from albert.study.arms.plan import SHELF, StudySettings
from albert.training.run_folder import identify_corpus, list_versions

PLAN_NAME = "study.json"


class StudyPlan(Settings):
    """What a study was begun with: never changed afterwards, but for arms and seeds, which may be added.

    `bound` has the complete settings of every arm that was ever part of it, `examples` what held-out text is
    made into for all of them, `task_recipes` how they are taught the tasks (`bind_plan` finds all three).
    `asked` has hashes of the held-out text and of the tasks' data (`bind_questions`). `num_steps` is set for
    arms whose steps were frozen by a budget.
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
    """A new plan, with all that will be asked about it later."""
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
    """Whether a study was begun there."""
    return (study_dir / PLAN_NAME).exists()


def read_plan(study_dir: Path) -> StudyPlan:
    """What the study in a folder was begun with."""
    path = study_dir / PLAN_NAME
    return build_settings(StudyPlan, values=read_json(path), source=str(path))


def write_plan(study_dir: Path, plan: StudyPlan) -> None:
    """Write it down; from now on the folder is a study's."""
    write_json(study_dir / PLAN_NAME, plan.model_dump(mode="json"))


def check_plan(study_dir: Path, asked: StudyPlan) -> StudyPlan:
    """The plan in the folder, if what is asked for now is the same; more seeds and arms may be asked for.

    Words that no result depends on (titles, claims, what the paper measured) are those of now.
    """
    known = read_plan(study_dir)
    # Nothing is known of texts that were not asked about before.
    known = known.model_copy(update={"asked": {**asked.asked, **known.asked}})
    common = [name for name in known.bound if name in asked.bound]
    change = find_change(_list_binding(known, common), _list_binding(asked, common))
    if change is not None:
        raise InputError(f"{study_dir}: {change}; a study goes on as it began. Choose another --out")
    updated = known.model_copy(
        update={
            "settings": asked.settings,
            "data": asked.data,  # the same corpus and tasks, perhaps in another place
            "task_data": asked.task_data,
            "command": asked.command,
            "versions": _join_versions(known.versions, asked.versions),
            "bound": {**known.bound, **asked.bound},
            "num_steps": _extend_steps(study_dir, known, asked),
        }
    )
    if updated != known:
        write_plan(study_dir, updated)
    return updated


def _join_versions(before: dict[str, str], now: dict[str, str]) -> dict[str, str]:
    """All that the study was run with, the last one last."""
    joined = dict(before)
    for name, version in now.items():
        known = before.get(name, version)
        joined[name] = known if known.split(", then ")[-1] == version else f"{known}, then {version}"
    return joined


def _extend_steps(study_dir: Path, known: StudyPlan, asked: StudyPlan) -> dict[str, int]:
    """The frozen steps, with those of arms that are new: as many as all others take, if they do."""
    added = [arm for arm in asked.settings.arms if arm not in known.num_steps]
    if not known.num_steps or not added:
        return known.num_steps
    if known.settings.equal == "time":
        raise InputError(
            f"{study_dir}: its arms take equal time, measured when it began, and {added[0]} was not among "
            "them; leave it out, or choose another --out"
        )
    return {**known.num_steps, **dict.fromkeys(added, next(iter(known.num_steps.values())))}


def _list_binding(plan: StudyPlan, arm_names: Collection[str]) -> dict[str, Any]:
    """What the results of these arms depend on."""
    settings = plan.settings.model_dump(mode="json")
    kept = ("finetune", "equal", "num_examples", "tasks", "has_probes", "has_agreement")
    return {
        "study": plan.name,
        "corpus": plan.corpus,
        "asked": plan.asked,
        "task_recipes": plan.task_recipes,
        "examples": plan.examples.model_dump(mode="json"),
        "arms": {name: _forget_place(plan.bound[name]) for name in arm_names},
        **{key: settings[key] for key in kept},
    }


def _forget_place(bound: dict[str, Any]) -> dict[str, Any]:
    """An arm without the place of its held-out text, which is known by its contents, as others are."""
    pretrain = bound["pretrain"]
    is_given = pretrain["held_out"]["data"] is not None
    return {**bound, "pretrain": {**pretrain, "held_out": {**pretrain["held_out"], "data": is_given}}}


def refuse_strangers(study_dir: Path) -> None:
    """A new study takes an empty folder."""
    if study_dir.exists() and not study_dir.is_dir():
        raise InputError(f"{study_dir}: is a file, and a folder is to be written there; choose another --out")
    found = [path.name for path in study_dir.iterdir()] if study_dir.exists() else []
    others = [name for name in found if not name.startswith(".")]  # a study that was refused leaves its lock
    if others:
        raise InputError(
            f"{study_dir}: holds {', '.join(sorted(others)[:3])}, which is no study; choose an empty --out"
        )
