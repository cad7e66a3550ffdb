"""Checkpoints of many processes: parts of tensors come in and are written aside while training goes on.

The files are those of torch.distributed.checkpoint; any number of processes reads them back.
"""

import os
import shutil
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save

from albert.errors import one_line
from albert.files import sync
from albert.training.checkpoints import CheckpointFolder, write_state
from albert.training.state import Saver
from albert.training.world import World


class AsyncSaver(Saver):
    """Copies the state; a thread of each process writes it, and the first one's gives it its name.

    The threads meet in a group of their own, so that they never come between the messages of training.
    """

    def __init__(self, folder: CheckpointFolder, world: World) -> None:
        super().__init__(folder)
        self._world = world
        self._group = dist.new_group(backend="gloo")
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None
        self._aside: Path | None = None

    def save(
        self, step: int, tensors: dict[str, Tensor], state: dict[str, Any], *, best_step: int | None
    ) -> None:
        """Begin to write the state after a step, once the one before it is written.

        OSError where that one was not; every process calls this at the same time.
        """
        self.wait()
        aside = self.folder.path / f".step-{step}.writing"
        self._aside = aside
        self._make(aside)
        writing = async_save(dict(tensors), checkpoint_id=aside, process_group=self._group)
        assert isinstance(writing, Future)
        self._pending = self._thread.submit(self._finish, writing, step, aside, state, best_step)

    def _make(self, aside: Path) -> None:
        """A new folder, by the first process; OSError in every process where that cannot be."""
        failure = None
        if self._world.is_main:
            try:
                shutil.rmtree(aside, ignore_errors=True)
                aside.mkdir(parents=True)
            except OSError as error:
                failure = str(error)
        found = self._world.gather(failure)[0]
        if found is not None:
            raise OSError(found)

    def wait(self) -> None:
        """Wait until it is written; OSError in every process where one of them could not."""
        failure = None
        if self._pending is not None:
            pending, self._pending = self._pending, None
            try:
                pending.result()
            except CheckpointException as error:
                # Of each process that failed, the error and its traceback.
                failure = "; ".join(str(found) for found, _ in error.failures.values())
            except OSError as error:
                failure = str(error)
        failures = [found for found in self._world.gather(failure) if found is not None]
        if failures:
            if self._world.is_main and self._aside is not None:
                shutil.rmtree(self._aside, ignore_errors=True)  # half a checkpoint must not fill the disk
            raise OSError(one_line(failures[0]))

    def _finish(
        self, writing: "Future[Any]", step: int, aside: Path, state: dict[str, Any], best_step: int | None
    ) -> None:
        # The first process's part is done only when those of all others are.
        writing.result()
        if not self._world.is_main:
            return
        write_state(aside, step, state)
        for path in aside.iterdir():
            sync(path)
        place = self.folder.place(step)
        shutil.rmtree(place, ignore_errors=True)
        os.replace(aside, place)
        sync(place.parent)
        self.folder.prune(step, best_step=best_step)


def read_spread_tensors(place: Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint, whole, in this process alone."""
    metadata = FileSystemReader(place).read_metadata()
    tensors = {
        name: torch.empty(entry.size, dtype=entry.properties.dtype)
        for name, entry in metadata.state_dict_metadata.items()
        if isinstance(entry, TensorStorageMetadata)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that one process reads alone is what is meant
        load(dict(tensors), checkpoint_id=place, no_dist=True)
    return tensors
