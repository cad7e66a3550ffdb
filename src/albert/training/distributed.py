"""Many processes: the environment that torchrun sets comes in, a world that trains as one goes out."""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.rendezvous import rendezvous
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from albert.model.runtime import select_device
from albert.training.failures import Failures
from albert.training.loop_settings import Strategy
from albert.training.meeting import meet
from albert.training.world import World


class _WithSpare(nn.Module):
    """A network with one weight more that nothing uses: DDP looks for such, and warns if it finds none."""

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        super().__init__()
        self.network = network
        self.spare = nn.Parameter(torch.zeros((), device=device))

    def forward(self, *words: Any, **named: Any) -> Any:
        return self.network(*words, **named)


class Processes(World):
    """The processes of a torchrun job.

    `ddp` keeps the whole model in each of them: ALBERT's gradients are small. `fsdp` spreads weights and
    moments over all, the root at once: a block by itself would be gathered again at each of its loops.
    """

    def __init__(self, strategy: Strategy, device: torch.device) -> None:
        self.strategy, self.device = strategy, device
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def exchange(self, values: Sequence[float]) -> list[list[float]]:
        """The numbers of every process, in the order of ranks."""
        mine = torch.tensor(values, dtype=torch.float64, device=self.device)
        rows = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(rows, mine)
        return [row.tolist() for row in rows]

    def gather(self, value: Any) -> list[Any]:
        """Any value of every process, in the order of ranks."""
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def spread(self, network: nn.Module) -> nn.Module:
        """Wrapped by DDP, or its parameters sharded in place.

        DDP looks for unused weights at every step: a stage of depth may leave layers out. Also, only then do
        gradients keep their places in what is exchanged. Else they get others after the first step, and with
        them another order of sums: a run of three processes would not go on to the bit.
        """
        if self.strategy == "ddp":
            spare = _WithSpare(network, self.device)
            return DistributedDataParallel(spare, find_unused_parameters=True)
        return cast(nn.Module, fully_shard(network, reshard_after_forward=False))

    def accumulate(self, network: nn.Module, *, is_last: bool) -> AbstractContextManager[Any]:
        """Gradients meet at the last micro-batch only."""
        if isinstance(network, DistributedDataParallel):
            return nullcontext() if is_last else network.no_sync()
        assert isinstance(network, FSDPModule)
        network.set_requires_gradient_sync(is_last)
        network.set_reshard_after_backward(is_last)  # else the weights would be gathered for each of them
        return nullcontext()

    @property
    def loss_factor(self) -> float:
        """Both strategies average; a step is one sum over all processes, divided once."""
        return float(self.size)

    def clip(self, network: nn.Module, limit: float) -> float:
        """The norm of the whole gradient, wherever its parts lie."""
        norm = torch.nn.utils.clip_grad_norm_(network.parameters(), limit)
        return float(self.fetch(norm))

    @contextmanager
    def whole(self, network: nn.Module) -> Iterator[None]:
        """Every process holds all weights while it lasts."""
        if isinstance(network, FSDPModule):
            network.unshard()
        yield
        if isinstance(network, FSDPModule):
            network.reshard()

    def fetch(self, tensor: Tensor) -> Tensor:
        """All of a sharded tensor; every process must ask for it."""
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    def place(self, tensor: Tensor, *, like: Tensor) -> Tensor:
        """Sharded as the other one is."""
        if isinstance(like, DTensor):
            return distribute_tensor(tensor.to(self.device), like.device_mesh, like.placements)
        return super().place(tensor, like=like)


@contextmanager
def join_processes(strategy: Strategy, device: str) -> Iterator[Processes]:
    """Meet the others for as long as the block lasts; on GPUs each process of a machine takes its own.

    Where one fails all do, with its message, told once.
    """
    found = select_device(device)
    if found.type == "cuda":
        found = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(found)
    whole, rank, size = next(rendezvous("env://"))
    store = meet(whole, rank=rank, size=size)
    dist.init_process_group(
        "nccl" if found.type == "cuda" else "gloo", store=store, rank=rank, world_size=size
    )
    try:
        yield Processes(strategy, found)
    except Exception as error:
        # The group stays as it is: a checkpoint may still be on its way through it. It ends with the process.
        ending = Failures(store, rank=rank, size=size).settle(error)
        if ending is error:
            raise
        raise ending from error
    dist.destroy_process_group()
