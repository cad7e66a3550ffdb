"""Checkpoints of many processes: parts of tensors come in and are written aside while training goes on.

The files are those of torch.distributed.checkpoint; any number of processes reads them back.
"""

import os
import shutil
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save

from albert.files import sync
from albert.training.checkpoints import CheckpointFolder, write_state
from albert.training.state import Saver
from albert.training.world import World


@dataclass(frozen=True)
class _Pending:
    """A checkpoint that is being written."""

    step: int
    aside: Path
    state: dict[str, Any]
    best_step: int | None
    future: "Future[Any]"


class AsyncSaver(Saver):
    """Copies the state, lets a thread of each process write it, and gives it its name when all have.

    The threads meet in a group of their own, so that they never come between the messages of training.
    """

    def __init__(self, folder: CheckpointFolder, world: World) -> None:
        super().__init__(folder)
        self._world = world
        self._group = dist.new_group(backend="gloo")
        self._pending: _Pending | None = None

    def save(
        self, step: int, tensors: dict[str, Tensor], state: dict[str, Any], *, best_step: int | None
    ) -> None:
        """Begin to write the state after a step; the one before it is finished first."""
        self.wait()
        aside = self.folder.path / f".step-{step}.writing"
        if self._world.is_main:
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
        dist.barrier()
        future = async_save(dict(tensors), checkpoint_id=aside, process_group=self._group)
        self._pending = _Pending(step, aside, state, best_step, future)  # type: ignore[arg-type]

    def poll(self) -> None:
        """Give the checkpoint its name if it is written by now."""
        if self._pending is not None and self._pending.future.done():
            self._finish(self._pending)

    def wait(self) -> None:
        """Wait until it is written, and give it its name; every process calls this at the same time."""
        if self._pending is not None:
            self._finish(self._pending)
        dist.barrier()

    def _finish(self, pending: _Pending) -> None:
        self._pending = None
        pending.future.result()
        if not self._world.is_main:
            return
        # The first process's part is done only when those of all others are.
        write_state(pending.aside, pending.step, pending.state)
        for path in pending.aside.iterdir():
            sync(path)
        place = self.folder.place(pending.step)
        shutil.rmtree(place, ignore_errors=True)
        os.replace(pending.aside, place)
        sync(place.parent)
        self.folder.prune(pending.step, best_step=pending.best_step)


def read_spread_tensors(place: Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint, whole, in this process alone."""
    metadata = FileSystemReader(place).read_metadata()
    tensors = {
        name: torch.empty(entry.size, dtype=entry.properties.dtype)
        for name, entry in metadata.state_dict_metadata.items()
        if isinstance(entry, TensorStorageMetadata)
    }
    load(dict(tensors), checkpoint_id=place, no_dist=True)
    return tensors
