"""The folder of a run: settings and what they were run with come in, and are found again when it goes on."""

import hashlib
import platform
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import Field

from albert import __version__
from albert.corpus.corpus import Corpus
from albert.errors import InputError
from albert.files import read_json, write_json, write_text
from albert.settings import Settings, build_settings, read_settings
from albert.training.metrics import METRICS_NAME, TENSORBOARD_DIR
from albert.training.settings import PretrainSettings

SETTINGS_NAME = "settings.yaml"
RUN_NAME = "run.json"
LOCK_NAME = "lock"
LAUNCH_NAME = ".launch.json"
CHECKPOINTS_DIR = "checkpoints"
MODEL_DIR = "model"
BEST_DIR = "best"
_PACKAGES = ("torch", "numpy", "pyarrow", "sentencepiece", "tokenizers", "safetensors")


class RunFacts(Settings):
    """What a run was started with besides its settings: never changed afterwards."""

    data: str
    corpus: str
    held_out: str = ""
    num_pieces: int
    vocabulary: str
    unigram_loss: float
    num_threads: int
    budget_seconds: float | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    started: str = ""


def identify_corpus(corpus: Corpus) -> str:
    """A hash of what the corpus holds, from its manifest, and of the part of it that is seen."""
    shards = "".join(shard.sha256 for shard in corpus.manifest.shards)
    return hashlib.sha256(f"{corpus.manifest.vocabulary}{shards}{corpus.sentences}".encode()).hexdigest()


def list_versions() -> dict[str, str]:
    """The versions of everything that has a part in the result."""
    found = {name: metadata.version(name) for name in _PACKAGES}
    return {"albert": __version__, "python": platform.python_version(), "system": sys.platform, **found}


def has_run(run_dir: Path) -> bool:
    """Whether a run was begun there."""
    return (run_dir / RUN_NAME).exists()


def write_run(run_dir: Path, settings: PretrainSettings, facts: RunFacts) -> None:
    """Write down how a run begins; its last file makes it one."""
    write_text(run_dir / SETTINGS_NAME, settings.to_yaml())
    stamped = facts.model_copy(
        update={"versions": list_versions(), "started": time.strftime("%Y-%m-%d %H:%M:%S %z")}
    )
    write_json(run_dir / RUN_NAME, stamped.model_dump(mode="json"))


def read_run(run_dir: Path) -> tuple[PretrainSettings, RunFacts]:
    """How a run was begun."""
    if not has_run(run_dir):
        raise InputError(f"{run_dir}: no {RUN_NAME}; it is no folder of a run")
    settings = read_settings(PretrainSettings, run_dir / SETTINGS_NAME)
    path = run_dir / RUN_NAME
    return settings, build_settings(RunFacts, values=read_json(path), source=str(path))


def is_same_launch(run_dir: Path, launchers: list[str]) -> bool:
    """Whether one of those who started the run last has started it again, after a process was lost."""
    path = run_dir / LAUNCH_NAME
    return path.exists() and not set(launchers).isdisjoint(read_json(path)["launchers"])


def write_launch(run_dir: Path, launchers: list[str]) -> None:
    """Write down who started the run's processes."""
    write_json(run_dir / LAUNCH_NAME, {"launchers": launchers})


def refuse_strangers(run_dir: Path) -> None:
    """A new run takes an empty folder, or one that holds nothing but a run that never began."""
    if run_dir.exists() and not run_dir.is_dir():
        raise InputError(f"{run_dir}: is a file, and a folder is to be written there; choose another --out")
    known = {SETTINGS_NAME, METRICS_NAME, LOCK_NAME, CHECKPOINTS_DIR, TENSORBOARD_DIR}
    found = [path.name for path in run_dir.iterdir()] if run_dir.exists() else []
    others = [name for name in found if name not in known and not name.startswith(".")]
    if others:
        raise InputError(
            f"{run_dir}: holds {', '.join(sorted(others)[:3])}, which is no run; choose an empty --out"
        )


def find_change(before: Any, after: Any, prefix: str = "") -> str | None:
    """The first key in which two dumped settings differ, with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            found = find_change(before.get(key), after.get(key), f"{prefix}{key}.")
            if found is not None:
                return found
        return None
    return None if before == after else f"{prefix.rstrip('.')} is {after} and was {before}"
