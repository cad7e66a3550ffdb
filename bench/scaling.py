"""`python -m bench.scaling`: a model, a batch and a network come in; the step time of N processes goes out.

A step of a fixed global batch on N processes takes

    compute / N  +  optimiser  +  what of the exchange is not hidden  +  2 (N − 1) latency

The exchange of B bytes of gradients is a ring: 2 (N − 1) messages one after another, and 2 (N − 1) / N · B
bytes out of each process. DDP sends a part of the gradient as soon as the backward pass has it, so that it is
hidden behind the rest of the pass; what belongs to a shared block is ready only when the pass is back at its
first loop, at the very end. FSDP2 of the root alone gathers the weights before the forward pass and scatters
the gradients after the backward pass, half of the ring each, and hides nothing. The last term are the counts
and losses that processes tell each other twice a step. No torch.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

from albert.model.config import ModelConfig
from albert.model.parameters import ParameterCount, count_parameters
from albert.model.presets import build_preset

NUM_PROCESSES = (1, 2, 4, 8, 16, 32, 64)
BYTES_EACH = 4  # gradients are float32, whatever the precision of the arithmetic
MASKED_SHARE = 0.15
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
    """Where the time of a step goes; `hidden_seconds` are spent while the model computes, and not added."""

    compute_seconds: float
    exposed_seconds: float
    hidden_seconds: float
    small_seconds: float

    @property
    def seconds(self) -> float:
        """From the beginning of a step to the next one's."""
        return self.compute_seconds + self.exposed_seconds + self.small_seconds


def predict_ddp(job: Job, link: Link, *, num_processes: int, overlaps: bool = True) -> StepTime:
    """Buckets leave one after another, each when it is ready and the one before it is through."""
    model_seconds = job.model_seconds / num_processes
    backward = BACKWARD_SHARE * min(model_seconds, job.micro_batch_seconds) if overlaps else 0.0
    clock, total = 0.0, 0.0
    for bucket in job.buckets if num_processes > 1 else ():
        seconds = link.find_ring_seconds(bucket.num_bytes, num_processes=num_processes)
        clock = max(clock, bucket.ready_share * backward) + seconds
        total += seconds
    exposed = max(0.0, clock - backward)
    return StepTime(
        compute_seconds=model_seconds + job.optimizer_seconds,
        exposed_seconds=exposed,
        hidden_seconds=total - exposed,
        small_seconds=2 * (num_processes - 1) * link.latency_seconds,
    )


def predict_fsdp(job: Job, link: Link, *, num_processes: int) -> StepTime:
    """All weights are gathered first and all gradients scattered last; each process moves its own part."""
    return StepTime(
        compute_seconds=(job.model_seconds + job.optimizer_seconds) / num_processes,
        exposed_seconds=link.find_ring_seconds(job.num_bytes, num_processes=num_processes),
        hidden_seconds=0.0,
        small_seconds=2 * (num_processes - 1) * link.latency_seconds,
    )


STRATEGIES = {"ddp": predict_ddp, "fsdp": predict_fsdp}


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


def count_operations(config: ModelConfig, *, length: int) -> float:
    """Floating-point operations of a training step for each token: 6 for each weight that it meets."""
    h, f, e = config.hidden_size, config.intermediate_size, config.embedding_size
    layer = 4 * h * h + 2 * h * f + 2 * length * h  # the last: queries by keys, probabilities by values
    words = MASKED_SHARE * (h * e + config.vocab_size * e)
    return 6 * (config.num_hidden_layers * layer + words)


def build_pair(shape: str) -> dict[str, ModelConfig]:
    """ALBERT and BERT of one shape: nothing shared and E = H are the difference."""
    name = shape if shape == "nano" else f"albert-{shape}-v2"
    albert = build_preset(name)
    width = f"embedding_size={albert.hidden_size}"
    return {
        "ALBERT": albert,
        "BERT": build_preset(name, overrides=["sharing=none", width, "hidden_act=gelu"]),
    }


def count_pair(shape: str) -> dict[str, ParameterCount]:
    """Their weights, with both pretraining heads."""
    return {family: count_parameters(config) for family, config in build_pair(shape).items()}


def build_table(
    shape: str,
    *,
    num_tokens: int,
    length: int,
    micro_batch_tokens: int,
    operations_per_second: float,
    latency_seconds: float,
    bandwidths: Sequence[float],
    strategy: str = "ddp",
) -> list[str]:
    """Seconds a step and how many times faster than one process, for each number of processes."""
    pair = build_pair(shape)
    names = [f"{family}, {bandwidth / 1e9:g} Gbit/s" for bandwidth in bandwidths for family in pair]
    lines = [f"| processes | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    predict = STRATEGIES[strategy]
    for num_processes in NUM_PROCESSES:
        cells = []
        for bandwidth in bandwidths:
            for config in pair.values():
                rate = count_operations(config, length=length) / operations_per_second
                seconds = num_tokens * rate
                job = Job(seconds, list_buckets(config), micro_batch_seconds=micro_batch_tokens * rate)
                found = predict(job, Link(latency_seconds, bandwidth), num_processes=num_processes)
                cells.append(f"{_format_seconds(found.seconds)} ({seconds / found.seconds:.1f}×)")
        lines.append(f"| {num_processes} | {' | '.join(cells)} |")
    return lines


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def main(words: Sequence[str] | None = None) -> None:
    """Print the table for a reader's own figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__.partition("\n")[0])
    parser.add_argument("--shape", default="large", choices=["nano", "base", "large", "xlarge", "xxlarge"])
    parser.add_argument("--sequences", type=int, default=4096, help="of a step, over all processes")
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--micro-batch-tokens", type=int, default=32768)
    parser.add_argument(
        "--operations", type=float, default=50e12, help="a second, that one process really reaches"
    )
    parser.add_argument("--latency", type=float, default=50e-6, help="seconds from a process to the next")
    parser.add_argument(
        "--bandwidth", type=float, nargs="+", default=[1e9, 10e9, 100e9], help="bits a second"
    )
    parser.add_argument("--strategy", default="ddp", choices=sorted(STRATEGIES))
    asked = parser.parse_args(words)
    table = build_table(
        asked.shape,
        num_tokens=asked.sequences * asked.length,
        length=asked.length,
        micro_batch_tokens=asked.micro_batch_tokens,
        operations_per_second=asked.operations,
        latency_seconds=asked.latency,
        bandwidths=asked.bandwidth,
        strategy=asked.strategy,
    )
    print("\n".join(table))


if __name__ == "__main__":
    main()
