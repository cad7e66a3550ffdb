"""Checkpoints: the state of a run comes in, a folder goes out, whole or not at all; and back, checked.

`step-N/tensors.safetensors` holds the weights and the optimiser's moments by name, `step-N/state.json` the
rest and the checksum of the tensors.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from albert.errors import AlbertError, FileFormatError
from albert.files import atomic_dir, read_json, write_json

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
        return sorted(int(name) for name in found if name.isdigit())

    def save(self, checkpoint: Checkpoint, *, best_step: int | None = None) -> None:
        """Write one and remove those that are no longer wanted; never before the new one is on the disk."""
        with atomic_dir(self._place(checkpoint.step)) as aside:
            path = aside / TENSORS_NAME
            _write_tensors(checkpoint.tensors, path)
            content = {**checkpoint.state, "step": checkpoint.step, "sha256": _hash(path)}
            write_json(aside / STATE_NAME, {**content, "state_sha256": _hash_state(content)})
        steps = self.list_steps()
        # What lies ahead of this one was damaged and passed over: the run comes by there again.
        kept = {*[step for step in steps if step <= checkpoint.step][-self.num_kept :], best_step}
        for step in steps:
            if step not in kept:
                shutil.rmtree(self._place(step), ignore_errors=True)

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
        place = self._place(step)
        state = read_json(place / STATE_NAME)
        path = place / TENSORS_NAME
        if not path.exists():
            raise FileFormatError(f"{path}: missing")
        if not isinstance(state, dict) or state.pop("state_sha256", "") != _hash_state(state):
            raise FileFormatError(f"{place / STATE_NAME}: damaged, the checksum does not fit")
        if state.get("step") != step or _hash(path) != state.get("sha256"):
            raise FileFormatError(f"{place}: damaged, the checksum does not fit")
        try:
            return Checkpoint(step, load_file(path), state)
        except SafetensorError as error:
            raise FileFormatError(f"{path}: damaged ({error})") from error

    def sweep(self) -> None:
        """Remove what a killed run was writing."""
        for path in self.path.glob(f".{_PREFIX}*"):
            shutil.rmtree(path, ignore_errors=True)

    def _place(self, step: int) -> Path:
        return self.path / f"{_PREFIX}{step}"


def _write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        save_file(tensors, path)
    except SafetensorError as error:  # its own name for a full disk
        raise OSError(f"{path.name}: {error}") from error


def gather_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights and moments by name, so that no order of parameters matters."""
    tensors = {f"model.{name}": weight.detach() for name, weight in model.state_dict().items()}
    for name, weight in model.named_parameters():
        for key, value in optimizer.state.get(weight, {}).items():
            tensors[f"optimizer.{key}.{name}"] = torch.as_tensor(value)
    return {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}


def restore_tensors(tensors: dict[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put weights and moments back where they were."""
    model.load_state_dict(_strip(tensors, "model."))
    moments = _strip(tensors, "optimizer.")
    named = dict(model.named_parameters())
    for key_and_name, value in moments.items():
        key, _, name = key_and_name.partition(".")
        optimizer.state[named[name]][key] = value.to(named[name].device, copy=True)


def _strip(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _hash_state(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(1 << 20):
            digest.update(chunk)
        return digest.hexdigest()
