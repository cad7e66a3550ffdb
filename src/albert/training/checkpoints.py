"""Checkpoints: the state of a run after a step, written whole or not at all, and checked when it is read.

`step-N/tensors.safetensors` holds the weights and the optimizer's moments by name, `step-N/state.json` the
rest and the checksums. Several processes write torch's distributed format instead (`distributed.py`).
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
from safetensors.torch import load_file
from torch import Tensor, nn

from albert.errors import AlbertError, FileFormatError
from albert.files import atomic_dir, hash_file, read_json, write_json
from albert.pretrained.folder import save_tensors
from albert.training.world import DistributedContext, is_launched

TENSORS_NAME = "tensors.safetensors"
STATE_NAME = "state.json"
_PREFIX = "step-"


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after `step` steps: tensors by name, and everything else as plain data."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]


@dataclass(frozen=True)
class CheckpointFolder:
    """The checkpoints of a run; the newest `num_kept` and the best are kept."""

    path: Path
    num_kept: int = 2

    def place(self, step: int) -> Path:
        """The folder of the checkpoint of a step."""
        return self.path / f"{_PREFIX}{step}"

    def list_steps(self) -> list[int]:
        """List the steps that have a checkpoint, in order."""
        found = [path.name.removeprefix(_PREFIX) for path in self.path.glob(f"{_PREFIX}*")]
        return sorted(int(name) for name in found if name.isascii() and name.isdecimal())

    def save(self, checkpoint: Checkpoint, *, best_step: int | None = None) -> None:
        """Write a checkpoint, then remove those that are no longer needed."""
        with atomic_dir(self.place(checkpoint.step)) as aside:
            save_tensors(aside / TENSORS_NAME, checkpoint.tensors)
            write_state(aside, checkpoint.step, checkpoint.state)
        self.prune(checkpoint.step, best_step=best_step)

    def prune(self, step: int, *, best_step: int | None) -> None:
        """Remove the checkpoints that are no longer needed after `step` was saved."""
        steps = self.list_steps()
        # Later ones were damaged, and the run started again before them.
        kept = {*[other for other in steps if other <= step][-self.num_kept :], best_step}
        for other in steps:
            if other not in kept:
                shutil.rmtree(self.place(other), ignore_errors=True)

    def load_newest(self, *, say: Callable[[str], None]) -> Checkpoint | None:
        """Load the newest undamaged checkpoint; report damaged ones. Return None if there is none."""
        for step in reversed(self.list_steps()):
            try:
                return self.load(step)
            except AlbertError as error:  # noqa: PERF203 - there are few, and each may fail
                say(f"{error}; going back to the checkpoint before it")
        return None

    def load(self, step: int) -> Checkpoint:
        """Load the checkpoint of a step.

        Raises:
            FileFormatError: If a file is missing, cut short or changed.
        """
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
        path = place / TENSORS_NAME
        if not path.exists():  # written by several processes
            from albert.training.distributed import read_spread_tensors

            return Checkpoint(step, read_spread_tensors(place), state)
        try:
            return Checkpoint(step, load_file(path), state)
        except SafetensorError as error:
            raise FileFormatError(f"{path}: damaged ({error})") from error


def write_state(place: Path, step: int, state: dict[str, Any]) -> None:
    """Write state.json beside the tensors, with the checksums of all files."""
    files = {path.name: hash_file(path) for path in sorted(place.iterdir())}
    content = {**state, "step": step, "files": files}
    write_json(place / STATE_NAME, {**content, "state_sha256": _hash_state(content)})


def _hash_state(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


class Saver:
    """Writes checkpoints while training waits."""

    def __init__(self, folder: CheckpointFolder) -> None:
        self.folder = folder

    def save(
        self, step: int, tensors: dict[str, Tensor], state: dict[str, Any], *, best_step: int | None
    ) -> None:
        """Write the state after a step; raise an OSError where there is no room."""
        whole = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
        self.folder.save(Checkpoint(step, whole, state), best_step=best_step)

    def wait(self) -> None:
        """Wait until everything is written."""


def open_saver(world: DistributedContext, folder: CheckpointFolder) -> Saver:
    """Return the saver of a world: several processes write together, in the background."""
    if not is_launched():
        return Saver(folder)
    from albert.training.distributed import AsyncSaver

    return AsyncSaver(folder, world)


def list_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """List weights and moments by name, sharded or whole as they are."""
    tensors = {f"model.{name}": weight.detach() for name, weight in model.state_dict().items()}
    for name, weight in model.named_parameters():
        for key, value in optimizer.state.get(weight, {}).items():
            tensors[f"optimizer.{key}.{name}"] = torch.as_tensor(value)
    return tensors


@torch.no_grad()
def restore_tensors(
    tensors: dict[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer, world: DistributedContext
) -> None:
    """Copy whole weights and moments into a model and its optimizer, sharded as they are now."""
    for name, weight in model.state_dict().items():
        weight.copy_(world.place(tensors[f"model.{name}"], like=weight))
    named = dict(model.named_parameters())
    for full_name, value in tensors.items():
        if full_name.startswith("optimizer."):
            key, _, name = full_name.removeprefix("optimizer.").partition(".")
            weight = named[name]
            optimizer.state[weight][key] = (
                value.to(weight.device, copy=True) if value.ndim == 0 else world.place(value, like=weight)
            )
