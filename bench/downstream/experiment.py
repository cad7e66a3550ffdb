"""The paths, settings and initial models that all trials share."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from albert.errors import InputError
from albert.files import read_json, write_json
from albert.model.config import Initialization
from albert.pretrained.folder import load_model, save_untrained
from albert.tasks.catalogue import PUBLISHED_TASKS
from albert.tasks.finetune import identify_weights
from bench.downstream.reference import OFFICIAL_SIZES
from bench.downstream.subsets import write_subset

Variant = Literal["pretrained", "untrained", "baselines"]
VARIANTS: tuple[Variant, ...] = ("untrained", "pretrained")


@dataclass(frozen=True)
class Trial:
    """A run of a task: its baselines, or fine-tuning of a variant with a seed."""

    task: str
    variant: Variant
    seed: int = 0

    @property
    def name(self) -> str:
        """Return the name of its files."""
        return "baselines" if self.variant == "baselines" else f"{self.variant}-{self.seed}"


@dataclass(frozen=True)
class Experiment:
    """The model, data, output folder and settings that all trials share."""

    model: Path
    data: Path
    out: Path
    max_train: Mapping[str, int]
    overrides: tuple[str, ...] = ()
    start: Initialization = field(default_factory=Initialization)

    @property
    def identity(self) -> dict[str, Any]:
        """Return what identifies a folder of trials."""
        return {
            "weights": identify_weights(load_model(self.model, heads={}).model),
            "overrides": list(self.overrides),
            "start": str(self.start),
        }

    def list_overrides(self, task: str) -> tuple[str, ...]:
        """List the settings of a task's runs; later ones override."""
        return tuple(setting for name, setting in map(split_setting, self.overrides) if name in ("", task))

    def find_data(self, task: str) -> Path:
        """Find the data of a task; a limited task has its own folder for each limit."""
        if task not in self.max_train:
            return self.data
        number = self.max_train[task]
        out = self.out / "data" / f"{task}-{number}"
        return write_subset(PUBLISHED_TASKS[task], self.data, out=out, max_train=number)

    def find_result(self, trial: Trial) -> Path:
        """Return the path of a trial's result; a limit is part of its name."""
        cut = f"-{self.max_train[trial.task]}" if trial.task in self.max_train else ""
        return self.out / "results" / f"{trial.task}{cut}" / f"{trial.name}.json"

    def find_run(self, trial: Trial) -> Path:
        """Return the folder of its fine-tuning run."""
        return self.out / "runs" / self.find_result(trial).parent.name / trial.name

    def find_start(self, trial: Trial) -> Path:
        """Return the model to start from; an untrained one is created for each seed."""
        if trial.variant == "pretrained":
            return self.model
        folder = self.out / "untrained" / f"seed-{trial.seed}"
        if not folder.exists():
            save_untrained(self.model, folder, seed=trial.seed, start=self.start)
        return folder


def split_setting(word: str) -> tuple[str, str]:
    """Split `sst-2:num_steps=9` into task and setting; the task is empty if it is for all."""
    name, colon, _ = word.partition("=")[0].partition(":")
    return (name.lower(), word.partition(":")[2]) if colon else ("", word)


def open_experiment(experiment: Experiment) -> None:
    """Create or check the folder; raise if it has trials of another model, or of a task with other settings.

    The settings of a task without results may still change.
    """
    path = experiment.out / "plan.json"
    identity = experiment.identity
    known = read_json(path) if path.exists() else None
    if known == identity:
        return
    if known is not None:
        before = replace(experiment, overrides=tuple(known["overrides"]))
        for key in ("weights", "start"):
            _reject_other(experiment, key, known[key], identity[key])
        for task in _list_started(experiment.out / "results"):
            _reject_other(
                experiment,
                f"settings of {task}",
                before.list_overrides(task),
                experiment.list_overrides(task),
            )
    write_json(path, identity)


def _list_started(results: Path) -> list[str]:
    """List the tasks that have a folder of results, with any limit."""
    names = [path.name for path in results.iterdir()] if results.exists() else []
    return [
        task
        for task in OFFICIAL_SIZES
        if any(re.fullmatch(rf"{re.escape(task)}(-\d+)?", name) for name in names)
    ]


def _reject_other(experiment: Experiment, what: str, known: object, now: object) -> None:
    if known != now:
        raise InputError(
            f"{experiment.out} was started with other {what} ({known}, now {now}); choose another --out"
        )
