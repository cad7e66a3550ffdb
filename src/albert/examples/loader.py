"""Batches ahead of time: a source and steps come in, their batches in order go out, made by other processes.

What is made ahead is nobody's state: the cursor of a run is the step that was consumed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch.utils.data import DataLoader, Dataset

from albert.examples.batches import PretrainingBatch
from albert.examples.source import ExampleSource


@dataclass(frozen=True)
class _Steps(Dataset[list[PretrainingBatch]]):
    """Steps by number, as torch's loader wants them."""

    source: ExampleSource
    batch_size: int
    first_step: int
    num_steps: int

    def __len__(self) -> int:
        return self.num_steps

    def __getitem__(self, index: int) -> list[PretrainingBatch]:
        return self.source.build_step(self.first_step + index, batch_size=self.batch_size)


def iter_steps(
    source: ExampleSource,
    *,
    batch_size: int,
    first_step: int,
    num_steps: int,
    num_workers: int = 1,
    ahead: int = 4,
) -> Iterator[list[PretrainingBatch]]:
    """The batches of steps [first_step, first_step + num_steps), the same whatever the number of workers.

    Workers end with the iteration, however it ends: closed, exhausted or by an error.
    """
    loader = DataLoader(
        _Steps(source, batch_size, first_step, num_steps),
        batch_size=None,
        shuffle=False,
        num_workers=num_workers,
        prefetch_factor=ahead if num_workers else None,
        collate_fn=_as_is,
    )
    iterator = iter(loader)
    try:
        yield from iterator
    finally:
        del iterator


def _as_is(batches: list[PretrainingBatch]) -> list[PretrainingBatch]:
    return batches
