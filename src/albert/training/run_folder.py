"""The folder of a run: settings and what they were run with come in, and are found again when it goes on."""

import platform
import sys
import time
from collections.abc import Collection
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from albert import __version__
from albert.errors import InputError
from albert.files import read_json, refuse_foreign, require_folder, write_json, write_text
from albert.settings import Settings, build_settings, find_change, read_settings

SETTINGS_NAME = "settings.yaml"
RUN_NAME = "run.json"
LOCK_NAME = "lock"
LAUNCH_NAME = ".launch.json"
CHECKPOINTS_DIR = "checkpoints"
MODEL_DIR = "model"
# What to do where there is no room for the model at a run's end.
STEPS_ARE_SAVED = "all steps are saved: mend that and go on with --resume"
BEST_DIR = "best"
# What may differ when a run goes on: it changes no weight.
FREE_KEYS = frozenset({"strategy", "log_every", "save_minutes", "num_checkpoints", "has_tensorboard"})
_PACKAGES = ("torch", "numpy", "pyarrow", "sentencepiece", "tokenizers", "safetensors")


class RunFacts(Settings):
    """What any run was started with besides its settings: never changed afterwards."""

    job: str
    data: str
    vocabulary: str
    num_threads: int
    versions: dict[str, str] = Field(default_factory=dict)
    started: str = ""


S = TypeVar("S", bound=Settings)
F = TypeVar("F", bound=RunFacts)


def list_versions() -> dict[str, str]:
    """The versions of everything that has a part in the result."""
    found = {name: metadata.version(name) for name in _PACKAGES}
    return {"albert": __version__, "python": platform.python_version(), "system": sys.platform, **found}


def has_run(run_dir: Path) -> bool:
    """Whether a run was begun there."""
    return (run_dir / RUN_NAME).exists()


def write_run(run_dir: Path, settings: Settings, facts: RunFacts) -> None:
    """Write down how a run begins; its last file makes it one."""
    write_text(run_dir / SETTINGS_NAME, settings.to_yaml())
    stamped = facts.model_copy(
        update={"versions": list_versions(), "started": time.strftime("%Y-%m-%d %H:%M:%S %z")}
    )
    write_json(run_dir / RUN_NAME, stamped.model_dump(mode="json"))


def read_run(run_dir: Path, settings_type: type[S], facts_type: type[F]) -> tuple[S, F]:
    """How a run was begun; refused: a folder of none, or of another job's."""
    if not has_run(run_dir):
        raise InputError(f"{run_dir}: no {RUN_NAME}; it is no folder of a run")
    path = run_dir / RUN_NAME
    values = read_json(path)
    wanted = facts_type.model_fields["job"].default
    job = values.get("job", wanted) if isinstance(values, dict) else wanted
    if job != wanted:
        raise InputError(f"{run_dir}: is a run of albert {job}, and one of albert {wanted} is needed")
    settings = read_settings(settings_type, run_dir / SETTINGS_NAME)
    return settings, build_settings(facts_type, values=values, source=str(path))


def is_same_launch(run_dir: Path, launchers: list[str]) -> bool:
    """Whether one of those who started the run last has started it again, after a process was lost."""
    path = run_dir / LAUNCH_NAME
    return path.exists() and not set(launchers).isdisjoint(read_json(path)["launchers"])


def write_launch(run_dir: Path, launchers: list[str]) -> None:
    """Write down who started the run's processes."""
    write_json(run_dir / LAUNCH_NAME, {"launchers": launchers})


def refuse_strangers(run_dir: Path) -> None:
    """A new run takes an empty folder, or what one left that was killed before it began.

    That is a lock, and perhaps settings; settings without a lock are somebody's own.
    """
    found = require_folder(run_dir)
    known = {LOCK_NAME, SETTINGS_NAME} if LOCK_NAME in found else set()
    others = [name for name in found if name not in known and not name.startswith(".")]
    refuse_foreign(run_dir, others, what="run")


def refuse_changes(
    run_dir: Path, settings: Settings, *, asked: Settings, free: Collection[str], cure: str
) -> None:
    """Refuse other settings than the run began with, but for those that are free to change."""
    before, after = (
        {key: value for key, value in dumped.model_dump(mode="json").items() if key not in free}
        for dumped in (settings, asked)
    )
    change = find_change(before, after)
    if change is not None:
        raise InputError(f"{run_dir}: {change}; a run goes on as it began. Leave the change out, or {cure}")
