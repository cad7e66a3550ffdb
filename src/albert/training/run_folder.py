"""The files of a run: settings, metadata, the lock against other processes, and the metrics log.

They are read without torch. Checkpoints are in `checkpoints.py`, models in `pretrained.folder`.
"""

import hashlib
import json
import math
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from pydantic import Field

from albert import __version__
from albert.data.corpus import Corpus
from albert.errors import InputError
from albert.files import hold, read_json, reject_foreign, require_folder, write_json, write_text
from albert.settings import Settings, build_settings, find_change, read_settings
from albert.training.settings import PretrainSettings

if TYPE_CHECKING:
    from albert.training.step import StepReport

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

SETTINGS_NAME = "settings.yaml"
RUN_NAME = "run.json"
LOCK_NAME = "lock"
METRICS_NAME = "metrics.jsonl"
TENSORBOARD_DIR = "tensorboard"
CHECKPOINTS_DIR = "checkpoints"
MODEL_DIR = "model"
BEST_DIR = "best"
CORPUS_DIR = "corpus"  # that `albert distill` prepared from texts
STEPS_ARE_SAVED = "all steps are saved: free some space and use --resume"
# Settings that may change when a run is resumed, because they do not affect the weights.
FREE_KEYS = frozenset({"strategy", "log_every", "save_minutes", "num_checkpoints", "has_tensorboard"})
STATUS_PATH = Path("/proc/self/status")  # memory of this process
MEMORY_PATH = Path("/proc/meminfo")  # memory of the system
_PACKAGES = ("torch", "numpy", "pyarrow", "sentencepiece", "tokenizers", "safetensors")


class RunMetadata(Settings):
    """What a run was started with, besides its settings; never changed afterwards."""

    job: str
    data: str
    vocabulary: str
    num_threads: int
    versions: dict[str, str] = Field(default_factory=dict)
    started: str = ""


class PretrainMetadata(RunMetadata):
    """The metadata of a pretraining run."""

    former_names: ClassVar[Mapping[str, str]] = {"num_pieces": "num_tokens", "num_asked": "num_held_out"}

    job: Literal["pretrain"] = "pretrain"
    corpus: str
    held_out: str = ""
    num_tokens: int
    unigram_loss: float
    num_held_out: int | None = None  # held-out examples; documents of a single sentence make none
    budget_seconds: float | None = None
    recipe_steps: int | None = None  # before a budget changed the number of steps
    teacher: str | None = None  # a hash of its weights


S = TypeVar("S", bound=Settings)
M = TypeVar("M", bound=RunMetadata)


def has_run(run_dir: Path) -> bool:
    """Whether the folder holds a run."""
    return (run_dir / RUN_NAME).exists()


@contextmanager
def claim_run(run_dir: Path, *, resume: bool) -> Iterator[None]:
    """Lock a run folder while the block runs; remove it again if no run has started by then.

    Raises:
        InputError: If it holds other files, holds a run and `resume` is false, or another process uses it.
    """
    if not has_run(run_dir):
        # A killed process leaves a lock and perhaps settings; settings without a lock are not a run's.
        found = require_folder(run_dir)
        known = {LOCK_NAME, SETTINGS_NAME, CORPUS_DIR} if LOCK_NAME in found else {CORPUS_DIR}
        others = [name for name in found if name not in known and not name.startswith(".")]
        reject_foreign(run_dir, others, what="run")
    elif not resume:
        if (run_dir / MODEL_DIR).exists():
            raise InputError(f"{run_dir}: this run is finished; choose another --out, or remove the folder")
        raise InputError(
            f"{run_dir}: already holds a run; add --resume to continue it, or choose another --out"
        )
    busy = f"{run_dir}: another process is training in it; wait for it, or choose another --out"
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


def write_run(run_dir: Path, settings: Settings, run_metadata: RunMetadata) -> None:
    """Write the settings and the metadata of a new run; from then on `has_run` is true."""
    write_text(run_dir / SETTINGS_NAME, settings.to_yaml())
    stamp = {"versions": list_versions(), "started": time.strftime("%Y-%m-%d %H:%M:%S %z")}
    write_json(run_dir / RUN_NAME, run_metadata.model_copy(update=stamp).model_dump(mode="json"))


def list_versions() -> dict[str, str]:
    """List the versions of albert, Python and the libraries that influence the result."""
    packages = {name: metadata.version(name) for name in _PACKAGES}
    return {"albert": __version__, "python": platform.python_version(), "system": sys.platform, **packages}


def read_run(run_dir: Path, settings_type: type[S], metadata_type: type[M]) -> tuple[S, M]:
    """Read settings and metadata; raise an InputError if it is not a run, or the run of another command."""
    path = run_dir / RUN_NAME
    expected = metadata_type.model_fields["job"].default
    if not path.exists():
        raise InputError(
            f"{run_dir}: is not a run folder (no {RUN_NAME}); give the --out of albert {expected}"
        )
    values = read_json(path)
    if (job := values.get("job", expected)) != expected:
        raise InputError(f"{run_dir}: is a run of albert {job}; give a run of albert {expected}")
    settings = read_settings(settings_type, run_dir / SETTINGS_NAME)
    return settings, build_settings(metadata_type, values=values, source=str(path))


def read_pretrain_run(run_dir: Path) -> tuple[PretrainSettings, PretrainMetadata]:
    """Read the settings and the metadata of a pretraining run."""
    return read_run(run_dir, PretrainSettings, PretrainMetadata)


def identify_corpus(corpus: Corpus) -> str:
    """Hash the content of a corpus (from its manifest) and the range of its sentences that is used."""
    shards = "".join(shard.sha256 for shard in corpus.manifest.shards)
    return hashlib.sha256(f"{corpus.manifest.vocabulary}{shards}{corpus.sentences}".encode()).hexdigest()


