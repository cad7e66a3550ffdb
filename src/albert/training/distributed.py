"""Training in several processes that torchrun started: DDP or FSDP2, errors, distributed checkpoints."""

import hashlib
import json
import os
import shutil
import time
import uuid
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.elastic.multiprocessing.errors import ErrorHandler
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.rendezvous import rendezvous
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from albert.errors import AlbertError, EchoError, InputError, one_line
from albert.files import sync
from albert.model.runtime import select_device
from albert.training.checkpoints import CheckpointFolder, Saver, write_state
from albert.training.settings import Strategy
from albert.training.world import DistributedContext

_PAUSE = 0.05  # seconds between two looks into the store
_CAUSE = "albert/cause"
_PATIENCE = 3.0  # seconds in which a failing process has reported its error
# How gloo and NCCL say that the other end is gone.
_LOST = (
    "connection closed", "connection reset", "connection refused", "broken pipe", "timed out", "remote end",
    "socket error", "gloo/transport", "ncclremoteerror", "ncclsystemerror",
)  # fmt: skip


@contextmanager
def join_processes(strategy: Strategy, device: str) -> Iterator["Processes"]:
    """Join the other processes while the block lasts; on GPUs each process of a machine takes its own.

    If one process fails, all fail with its message.
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
        # The group is not destroyed: a checkpoint may still be written through it. It ends with the process.
        ending = _share_error(error, store, rank=rank, size=size)
        if ending is error:
            raise
        raise ending from error
    dist.destroy_process_group()


class _WithSpare(nn.Module):
    """A network with an additional unused weight: DDP warns if it looks for unused weights and finds none."""

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        super().__init__()
        self.network = network
        self.spare = nn.Parameter(torch.zeros((), device=device))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.network(*args, **kwargs)


class Processes(DistributedContext):
    """The processes of a torchrun job.

    `ddp` keeps the whole model in each process. `fsdp` shards weights and moments of the root module at once:
    a block by itself would be gathered again for each layer that uses it.
    """

    def __init__(self, strategy: Strategy, device: torch.device) -> None:
        self.strategy, self.device = strategy, device
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def exchange(self, values: Sequence[float]) -> list[list[float]]:
        mine = torch.tensor(values, dtype=torch.float64, device=self.device)
        rows = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(rows, mine)
        return [row.tolist() for row in rows]

    def gather(self, value: Any) -> list[Any]:
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def spread(self, network: nn.Module) -> nn.Module:
        """Wrap the network in DDP, or shard its parameters in place.

        DDP looks for unused weights at every step, because a stage of depth may leave layers out. Also, only
        then do gradients keep their order in the buckets. Otherwise it changes after the first step, and a
        resumed run of three processes would add them up in another order.
        """
        if self.strategy == "ddp":
            spare = _WithSpare(network, self.device)
            return DistributedDataParallel(spare, find_unused_parameters=True)
        return cast(nn.Module, fully_shard(network, reshard_after_forward=False))

    def accumulate(self, network: nn.Module, *, is_last: bool) -> AbstractContextManager[Any]:
        if isinstance(network, DistributedDataParallel):
            return nullcontext() if is_last else network.no_sync()
        assert isinstance(network, FSDPModule)
        network.set_requires_gradient_sync(is_last)
        network.set_reshard_after_backward(is_last)  # else the weights would be gathered for each of them
        return nullcontext()

    @property
    def loss_factor(self) -> float:
        """Both strategies average gradients; a step is a sum over all processes that is divided once."""
        return float(self.size)

    def clip(self, network: nn.Module, limit: float) -> float:
        norm = torch.nn.utils.clip_grad_norm_(network.parameters(), limit)
        return float(self.fetch(norm))

    @contextmanager
    def whole(self, network: nn.Module) -> Iterator[None]:
        if isinstance(network, FSDPModule):
            network.unshard()
        yield
        if isinstance(network, FSDPModule):
            network.reshard()

    def fetch(self, tensor: Tensor) -> Tensor:
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    def place(self, tensor: Tensor, *, like: Tensor) -> Tensor:
        if isinstance(like, DTensor):
            return distribute_tensor(tensor.to(self.device), like.device_mesh, like.placements)
        return super().place(tensor, like=like)


def meet(store: Store, *, rank: int, size: int) -> Store:
    """Agree with all processes of this start on a part of the store that no earlier start has written to.

    torchrun keeps one store over all its restarts, and torch stores addresses under the same names each time:
    after a restart a process may find the address of a dead one (seen with torch 2.13 and gloo). So each
    process writes a random name. The first process reads all names, which may be old ones, and publishes what
    it read until each of the others has found its own name there.
    """
    name = uuid.uuid4().hex
    store.set(f"albert/here/{rank}", name)
    while True:
        if rank == 0:
            names = [store.get(f"albert/here/{each}").decode() for each in range(size)]
            store.set("albert/names", json.dumps(names))
        else:
            names = json.loads(store.get("albert/names"))
        meeting = hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]
        if rank == 0:
            time.sleep(_PAUSE)
            if size == 1 or store.check([f"albert/seen/{meeting}/{each}" for each in range(1, size)]):
                store.set(f"albert/met/{meeting}", "")
                return PrefixStore(meeting, store)
            continue
        if names[rank : rank + 1] == [name]:
            store.set(f"albert/seen/{meeting}/{rank}", "")
            if store.check([f"albert/met/{meeting}"]):
                return PrefixStore(meeting, store)
        time.sleep(_PAUSE)


def _share_error(error: Exception, store: Store, *, rank: int, size: int) -> Exception:
    """Return the error that this process ends with: its own, or an EchoError of another process's.

    The store of the rendezvous carries the message: the connections of training may be closed.
    """
    is_loss = isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _LOST)
    lost = InputError(
        f"process {rank} of {size} lost another one, which was killed or whose machine is gone; torchrun "
        "starts all again if it has --max-restarts left, and with --resume the run goes on from its newest "
        "checkpoint. By hand: the same command with --resume"
    )
    if isinstance(error, EchoError):
        return error

    def count(message: str) -> int:
        return int(store.add(f"albert/told/{hashlib.sha256(message.encode()).hexdigest()}", 1))

    try:
        if is_loss:
            until = time.monotonic() + _PATIENCE
            while not store.check([_CAUSE]) and time.monotonic() < until:
                time.sleep(0.1)
            if store.check([_CAUSE]):
                return EchoError(store.get(_CAUSE).decode())
            return lost if count("lost") == 1 else EchoError("another process was lost")
        text = one_line(error) or type(error).__name__
        message = f"process {rank} of {size}: {text}"
        if store.compare_set(_CAUSE, "", message).decode() == message:  # the first failure of all
            ErrorHandler().record_exception(error)  # for torchrun's own report
        if count(text) > 1:  # the same mistake in several processes is reported once
            return EchoError(message)
        return InputError(message) if isinstance(error, AlbertError) and rank else error
    except RuntimeError:  # the store is gone with the process that kept it
        return lost if is_loss else error


class AsyncSaver(Saver):
    """Copies the state; a thread of each process writes it, and that of the first process renames the folder.

    The threads use a process group of their own, apart from the messages of training.
    """

    def __init__(self, folder: CheckpointFolder, world: DistributedContext) -> None:
        super().__init__(folder)
        self._world = world
        self._group = dist.new_group(backend="gloo")
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None
        self._aside: Path | None = None

    def save(
        self, step: int, tensors: dict[str, Tensor], state: dict[str, Any], *, best_step: int | None
    ) -> None:
        """Start to write the state after a step, once the one before it is written.

        Every process calls this at the same time. Raises an OSError if the checkpoint before could not be
        written.
        """
        self.wait()
        aside = self._aside = self.folder.path / f".step-{step}.writing"
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
        writing = async_save(dict(tensors), checkpoint_id=aside, process_group=self._group)
        assert isinstance(writing, Future)
        self._pending = self._thread.submit(self._finish, writing, step, aside, state, best_step)

    def wait(self) -> None:
        """Wait until everything is written; raise an OSError in every process where one of them could not."""
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
        failures = [found for found in self._world.gather(failure) if found is not None]
        if failures:
            if self._world.is_main and self._aside is not None:
                shutil.rmtree(self._aside, ignore_errors=True)  # half a checkpoint must not fill the disk
            raise OSError(one_line(failures[0]))

    def _finish(
        self, writing: "Future[Any]", step: int, aside: Path, state: dict[str, Any], best_step: int | None
    ) -> None:
        writing.result()  # in the first process, done only when those of all others are
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
    """Read all tensors of a distributed checkpoint, whole, in this process alone."""
    metadata = FileSystemReader(place).read_metadata()
    tensors = {
        name: torch.empty(entry.size, dtype=entry.properties.dtype)
        for name, entry in metadata.state_dict_metadata.items()
        if isinstance(entry, TensorStorageMetadata)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about reading in a single process
        load(dict(tensors), checkpoint_id=place, no_dist=True)
    return tensors
