"""Checkpoints: the state of a run after a step, written atomically and verified when read.

`step-N/tensors.safetensors` holds the weights and the optimizer's moments by name, `step-N/state.json` the
rest and the checksums. Several processes write torch's distributed format instead, in the background.
"""

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch import Tensor, nn

from albert.errors import AlbertError, FileFormatError, one_line
from albert.files import atomic_dir, hash_file, read_json, sync, write_json
from albert.pretrained.folder import save_tensors
from albert.training.distributed import DistributedContext

TENSORS_NAME = "tensors.safetensors"
STATE_NAME = "state.json"
_PREFIX = "step-"


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after `step` steps: tensors by name, and everything else as plain data."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]


class CheckpointFolder:
    """The checkpoints of a run, of which the newest `num_kept` and the best are kept."""

    def __init__(self, path: Path, num_kept: int = 2) -> None:
        self.path, self.num_kept = path, num_kept

    def step_dir(self, step: int) -> Path:
        return self.path / f"{_PREFIX}{step}"

    def list_steps(self) -> list[int]:
        found = [path.name.removeprefix(_PREFIX) for path in self.path.glob(f"{_PREFIX}*")]
        return sorted(int(name) for name in found if name.isascii() and name.isdecimal())

    def save(self, checkpoint: Checkpoint, *, best_step: int | None = None) -> None:
        """Write a checkpoint, then remove those that are no longer needed."""
        tensors = {name: tensor.cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
        with atomic_dir(self.step_dir(checkpoint.step)) as temporary:
            save_tensors(temporary / TENSORS_NAME, tensors)
            _write_state(temporary, checkpoint)
        self._prune(checkpoint.step, best_step=best_step)

    def wait(self) -> None:
        """Wait until everything is written; several processes write in the background."""

    def load(self, step: int) -> Checkpoint:
        """Load a checkpoint; raise a FileFormatError if a file is missing, truncated or changed."""
        folder = self.step_dir(step)
        state = read_json(folder / STATE_NAME)
        if state.pop("state_sha256", "") != _hash_state(state):
            raise FileFormatError(f"{folder / STATE_NAME}: damaged, the checksum does not match")
        for name, digest in state["files"].items():
            if not (folder / name).exists() or hash_file(folder / name) != digest:
                raise FileFormatError(f"{folder / name}: missing, or the checksum does not match")
        path = folder / TENSORS_NAME
        return Checkpoint(step, load_file(path) if path.exists() else _read_distributed(folder), state)

    def load_newest(self, *, say: Callable[[str], None]) -> Checkpoint | None:
        """Load the newest undamaged checkpoint; report damaged ones. Return None if there is none."""
        for step in reversed(self.list_steps()):
            try:
                return self.load(step)
            except AlbertError as error:  # noqa: PERF203 - there are few, and each may fail
                say(f"{error}. Trying the checkpoint before it.")
        return None

    def _prune(self, step: int, *, best_step: int | None) -> None:
        steps = self.list_steps()
        # Later ones were damaged, and the run resumed before them.
        kept = {*[other for other in steps if other <= step][-self.num_kept :], best_step}
        for other in steps:
            if other not in kept:
                shutil.rmtree(self.step_dir(other), ignore_errors=True)


class DistributedCheckpointFolder(CheckpointFolder):
    """Checkpoints of several processes, each of which writes its part in a background thread.

    The thread of the first process renames the folder at the end. The threads communicate in a process group
    of their own.
    """

    def __init__(self, path: Path, num_kept: int, context: DistributedContext) -> None:
        super().__init__(path, num_kept)
        self._context = context
        self._group = dist.new_group(backend="gloo")
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None
        self._temporary: Path | None = None

    def save(self, checkpoint: Checkpoint, *, best_step: int | None = None) -> None:
        """Start to write a checkpoint; raise an OSError if the previous one could not be written."""
        from torch.distributed.checkpoint.state_dict_saver import async_save

        self.wait()
        temporary = self._temporary = self.path / f".step-{checkpoint.step}.writing"
        failure = None
        if self._context.is_main:
            try:
                shutil.rmtree(temporary, ignore_errors=True)
                temporary.mkdir(parents=True)
            except OSError as error:
                failure = str(error)
        self._raise_together(failure)
        future: Any = async_save(dict(checkpoint.tensors), checkpoint_id=temporary, process_group=self._group)

        def finish() -> None:
            future.result()  # in the first process, done only when all others are
            if self._context.is_main:
                _write_state(temporary, checkpoint)
                for path in temporary.iterdir():
                    sync(path)
                folder = self.step_dir(checkpoint.step)
                shutil.rmtree(folder, ignore_errors=True)
                os.replace(temporary, folder)
                sync(self.path)
                self._prune(checkpoint.step, best_step=best_step)

        self._pending = self._thread.submit(finish)

    def wait(self) -> None:
        from torch.distributed.checkpoint.api import CheckpointException

        failure = None
        if self._pending is not None:
            pending, self._pending = self._pending, None
            try:
                pending.result()
            except CheckpointException as error:
                # The error and the traceback of each process that failed.
                failure = "; ".join(str(found) for found, _ in error.failures.values())
            except OSError as error:
                failure = str(error)
        self._raise_together(failure)

    def _raise_together(self, failure: str | None) -> None:
        failures = [found for found in self._context.gather(failure) if found is not None]
        if failures:
            if self._context.is_main and self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)  # it takes space on a full disk
            raise OSError(one_line(failures[0]))


def _write_state(folder: Path, checkpoint: Checkpoint) -> None:
    """Write state.json beside the tensors, with the checksums of all files."""
    files = {path.name: hash_file(path) for path in sorted(folder.iterdir())}
    content = {**checkpoint.state, "step": checkpoint.step, "files": files}
    write_json(folder / STATE_NAME, {**content, "state_sha256": _hash_state(content)})


def _hash_state(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _read_distributed(folder: Path) -> dict[str, Tensor]:
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.checkpoint.state_dict_loader import load

    metadata = FileSystemReader(folder).read_metadata()
    tensors = {
        name: torch.empty(entry.size, dtype=entry.properties.dtype)
        for name, entry in metadata.state_dict_metadata.items()
        if isinstance(entry, TensorStorageMetadata)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about reading in a single process
        load(dict(tensors), checkpoint_id=folder, no_dist=True)
    return tensors


def list_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """List weights and moments by name, sharded or full as they are."""
    tensors = {f"model.{name}": weight.detach() for name, weight in model.state_dict().items()}
    for name, weight in model.named_parameters():
        for key, value in optimizer.state.get(weight, {}).items():
            tensors[f"optimizer.{key}.{name}"] = torch.as_tensor(value)
    return tensors


@torch.no_grad()
def restore_tensors(
    tensors: dict[str, Tensor],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    context: DistributedContext,
) -> None:
    """Copy full weights and moments into a model and its optimizer, sharded as they are now."""
    for name, weight in model.state_dict().items():
        weight.copy_(context.shard_like(tensors[f"model.{name}"], reference=weight))
    named = dict(model.named_parameters())
    for full_name, value in tensors.items():
        if full_name.startswith("optimizer."):
            _, key, name = full_name.split(".", 2)
            weight = named[name]
            if value.ndim:
                value = context.shard_like(value, reference=weight)
            optimizer.state[weight][key] = value.to(weight.device, copy=not value.ndim)