def reject_changes(
    run_dir: Path, settings: Settings, *, given: Settings, free: Collection[str], hint: str
) -> None:
    """Raise an InputError if the given settings differ from the run's in other keys than the `free` ones."""
    before, after = (each.model_dump(mode="json", exclude=set(free)) for each in (settings, given))
    change = find_change(before, after)
    if change is not None:
        raise InputError(
            f"{run_dir}: {change}; a run is resumed with its own settings. Remove the change, or {hint}"
        )


def iter_records(run_dir: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of the metrics log in order; skip damaged lines."""
    path = run_dir / METRICS_NAME
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            with suppress(ValueError):
                yield json.loads(line)


def list_records(run_dir: Path, kind: str) -> list[dict[str, Any]]:
    """List the records of one kind, in order."""
    return [record for record in iter_records(run_dir) if record.get("kind") == kind]


def keep_figures(record: Mapping[str, Any]) -> dict[str, float]:
    """Select the losses and accuracies of a record."""
    keys = [name for name in record if name.endswith(("_loss", "_accuracy"))]
    return {name: record[name] for name in keys if record[name] is not None}


class MetricsLog:
    """Appends records to metrics.jsonl and TensorBoard once it is open.

    A failed write is reported once and does not stop training.
    """

    def __init__(self, run_dir: Path, *, say: Callable[[str], None]) -> None:
        self._path, self._say = run_dir / METRICS_NAME, say
        self._has_failed = False
        self._file: Any = None
        self._board: Any = None

    def open(self, *, first_step: int, has_tensorboard: bool) -> None:
        """Open the files and drop the records after `first_step`; called by the main process only."""
        run_dir = self._path.parent
        with self._reporting_failure():
            kept = [record for record in iter_records(run_dir) if record["step"] <= first_step]
            write_text(self._path, "".join(json.dumps(record) + "\n" for record in kept))
            self._file = self._path.open("a", encoding="utf-8")
        if has_tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            with self._reporting_failure():
                purge_step = first_step + 1 if first_step else None
                self._board = SummaryWriter(str(run_dir / TENSORBOARD_DIR), purge_step=purge_step)

    def write(self, kind: str, step: int, **values: Any) -> None:
        """Write a record; its kind is train, evaluate, skip, save, start or end."""
        with self._reporting_failure():
            if self._file is not None:
                self._file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
                self._file.flush()
        if self._board is not None and kind in ("train", "evaluate"):
            with self._reporting_failure():
                for name, value in values.items():
                    if isinstance(value, int | float) and not isinstance(value, bool):
                        self._board.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        for writer in (self._file, self._board):
            with self._reporting_failure():
                if writer is not None:
                    writer.close()

    @contextmanager
    def _reporting_failure(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._has_failed:
                self._say(f"{self._path}: cannot be written ({error.strerror or error}); training continues")
            self._has_failed = True


def summarize_steps(reports: "Sequence[StepReport]") -> dict[str, float | None]:
    """Average losses and accuracies, add up the times, and measure memory and load of the machine."""
    figures: dict[str, float | None] = {}
    for name in dict.fromkeys(name for report in reports for name in report.losses):
        figures[f"{name}_loss"] = _average([report.losses.get(name) for report in reports])
        figures[f"{name}_accuracy"] = _average([report.accuracies.get(name) for report in reports])
    num_tokens, seconds = (sum(getattr(each, name) for each in reports) for name in ("num_tokens", "seconds"))
    timed = ("seconds", "waited_seconds", "model_seconds", "optimizer_seconds")
    return {
        **figures,
        "loss": _average([sum(report.losses.values()) for report in reports if report.losses]),
        "grad_norm": _average([report.grad_norm for report in reports]),
        "learning_rate": reports[-1].learning_rate,
        "tokens_per_second": round(num_tokens / max(seconds, 1e-9), 1),
        **{name: round(sum(getattr(report, name) for report in reports), 4) for name in timed},
        **measure_machine(),
    }


def format_steps(figures: Mapping[str, float | None]) -> str:
    """Format the losses, accuracies and speed of summarized steps as one line."""
    parts = []
    for key, loss in figures.items():
        name = key.removesuffix("_loss")
        accuracy = figures.get(f"{name}_accuracy")
        if name != key and loss is not None and accuracy is not None:
            parts.append(f"{name} {loss:.3f} ({accuracy:.1%})")
    return ", ".join([*parts, f"{figures['tokens_per_second']:,.0f} tokens/s"])


def _average(values: list[float | None]) -> float | None:
    finite = [value for value in values if value is not None and math.isfinite(value)]
    return round(sum(finite) / len(finite), 6) if finite else None


def measure_machine() -> dict[str, float]:
    """Measure peak and swapped memory in megabytes, major page faults, and the system's load."""
    status, measured = read_amounts(STATUS_PATH), dict[str, float]()
    if resource is not None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        measured["major_faults"] = usage.ru_majflt
        # The peak of getrusage may be that of the parent process.
        status.setdefault("VmHWM", usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
    if hasattr(os, "getloadavg"):
        measured["load"] = round(os.getloadavg()[0], 2)
    keys = {"VmHWM": "peak_mb", "VmSwap": "swap_mb"}
    return measured | {keys[name]: round(size / 1024**2, 1) for name, size in status.items() if name in keys}


def read_amounts(path: Path) -> dict[str, int]:
    """Read the `Name: N kB` lines of a Linux /proc file, in bytes; empty if it does not exist."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return {name: int(number) * 1024 for name, number in re.findall(r"(?m)^(\S+):\s+(\d+) kB$", text)}
