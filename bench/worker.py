"""One process of a measurement: a line on standard input says what to do, a line of JSON tells what it took.

    step together COUNT     training steps with the others; each takes its share of the batch
    step apart COUNT        the same share, and nothing is exchanged
    step alone COUNT        the whole batch, while the others wait
    buckets                 when DDP sends which part of the gradient, as a share of the backward pass
    save WAY FOLDER         begin a checkpoint: aside, while training goes on, or waiting for it
    settle                  wait for the one that is being written aside
    reduce BYTES COUNT      an all-reduce by itself

`python -m bench.worker TASK` with the environment that torchrun would set; TASK is JSON.
"""

import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from albert.examples.batches import PretrainingBatch, cut_batch
from albert.model.albert_model import build_model
from albert.study.step_costs import HEADS, PAIR_HEAD, Family, build_pair, build_random_batch, build_train_step
from albert.training.checkpoints import (
    Checkpoint,
    CheckpointFolder,
    DistributedCheckpointFolder,
    list_tensors,
)
from albert.training.distributed import DistributedContext, open_distributed
from albert.training.losses import PretrainLosses
from albert.training.optimizers import build_optimizer
from albert.training.settings import OptimizerSettings
from bench.sockets import count_loopback, count_traffic

Answer = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """What a process trains: a shape and a family of `build_pair`, and one step's batch over all processes.

    An empty `shape` trains nothing. `optimizer` is a recipe's, or `sgd`, which keeps no moments.
    """

    shape: str = ""
    family: Family = "ALBERT"
    strategy: str = "ddp"
    num_sequences: int = 2
    length: int = 16
    micro_batch_tokens: int = 2048
    optimizer: str = "adamw"


class Apart(DistributedContext):
    """A network that was spread over processes, trained for a while as if there were no others."""

    def accumulate(self, network: nn.Module, *, is_last: bool) -> AbstractContextManager[Any]:
        """Gradients stay where they are."""
        assert isinstance(network, DistributedDataParallel)
        return network.no_sync()


class Worker:
    """The model of a task and what can be asked of it."""

    def __init__(self, task: Task, world: DistributedContext) -> None:
        self.task, self.world = task, world
        config = build_pair(task.shape)[task.family]
        self.model = model = build_model(config, heads=HEADS).train()
        self.network = world.wrap(PretrainLosses(model, pair_head=PAIR_HEAD))
        self.saver: DistributedCheckpointFolder | None = None
        self.saved = 0
        self.optimizer = (
            torch.optim.SGD(model.parameters(), lr=1e-5)
            if task.optimizer == "sgd"
            else build_optimizer(model, OptimizerSettings.model_validate({"name": task.optimizer}))
        )
        self.batch = build_random_batch(config, num_sequences=task.num_sequences, length=task.length)

    def step(self, way: str, count: str) -> Answer:
        """Whole training steps as `albert pretrain` takes them; seconds of each, and the bytes of all."""
        world = self.world if way == "together" else Apart()
        train_step = build_train_step(self.network, self.optimizer, context=world)
        shares = self._cut(is_whole=way == "alone")

        def take() -> Answer:
            report = train_step.run(shares, train_step.plan(shares), learning_rate=1e-6, options={})
            return {"model": report.model_seconds, "optimizer": report.optimizer_seconds}

        return measure(take, count=int(count), is_together=way == "together")

    def save(self, way: str, folder: str) -> Answer:
        """The state after a step, as the loop saves it; seconds until training may go on."""
        began = time.perf_counter()
        tensors = list_tensors(self.model, self.optimizer)
        self.saved += 1  # in all processes, which write parts of the same checkpoint
        if way == "aside":
            if self.saver is None:
                self.saver = DistributedCheckpointFolder(Path(folder), 2, self.world)
            self.saver.save(Checkpoint(self.saved, tensors, {}))
        else:
            if self.world.is_main:
                CheckpointFolder(Path(folder)).save(Checkpoint(self.saved, tensors, {}))
            dist.barrier()
        return {"seconds": time.perf_counter() - began}

    def settle(self) -> Answer:
        """Seconds until the last checkpoint has its name."""
        began = time.perf_counter()
        if self.saver is not None:
            self.saver.wait()
        return {"seconds": time.perf_counter() - began}

    def _cut(self, *, is_whole: bool) -> list[PretrainingBatch]:
        rows = np.arange(len(self.batch.lengths))
        if not is_whole:
            rows = np.array_split(rows, self.world.size)[self.world.rank]
        return cut_batch(self.batch.select(rows), max_tokens=self.task.micro_batch_tokens)

    def list_buckets(self) -> Answer:
        """Bytes, and the time since the forward pass as a share of the last bucket's; once a process."""
        assert isinstance(self.network, DistributedDataParallel)
        seen: list[tuple[int, float]] = []
        began = 0.0

        # DDP reads these annotations and refuses others.
        def note(
            group: Any,
            bucket: dist.GradBucket,  # type: ignore[name-defined]
        ) -> torch.futures.Future[torch.Tensor]:
            seen.append((bucket.buffer().nbytes, time.perf_counter()))
            return allreduce_hook(group, bucket)

        def begin(*_: object) -> None:
            nonlocal began
            seen.clear()
            began = time.perf_counter()

        self.network.register_comm_hook(None, note)
        self.network.register_forward_hook(begin)
        self.step("together", "3")
        return {"buckets": [(size, (moment - began) / (seen[-1][1] - began)) for size, moment in seen]}


def measure(function: Callable[[], Answer], *, count: int, is_together: bool) -> Answer:
    """Call so many times; seconds of each call, with what it tells itself, and the traffic of all."""
    calls: list[Answer] = []
    if is_together:
        dist.barrier()
    traffic, loopback = count_traffic(), count_loopback()
    for _ in range(count):
        began = time.perf_counter()
        told = function()
        calls.append({**told, "seconds": time.perf_counter() - began})
    moved = count_traffic() - traffic
    return {"calls": calls, "traffic": asdict(moved), "loopback": count_loopback() - loopback}


def reduce_alone(num_bytes: str, count: str) -> Answer:
    """An all-reduce of float32 numbers; one untimed first."""
    numbers = torch.zeros(int(num_bytes) // 4)
    dist.all_reduce(numbers)

    def call() -> Answer:
        dist.all_reduce(numbers)
        return {}

    return measure(call, count=int(count), is_together=True)


def serve(task: Task) -> None:
    """Answer line after line until there are no more."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with open_distributed("fsdp" if task.strategy == "fsdp" else "ddp", "cpu") as world:
        worker = Worker(task, world) if task.shape else None
        verbs: dict[str, Callable[..., Answer]] = {"reduce": reduce_alone}
        if worker is not None:
            verbs |= {"step": worker.step, "buckets": worker.list_buckets}
            verbs |= {"save": worker.save, "settle": worker.settle}
        for line in sys.stdin:
            verb, *words = line.split()
            print(json.dumps(verbs[verb](*words)), flush=True)


if __name__ == "__main__":
    serve(Task(**json.loads(sys.argv[1])))
