"""Gradients over a network: a step of one process and a link come in, the step of N processes goes out.

A step in which every process computes a share of one batch takes

    compute / N  +  optimiser  +  what of the exchange is not hidden  +  2 (N − 1) latency

The exchange of B bytes of gradients is a ring: 2 (N − 1) messages one after another, and 2 (N − 1) / N · B
bytes out of each process. DDP sends a part of the gradient as soon as the backward pass has it, so that it is
hidden behind the rest of the pass; what belongs to a shared block is ready only when the pass is back at its
first loop, at the very end. The last term are the counts and losses that processes tell each other twice a
step. No torch.
"""

import math
from dataclasses import dataclass

from albert.model.config import ModelConfig
from albert.model.parameters import count_parameters

BYTES_EACH = 4  # gradients are float32, whatever the precision of the arithmetic
BACKWARD_SHARE = 2 / 3  # of a forward and a backward pass


@dataclass(frozen=True)
class Link:
    """What connects a process with its neighbour."""

    latency_seconds: float
    bits_per_second: float

    def find_ring_seconds(self, num_bytes: float, *, num_processes: int) -> float:
        """An all-reduce of so many bytes: twice around, a part of them at a time."""
        rounds = 2 * (num_processes - 1)
        return rounds * (self.latency_seconds + 8 * num_bytes / num_processes / self.bits_per_second)


@dataclass(frozen=True)
class Bucket:
    """Gradients that are sent together, and after which share of the last backward pass they are there."""

    num_bytes: int
    ready_share: float


@dataclass(frozen=True)
class Job:
    """A step as one process takes it: forward and backward passes, optimiser, and what it has to exchange.

    Only the backward pass of the last micro-batch can hide anything; a process spends at most
    `micro_batch_seconds` of its time in the model on that one.
    """

    model_seconds: float
    buckets: tuple[Bucket, ...]
    optimizer_seconds: float = 0.0
    micro_batch_seconds: float = math.inf

    @property
    def num_bytes(self) -> int:
        """The whole gradient."""
        return sum(bucket.num_bytes for bucket in self.buckets)


@dataclass(frozen=True)
class StepTime:
    """Where the time of a step goes; of the exchange only what is not hidden while the model computes."""

    compute_seconds: float
    exposed_seconds: float
    small_seconds: float

    @property
    def seconds(self) -> float:
        """From the beginning of a step to the next one's."""
        return self.compute_seconds + self.exposed_seconds + self.small_seconds


def predict_ddp(job: Job, link: Link, *, num_processes: int) -> StepTime:
    """Buckets leave one after another, each when it is ready and the one before it is through."""
    model_seconds = job.model_seconds / num_processes
    backward = BACKWARD_SHARE * min(model_seconds, job.micro_batch_seconds)
    clock = 0.0
    for bucket in job.buckets if num_processes > 1 else ():
        seconds = link.find_ring_seconds(bucket.num_bytes, num_processes=num_processes)
        clock = max(clock, bucket.ready_share * backward) + seconds
    return StepTime(
        compute_seconds=model_seconds + job.optimizer_seconds,
        exposed_seconds=max(0.0, clock - backward),
        small_seconds=2 * (num_processes - 1) * link.latency_seconds,
    )


def list_buckets(config: ModelConfig) -> tuple[Bucket, ...]:
    """The gradient in the order in which the backward pass completes it.

    Heads and pooler come first. The tied word table is complete only with the embeddings, at the end, and so
    is a block that every layer shares; blocks of layers' own come evenly in between.
    """
    sizes = count_parameters(config)
    layers = config.num_hidden_layers
    blocks = sizes.attention + sizes.ffn
    early = [Bucket(BYTES_EACH * (sizes.heads + sizes.pooler), 0.0)]
    late = sizes.embeddings + sizes.embedding_map
    if config.sharing != "none":
        return (*early, Bucket(BYTES_EACH * (late + blocks), 1.0))
    each = BYTES_EACH * blocks // layers
    return (
        *early,
        *(Bucket(each, (layer + 1) / layers) for layer in range(layers)),
        Bucket(BYTES_EACH * late, 1.0),
    )
