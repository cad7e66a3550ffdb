"""A worker process of a measurement: reads commands from standard input, answers each with a line of JSON.

    step synced COUNT       training steps with the other processes, each on its part of the batch
    step unsynced COUNT     the same part of the batch, without exchanging gradients
    step single COUNT       the whole batch in one process, while the others wait
    buckets                 when DDP sends which part of the gradient, as a share of the backward pass
    save MODE FOLDER        start a checkpoint: `background` writes it during training, `blocking` waits
    flush                   wait for the checkpoint that is written in the background
    reduce BYTES COUNT      an all-reduce

`python -m bench.worker TASK` needs the environment that torchrun sets; TASK is JSON.
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
    """A shape and a family of `build_pair`, and the batch of a step over all processes.

    An empty `shape` trains nothing. `optimizer` is one of the recipes', or `sgd`, which has no moments.
    """

    shape: str = ""
    family: Family = "ALBERT"
    strategy: str = "ddp"
    num_sequences: int = 2
    length: int = 16
    micro_batch_tokens: int = 2048
    optimizer: str = "adamw"


class Unsynced(DistributedContext):
    """Train a DDP network without exchanging gradients."""

    def accumulate(self, network: nn.Module, *, is_last: bool) -> AbstractContextManager[Any]:
        """Keep the gradients in this process."""
        assert isinstance(network, DistributedDataParallel)
        return network.no_sync()


class Worker:
    """The model of a task, and the commands."""

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

    def step(self, mode: str, count: str) -> Answer:
        """Take training steps like `albert pretrain`; return the seconds of each and the bytes of all."""
        world = self.world if mode == "synced" else Unsynced()
        train_step = build_train_step(self.network, self.optimizer, context=world)
        micro_batches = self._cut(is_whole=mode == "single")

        def run() -> Answer:
            plan = train_step.plan(micro_batches)
            report = train_step.run(micro_batches, plan, learning_rate=1e-6, options={})
            return {"model": report.model_seconds, "optimizer": report.optimizer_seconds}

        return measure(run, count=int(count), is_synced=mode == "synced")

    def save(self, mode: str, folder: str) -> Answer:
        """Save a checkpoint like the training loop; return the seconds until training can continue."""
        began = time.perf_counter()
        tensors = list_tensors(self.model, self.optimizer)
        self.saved += 1  # the same in all processes: each writes its part of the checkpoint
        if mode == "background":
            if self.saver is None:
                self.saver = DistributedCheckpointFolder(Path(folder), 2, self.world)
            self.saver.save(Checkpoint(self.saved, tensors, {}))
        else:
            if self.world.is_main:
                CheckpointFolder(Path(folder)).save(Checkpoint(self.saved, tensors, {}))
            dist.barrier()
        return {"seconds": time.perf_counter() - began}

    def flush(self) -> Answer:
        """Return the seconds until the last checkpoint is complete."""
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
        """List each bucket's bytes and its time after the forward pass, divided by the last one's."""
        assert isinstance(self.network, DistributedDataParallel)
        seen: list[tuple[int, float]] = []
        began = 0.0

        # DDP checks these annotations.
        def record(
            group: Any,
            bucket: dist.GradBucket,  # type: ignore[name-defined]
        ) -> torch.futures.Future[torch.Tensor]:
            seen.append((bucket.buffer().nbytes, time.perf_counter()))
            return allreduce_hook(group, bucket)

        def begin(*_: object) -> None:
            nonlocal began
            seen.clear()
            began = time.perf_counter()

        self.network.register_comm_hook(None, record)
        self.network.register_forward_hook(begin)
        self.step("synced", "3")
        return {"buckets": [(size, (moment - began) / (seen[-1][1] - began)) for size, moment in seen]}


def measure(function: Callable[[], Answer], *, count: int, is_synced: bool) -> Answer:
    """Call a function `count` times; return each call's seconds and own figures, and the traffic of all."""
    calls: list[Answer] = []
    if is_synced:
        dist.barrier()
    traffic, loopback = count_traffic(), count_loopback()
    for _ in range(count):
        began = time.perf_counter()
        figures = function()
        calls.append({**figures, "seconds": time.perf_counter() - began})
    moved = count_traffic() - traffic
    return {"calls": calls, "traffic": asdict(moved), "loopback": count_loopback() - loopback}


def reduce_alone(num_bytes: str, count: str) -> Answer:
    """Time all-reduces of float32 numbers after an untimed one."""
    numbers = torch.zeros(int(num_bytes) // 4)
    dist.all_reduce(numbers)

    def call() -> Answer:
        dist.all_reduce(numbers)
        return {}

    return measure(call, count=int(count), is_synced=True)


def serve(task: Task) -> None:
    """Answer commands until the end of the input."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with open_distributed("fsdp" if task.strategy == "fsdp" else "ddp", "cpu") as world:
        worker = Worker(task, world) if task.shape else None
        verbs: dict[str, Callable[..., Answer]] = {"reduce": reduce_alone}
        if worker is not None:
            verbs |= {"step": worker.step, "buckets": worker.list_buckets}
            verbs |= {"save": worker.save, "flush": worker.flush}
        for line in sys.stdin:
            verb, *words = line.split()
            print(json.dumps(verbs[verb](*words)), flush=True)


if __name__ == "__main__":
    serve(Task(**json.loads(sys.argv[1])))
