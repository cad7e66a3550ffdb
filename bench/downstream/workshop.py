"""What all trials share: paths, settings and the model that each starts from."""

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
from bench.downstream.facts import OFFICIAL_SIZES
from bench.downstream.subsets import write_subset

Arm = Literal["pretrained", "untrained", "baselines"]
ARMS: tuple[Arm, ...] = ("untrained", "pretrained")


@dataclass(frozen=True)
class Trial:
    """One thing to be done, and its name among the results."""

    task: str
    arm: Arm
    seed: int = 0

    @property
    def name(self) -> str:
        """Where its files lie."""
        return "baselines" if self.arm == "baselines" else f"{self.arm}-{self.seed}"


@dataclass(frozen=True)
class Workshop:
    """What all trials share: a model, data, a folder for everything, and settings."""

    model: Path
    data: Path
    out: Path
    max_train: Mapping[str, int]
    overrides: tuple[str, ...] = ()
    start: Initialization = field(default_factory=Initialization)

    @property
    def identity(self) -> dict[str, Any]:
        """What identifies a folder of trials: results of other models do not belong in it."""
        return {
            "weights": identify_weights(load_model(self.model, heads={}).model),
            "overrides": list(self.overrides),
            "start": str(self.start),
        }

    def list_overrides(self, task: str) -> tuple[str, ...]:
        """The settings of a task's runs; where one is named twice, what comes later stands."""
        return tuple(setting for name, setting in map(split_setting, self.overrides) if name in ("", task))

    def find_data(self, task: str) -> Path:
        """The data of a task, cut where it is to be; another cut is another folder."""
        if task not in self.max_train:
            return self.data
        number = self.max_train[task]
        out = self.out / "data" / f"{task}-{number}"
        return write_subset(PUBLISHED_TASKS[task], self.data, out=out, max_train=number)

    def find_result(self, trial: Trial) -> Path:
        """Where the result of a trial is, once there is one; a cut is part of its name."""
        cut = f"-{self.max_train[trial.task]}" if trial.task in self.max_train else ""
        return self.out / "results" / f"{trial.task}{cut}" / f"{trial.name}.json"

    def find_run(self, trial: Trial) -> Path:
        """The folder of its fine-tuning run."""
        return self.out / "runs" / self.find_result(trial).parent.name / trial.name

    def find_start(self, trial: Trial) -> Path:
        """The model that it starts from; an untrained one is made, a fresh one for each seed."""
        if trial.arm == "pretrained":
            return self.model
        folder = self.out / "untrained" / f"seed-{trial.seed}"
        if not folder.exists():
            save_untrained(self.model, folder, seed=trial.seed, start=self.start)
        return folder


def split_setting(word: str) -> tuple[str, str]:
    """`sst-2:num_steps=9` as its task and its setting; one for all has no task."""
    name, colon, _ = word.partition("=")[0].partition(":")
    return (name.lower(), word.partition(":")[2]) if colon else ("", word)


def open_workshop(shop: Workshop) -> None:
    """Claim the folder; one with trials of another model, or of a task with other settings, is rejected.

    The settings of a task that was not begun may still be changed.
    """
    path = shop.out / "plan.json"
    identity = shop.identity
    known = read_json(path) if path.exists() else None
    if known == identity:
        return
    if known is not None:
        before = replace(shop, overrides=tuple(known["overrides"]))
        for key in ("weights", "start"):
            _reject_other(shop, key, known[key], identity[key])
        for task in _list_begun(shop.out / "results"):
            _reject_other(shop, f"settings of {task}", before.list_overrides(task), shop.list_overrides(task))
    write_json(path, identity)


def _list_begun(results: Path) -> list[str]:
    """The tasks that have a folder of results, whatever they were cut to."""
    names = [path.name for path in results.iterdir()] if results.exists() else []
    return [
        task
        for task in OFFICIAL_SIZES
        if any(re.fullmatch(rf"{re.escape(task)}(-\d+)?", name) for name in names)
    ]


def _reject_other(shop: Workshop, what: str, known: object, now: object) -> None:
    if known != now:
        raise InputError(
            f"{shop.out}: was begun with other {what} ({known}, now {now}); choose another --out"
        )
