"""The processes that train together: what each has comes in, what all have goes out.

One process by itself needs nothing of torch.distributed; `distributed.py` has the world of many.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn


class World:
    """One process alone."""

    rank = 0
    size = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes folders and logs."""
        return self.rank == 0

    def exchange(self, values: Sequence[float]) -> list[list[float]]:
        """The numbers of every process, in the order of ranks; all must bring as many."""
        return [list(values)]

    def gather(self, value: Any) -> list[Any]:
        """Any value of every process, in the order of ranks."""
        return [value]

    def spread(self, network: nn.Module) -> nn.Module:
        """The network as all processes train it together; its parameters may be others afterwards."""
        return network

    def accumulate(self, network: nn.Module, *, is_last: bool) -> AbstractContextManager[Any]:
        """The context of one micro-batch: gradients meet those of the others at the last one only."""
        return nullcontext()

    @property
    def loss_factor(self) -> float:
        """What a loss is multiplied with so that gradients add up, where the others' are averaged."""
        return 1.0

    def clip(self, network: nn.Module, limit: float) -> float:
        """Clip the gradient's norm, over all processes, and return what it was."""
        return float(torch.nn.utils.clip_grad_norm_(network.parameters(), limit))

    def whole(self, network: nn.Module) -> AbstractContextManager[Any]:
        """While the context lasts, every process can run the network by itself."""
        return nullcontext()

    def fetch(self, tensor: Tensor) -> Tensor:
        """All of a tensor that may be spread over processes."""
        return tensor

    def place(self, tensor: Tensor, *, like: Tensor) -> Tensor:
        """This process's part of a whole tensor, spread as another one is."""
        return tensor.to(like.device, copy=True)
