"""The folder of a run: its settings, its metadata, and the lock that keeps other processes out."""

import hashlib
import platform
import shutil
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field

from albert import __version__
from albert.data.corpus import Corpus
from albert.errors import InputError
from albert.files import hold, read_json, reject_foreign, require_folder, write_json, write_text
from albert.settings import Settings, build_settings, find_change, read_settings
from albert.training.settings import PretrainSettings

SETTINGS_NAME = "settings.yaml"
RUN_NAME = "run.json"
LOCK_NAME = "lock"
CHECKPOINTS_DIR = "checkpoints"
MODEL_DIR = "model"
BEST_DIR = "best"
# What to do where there is no room for the model at a run's end.
STEPS_ARE_SAVED = "all steps are saved: mend that and go on with --resume"
# Settings that may change when a run is resumed: they change no weight.
FREE_KEYS = frozenset({"strategy", "log_every", "save_minutes", "num_checkpoints", "has_tensorboard"})
_PACKAGES = ("torch", "numpy", "pyarrow", "sentencepiece", "tokenizers", "safetensors")


class RunMetadata(Settings):
    """The metadata of a run: what it was started with besides its settings. Never changed afterwards."""

    job: str
    data: str
    vocabulary: str
    num_threads: int
    versions: dict[str, str] = Field(default_factory=dict)
    started: str = ""


class PretrainMetadata(RunMetadata):
    """The metadata of a pretraining run.

    `num_asked` is the number of held-out examples; it may be lower than the settings ask for, because
    documents of a single sentence make no pair. `recipe_steps` is the recipe's number of steps, where a
    budget changed it.
    """

    job: Literal["pretrain"] = "pretrain"
    corpus: str
    held_out: str = ""
    num_pieces: int
    unigram_loss: float
    num_asked: int | None = None
    budget_seconds: float | None = None
    recipe_steps: int | None = None


S = TypeVar("S", bound=Settings)
F = TypeVar("F", bound=RunMetadata)


def has_run(run_dir: Path) -> bool:
    """Whether the folder holds a run."""
    return (run_dir / RUN_NAME).exists()


@contextmanager
def claim_run(run_dir: Path, *, resume: bool) -> Iterator[None]:
    """Lock the folder of a run while the block lasts.

    Where no run has started when the block ends, what was put there is removed again.

    Raises:
        InputError: If the folder holds other files, a run without `resume`, or is used by another process.
    """
    if not has_run(run_dir):
        # A killed process leaves a lock and perhaps settings; settings without a lock are somebody else's.
        found = require_folder(run_dir)
        known = {LOCK_NAME, SETTINGS_NAME} if LOCK_NAME in found else set()
        others = [name for name in found if name not in known and not name.startswith(".")]
        reject_foreign(run_dir, others, what="run")
    elif not resume:
        raise InputError(
            f"{run_dir}: holds a run already; add --resume to go on with it, or choose another --out"
        )
    busy = f"{run_dir}: another process is training there; wait for it, or choose another --out"
    created = [path for path in (run_dir, *run_dir.parents) if not path.exists()]
    with hold(run_dir / LOCK_NAME, busy=busy):
        try:
            for unfinished in (run_dir / CHECKPOINTS_DIR).glob(".step-*"):  # a killed process was writing it
                shutil.rmtree(unfinished, ignore_errors=True)
            yield
        finally:
            if not has_run(run_dir):
                with suppress(OSError):
                    for name in (SETTINGS_NAME, LOCK_NAME):
                        (run_dir / name).unlink(missing_ok=True)
                    for folder in created:
                        folder.rmdir()


def write_run(run_dir: Path, settings: Settings, facts: RunMetadata) -> None:
    """Write the settings and the metadata of a new run; from then on `has_run` is true."""
    write_text(run_dir / SETTINGS_NAME, settings.to_yaml())
    stamped = facts.model_copy(
        update={"versions": list_versions(), "started": time.strftime("%Y-%m-%d %H:%M:%S %z")}
    )
    write_json(run_dir / RUN_NAME, stamped.model_dump(mode="json"))


def list_versions() -> dict[str, str]:
    """The versions of albert, Python and the libraries that influence the result."""
    found = {name: metadata.version(name) for name in _PACKAGES}
    return {"albert": __version__, "python": platform.python_version(), "system": sys.platform, **found}


def read_run(run_dir: Path, settings_type: type[S], facts_type: type[F]) -> tuple[S, F]:
    """Read the settings and the metadata of a run.

    Raises:
        InputError: If the folder holds no run, or one of another command.
    """
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


def read_pretrain_run(run_dir: Path) -> tuple[PretrainSettings, PretrainMetadata]:
    """Read the settings and the metadata of a pretraining run."""
    return read_run(run_dir, PretrainSettings, PretrainMetadata)


def identify_corpus(corpus: Corpus) -> str:
    """Hash the content of a corpus, from its manifest, and the range of sentences that is used."""
    shards = "".join(shard.sha256 for shard in corpus.manifest.shards)
    return hashlib.sha256(f"{corpus.manifest.vocabulary}{shards}{corpus.sentences}".encode()).hexdigest()


def reject_changes(
    run_dir: Path, settings: Settings, *, asked: Settings, free: Collection[str], hint: str
) -> None:
    """Raise an InputError if other settings than those of the run are given, except for the `free` ones."""
    before, after = (
        {key: value for key, value in dumped.model_dump(mode="json").items() if key not in free}
        for dumped in (settings, asked)
    )
    change = find_change(before, after)
    if change is not None:
        raise InputError(f"{run_dir}: {change}; a run goes on as it began. Leave the change out, or {hint}")
