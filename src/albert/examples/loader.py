"""Load batches ahead of time in worker processes.

Prefetched batches are no state: the cursor of a run is the step that was consumed.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from torch.utils.data import DataLoader, Dataset

from albert.examples.batches import PretrainingBatch, cut_batch
from albert.examples.source import ExampleSource

_AHEAD = 4  # steps that each worker makes before they are asked for


@dataclass(frozen=True)
class _Steps(Dataset[list[PretrainingBatch]]):
    """Steps by number, as torch's loader wants them."""

    source: ExampleSource
    batch_size: int
    first_step: int
    num_steps: int
    max_tokens: int | None
    rank: int
    world_size: int

    def __len__(self) -> int:
        return self.num_steps

    def __getitem__(self, index: int) -> list[PretrainingBatch]:
        batches = self.source.build_step(
            self.first_step + index, batch_size=self.batch_size, rank=self.rank, world_size=self.world_size
        )
        if self.max_tokens is None:
            return batches
        return [share for batch in batches for share in cut_batch(batch, max_tokens=self.max_tokens)]


def iter_steps(
    source: ExampleSource,
    *,
    batch_size: int,
    first_step: int,
    num_steps: int,
    num_workers: int = 1,
    max_tokens: int | None = None,
    rank: int = 0,
    world_size: int = 1,
) -> Iterator[list[PretrainingBatch]]:
    """The batches of steps [first_step, first_step + num_steps), the same whatever the number of workers.

    `max_tokens` cuts each step into micro-batches of about that size; `rank` of `world_size` processes takes
    its share of each. Workers end with the iteration, however it ends: closed, exhausted or by an error.
    """
    loader = DataLoader(
        _Steps(source, batch_size, first_step, num_steps, max_tokens, rank, world_size),
        batch_size=None,
        shuffle=False,
        num_workers=num_workers,
        prefetch_factor=_AHEAD if num_workers else None,
        collate_fn=_as_is,
        worker_init_fn=_begin_worker,
    )
    iterator = _begin(loader)
    try:
        yield from iterator
    finally:
        del iterator


def _begin(loader: "DataLoader[list[PretrainingBatch]]") -> Iterator[list[PretrainingBatch]]:
    """Start the workers, and leave SIGCHLD as it was.

    torch's own handler raises at whatever is going on when a worker dies; without it the error comes from
    asking for the next batch, where it belongs.
    """
    before = signal.getsignal(signal.SIGCHLD) if hasattr(signal, "SIGCHLD") else None
    iterator = iter(loader)
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, before)
    return iterator


def _begin_worker(worker: int) -> None:
    # Ctrl-C reaches every process of the terminal; the main one decides, and ends its workers.
    # So does SIGTERM where a scheduler sends it to the whole group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # A killed main process does not end its workers, which would wait for a full pipe forever.
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _as_is(batches: list[PretrainingBatch]) -> list[PretrainingBatch]:
    return batches
