"""The processes that train together.

One process alone needs nothing of torch.distributed; `distributed.py` has the world of several.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from albert.errors import AlbertError, EchoError, InputError
from albert.training.settings import Strategy

T = TypeVar("T")


class DistributedContext:
    """One process alone; a subclass has several."""

    rank = 0
    size = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes the run folder and reports."""
        return self.rank == 0

    def exchange(self, values: Sequence[float]) -> list[list[float]]:
        """Gather equally long lists of numbers of all processes, in the order of ranks."""
        return [list(values)]

    def gather(self, value: Any) -> list[Any]:
        """Gather any value of all processes, in the order of ranks."""
        return [value]

    def spread(self, network: nn.Module) -> nn.Module:
        """Wrap or shard the network; its parameters may be replaced."""
        return network

    def accumulate(self, network: nn.Module, *, is_last: bool) -> AbstractContextManager[Any]:
        """The context of one micro-batch: gradients are exchanged in the last one only."""
        return nullcontext()

    @property
    def loss_factor(self) -> float:
        """The factor that turns the average of gradients over processes into a sum."""
        return 1.0

    def clip(self, network: nn.Module, limit: float) -> float:
        """Clip the norm of the gradient, over all processes, and return what it was."""
        return float(torch.nn.utils.clip_grad_norm_(network.parameters(), limit))

    def whole(self, network: nn.Module) -> AbstractContextManager[Any]:
        """A context in which each process can run the network by itself."""
        return nullcontext()

    def fetch(self, tensor: Tensor) -> Tensor:
        """Gather a tensor that may be sharded; every process must call this."""
        return tensor

    def place(self, tensor: Tensor, *, like: Tensor) -> Tensor:
        """Copy a whole tensor to the device of another one and shard it in the same way."""
        return tensor.to(like.device, copy=True)


@contextmanager
def open_world(strategy: Strategy, device: str) -> Iterator[DistributedContext]:
    """Join the processes that torchrun started while the block lasts; without torchrun, this one alone."""
    if not is_launched():
        yield DistributedContext()
        return
    from albert.training.distributed import join_processes

    with join_processes(strategy, device) as world:
        yield world


def is_launched() -> bool:
    """Whether torchrun started this process."""
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return all(name in os.environ for name in names)


def is_first_process() -> bool:
    """Whether this process reports for all that torchrun started."""
    return not is_launched() or int(os.environ["RANK"]) == 0


def run_on_main(world: DistributedContext, function: Callable[[], T]) -> T | None:
    """Call a function in the first process only; where it fails, every process fails with its message."""
    result, failure = None, None
    if world.is_main:
        try:
            result = function()
        except AlbertError as error:
            if world.size == 1:
                raise
            failure = str(error)
    found = world.gather(failure)[0]
    if found is not None:
        raise InputError(found) if world.is_main else EchoError(found)
    return result
