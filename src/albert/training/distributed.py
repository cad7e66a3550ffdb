"""Distributed training: a single process, or several that torchrun started, with DDP or FSDP2.

A single process uses nothing of torch.distributed. FSDP is imported where it is used, which takes a second.
"""

import hashlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from albert.errors import AlbertError, EchoError, InputError, one_line
from albert.model.runtime import select_device
from albert.training.settings import Strategy

T = TypeVar("T")
_POLL_SECONDS = 0.05  # between two reads of the store
_CAUSE = "albert/cause"
_CAUSE_SECONDS = 3.0  # until a failing process has reported its error
# Parts of the messages by which gloo and NCCL report that another process is gone.
_LOST = (
    "connection closed", "connection reset", "connection refused", "broken pipe", "timed out", "remote end",
    "socket error", "gloo/transport", "ncclremoteerror", "ncclsystemerror",
)  # fmt: skip


class DistributedContext:
    """The context of a single process, and the interface of several."""

    rank = 0
    size = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes the run folder and reports."""
        return self.rank == 0

    def gather(self, value: Any) -> list[Any]:
        """Gather any value of all processes, by rank."""
        return [value]

    def gather_floats(self, values: Sequence[float]) -> list[list[float]]:
        return [list(values)]

    def wrap(self, network: nn.Module) -> nn.Module:
        """Wrap or shard the network; its parameters may be replaced."""
        return network

    def accumulate(self, network: nn.Module, *, is_last: bool) -> AbstractContextManager[Any]:
        """Return the context of one micro-batch: gradients are exchanged in the last one only."""
        return nullcontext()

    def clip_grad_norm(self, network: nn.Module, limit: float) -> float:
        return float(self.full_tensor(torch.nn.utils.clip_grad_norm_(network.parameters(), limit)))

    def full_parameters(self, network: nn.Module) -> AbstractContextManager[Any]:
        """Return a context in which each process can run the network by itself."""
        return nullcontext()

    def full_tensor(self, tensor: Tensor) -> Tensor:
        """Gather a tensor that may be sharded; every process must call this."""
        return tensor

    def shard_like(self, tensor: Tensor, *, reference: Tensor) -> Tensor:
        """Copy a full tensor to the device of the reference and shard it in the same way."""
        return tensor.to(reference.device, copy=True)


class TorchrunContext(DistributedContext):
    """The context of one process of a torchrun job.

    `ddp` keeps the full model in each process. `fsdp` shards the weights and moments of the root module: a
    block that is sharded by itself would be gathered again for each layer that uses it.
    """

    def __init__(self, strategy: Strategy, device: torch.device) -> None:
        self.strategy, self.device = strategy, device
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def gather(self, value: Any) -> list[Any]:
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def gather_floats(self, values: Sequence[float]) -> list[list[float]]:
        mine = torch.tensor(values, dtype=torch.float64, device=self.device)
        rows = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(rows, mine)
        return [row.tolist() for row in rows]

    def wrap(self, network: nn.Module) -> nn.Module:
        if self.strategy == "ddp":
            # A stage of depth may not use all layers. Also, only this option keeps the order of gradients in
            # the buckets: otherwise a resumed run of three processes would add them up in another order. DDP
            # warns if every weight is used, so there is always an unused one.
            network.register_parameter("unused", nn.Parameter(torch.zeros((), device=self.device)))
            return DistributedDataParallel(network, find_unused_parameters=True)
        from torch.distributed.fsdp import fully_shard

        fully_shard(network, reshard_after_forward=False)
        return network

    def accumulate(self, network: Any, *, is_last: bool) -> AbstractContextManager[Any]:
        if self.strategy == "ddp":
            return nullcontext() if is_last else network.no_sync()
        network.set_requires_gradient_sync(is_last)
        network.set_reshard_after_backward(is_last)  # else the weights are gathered for each micro-batch
        return nullcontext()

    @contextmanager
    def full_parameters(self, network: Any) -> Iterator[None]:
        if self.strategy == "fsdp":
            network.unshard()
        yield
        if self.strategy == "fsdp":
            network.reshard()

    def full_tensor(self, tensor: Tensor) -> Tensor:
        return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor

    def shard_like(self, tensor: Tensor, *, reference: Any) -> Tensor:
        if not hasattr(reference, "full_tensor"):
            return super().shard_like(tensor, reference=reference)
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(tensor.to(self.device), reference.device_mesh, reference.placements)


@contextmanager
def open_distributed(strategy: Strategy, device: str) -> Iterator[DistributedContext]:
    """Join the processes that torchrun started, if any; if one of them fails, all fail with its message."""
    if not is_torchrun():
        yield DistributedContext()
        return
    selected = select_device(device)
    if selected.type == "cuda":
        selected = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(selected)
    shared, rank, size = next(rendezvous("env://"))
    store = join_rendezvous(shared, rank=rank, size=size)
    backend = "nccl" if selected.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    try:
        yield TorchrunContext(strategy, selected)
    except Exception as error:
        # The group is not destroyed, because a checkpoint may still be written through it.
        raised = _share_error(error, store, rank=rank, size=size)
        raise raised from (None if raised is error else error)
    dist.destroy_process_group()


def is_torchrun() -> bool:
    """Whether torchrun started this process."""
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return all(name in os.environ for name in names)


def is_first_process() -> bool:
    """Whether this process reports for all that torchrun started."""
    return not is_torchrun() or int(os.environ["RANK"]) == 0


def run_on_main(context: DistributedContext, function: Callable[[], T]) -> T | None:
    """Call a function in the first process only; if it fails, every process fails with its message."""
    result, failure = None, None
    if context.is_main:
        try:
            result = function()
        except AlbertError as error:
            if context.size == 1:
                raise
            failure = str(error)
    raise_together(context, failure)
    return result


def raise_together(context: DistributedContext, failure: str | None) -> None:
    """Raise the first failure of any process in all of them; the first process reports it."""
    failures = [found for found in context.gather(failure) if found is not None]
    if failures:
        raise InputError(failures[0]) if context.is_main else EchoError(failures[0])


def join_rendezvous(store: Store, *, rank: int, size: int) -> Store:
    """Agree with all processes of this start on a prefix of the store that no earlier start has used.

    torchrun keeps one store over all restarts, and torch stores addresses under the same keys each time, so a
    restarted process may read the address of a dead one (seen with torch 2.13 and gloo). Here each process
    writes a random name. The first process reads all names, some of which may be old, and publishes them
    until every process has found its own name among them.
    """
    name = uuid.uuid4().hex
    store.set(f"albert/name/{rank}", name)
    while True:
        if rank == 0:
            names = [store.get(f"albert/name/{other}").decode() for other in range(size)]
            store.set("albert/names", json.dumps(names))
        names = json.loads(store.get("albert/names"))
        prefix = hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]
        if name in names:
            store.set(f"albert/seen/{prefix}/{rank}", "")
            if store.check([f"albert/seen/{prefix}/{other}" for other in range(size)]):
                return PrefixStore(prefix, store)
        time.sleep(_POLL_SECONDS)


def _share_error(error: Exception, store: Store, *, rank: int, size: int) -> Exception:
    """Return the error to raise in this process: its own, or an EchoError with that of another process.

    Messages go through the store of the rendezvous, because the connections of training may be closed.
    """
    if isinstance(error, EchoError):
        return error
    is_lost = isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _LOST)
    lost = "lost the connection to a killed process; use --resume (torchrun --max-restarts does so)"
    reason = lost if is_lost else one_line(error) or type(error).__name__
    message = f"process {rank} of {size}: {reason}"
    try:
        end = time.monotonic() + _CAUSE_SECONDS
        while is_lost and not store.check([_CAUSE]) and time.monotonic() < end:
            time.sleep(0.1)
        cause = store.compare_set(_CAUSE, "", message).decode()  # of the first process that failed
    except RuntimeError:  # the store is gone with the process that kept it
        cause = message
    if cause != message:
        return EchoError(cause)
    if is_lost:
        return InputError(message)
    from torch.distributed.elastic.multiprocessing.errors import ErrorHandler

    ErrorHandler().record_exception(error)  # for torchrun's own report
    return InputError(message) if isinstance(error, AlbertError) and rank else error
