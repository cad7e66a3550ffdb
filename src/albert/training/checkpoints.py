"""Checkpoints: the state of a run comes in, a folder goes out, whole or not at all; and back, checked.

`step-N/tensors.safetensors` holds the weights and the optimiser's moments by name, `step-N/state.json` the
rest and the checksums. Several processes write torch's distributed format instead.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from albert.errors import AlbertError, FileFormatError
from albert.files import atomic_dir, hash_file, read_json, write_json
from albert.pretrained.weights_file import save_tensors

TENSORS_NAME = "tensors.safetensors"
STATE_NAME = "state.json"
_PREFIX = "step-"


@dataclass(frozen=True)
class Checkpoint:
    """One state of a run: after `step` steps, the tensors by name and everything else as plain data."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]


@dataclass(frozen=True)
class CheckpointFolder:
    """The checkpoints of a run; the newest `num_kept` stay, and the best."""

    path: Path
    num_kept: int = 2

    def list_steps(self) -> list[int]:
        """The steps that have a checkpoint, in order."""
        found = [path.name.removeprefix(_PREFIX) for path in self.path.glob(f"{_PREFIX}*")]
        return sorted(int(name) for name in found if name.isascii() and name.isdecimal())

    def save(self, checkpoint: Checkpoint, *, best_step: int | None = None) -> None:
        """Write one and remove those that are no longer wanted; never before the new one is on the disk."""
        with atomic_dir(self.place(checkpoint.step)) as aside:
            save_tensors(aside / TENSORS_NAME, checkpoint.tensors)
            write_state(aside, checkpoint.step, checkpoint.state)
        self.prune(checkpoint.step, best_step=best_step)

    def prune(self, step: int, *, best_step: int | None) -> None:
        """Remove what is no longer wanted after `step` was saved."""
        steps = self.list_steps()
        # What lies ahead of this one was damaged and passed over: the run comes by there again.
        kept = {*[other for other in steps if other <= step][-self.num_kept :], best_step}
        for other in steps:
            if other not in kept:
                shutil.rmtree(self.place(other), ignore_errors=True)

    def load_newest(self, *, say: Callable[[str], None]) -> Checkpoint | None:
        """The newest whole checkpoint; damaged ones are named and passed over. None: there is none."""
        for step in reversed(self.list_steps()):
            try:
                return self.load(step)
            except AlbertError as error:  # noqa: PERF203 - there are few, and each may fail
                say(f"{error}; going back to the checkpoint before it")
        return None

    def load(self, step: int) -> Checkpoint:
        """The checkpoint of a step; refused: a part that is missing, cut short or changed."""
        place = self.place(step)
        state = read_json(place / STATE_NAME)
        if not isinstance(state, dict) or state.pop("state_sha256", "") != _hash_state(state):
            raise FileFormatError(f"{place / STATE_NAME}: damaged, the checksum does not fit")
        for name, digest in state["files"].items():
            if not (place / name).exists():
                raise FileFormatError(f"{place / name}: missing")
            if hash_file(place / name) != digest:
                raise FileFormatError(f"{place / name}: damaged, the checksum does not fit")
        if state.get("step") != step:
            raise FileFormatError(f"{place}: is of step {state.get('step')}")
        return Checkpoint(step, _read_tensors(place), state)

    def sweep(self) -> None:
        """Remove what a killed run was writing."""
        for path in self.path.glob(f".{_PREFIX}*"):
            shutil.rmtree(path, ignore_errors=True)

    def place(self, step: int) -> Path:
        """Where the checkpoint of a step lies."""
        return self.path / f"{_PREFIX}{step}"


def write_state(place: Path, step: int, state: dict[str, Any]) -> None:
    """Write the rest of a checkpoint beside its tensors, with the checksums of all: what makes it one."""
    files = {path.name: hash_file(path) for path in sorted(place.iterdir())}
    content = {**state, "step": step, "files": files}
    write_json(place / STATE_NAME, {**content, "state_sha256": _hash_state(content)})


def _read_tensors(place: Path) -> dict[str, Tensor]:
    path = place / TENSORS_NAME
    if not path.exists():
        # Written by several processes together.
        from albert.training.distributed_checkpoints import read_spread_tensors

        return read_spread_tensors(place)
    try:
        return load_file(path)
    except SafetensorError as error:
        raise FileFormatError(f"{path}: damaged ({error})") from error


def _hash_state(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
