"""`python -m bench.exchange SPEED_DIR`: compute data-parallel step times from measured ones.

SPEED_DIR is the folder of `albert study speed`. A step of N processes that share a batch takes

    compute / N  +  optimizer  +  the part of the exchange that is not hidden  +  2 (N − 1) latency

Gradients of B bytes are exchanged by a ring: 2 (N − 1) messages one after another, and 2 (N − 1) / N · B
bytes out of each process. DDP sends a part of the gradient as soon as the backward pass has computed it, so
that it is hidden behind the rest of the pass; the gradient of a shared block is complete only at the end.
The last term is for the counts and losses that processes exchange twice per step. No network is used.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from albert.files import read_json
from albert.model.config import ModelConfig, count_parameters
from albert.study.results import RESULTS_NAME, format_bytes, format_time
from albert.study.speed import MODEL, OPTIMIZER, PAPER_RATIOS, ShapeSpeed, SpeedRound
from albert.study.step_costs import FAMILIES, Family, build_pair, count_pair

BYTES_EACH = 4  # gradients are float32, whatever the precision of the arithmetic
BACKWARD_SHARE = 2 / 3  # of a forward and a backward pass


@dataclass(frozen=True)
class Link:
    """The connection of a process to its neighbor."""

    latency_seconds: float
    bits_per_second: float

    def find_ring_seconds(self, num_bytes: float, *, num_processes: int) -> float:
        """Return the time of an all-reduce."""
        rounds = 2 * (num_processes - 1)
        return rounds * (self.latency_seconds + 8 * num_bytes / num_processes / self.bits_per_second)


@dataclass(frozen=True)
class Bucket:
    """Gradients sent together, and the share of the last backward pass after which they are ready."""

    num_bytes: int
    ready_share: float


@dataclass(frozen=True)
class Job:
    """A training step of one process, and the gradients it exchanges.

    Only the backward pass of the last micro-batch can hide an exchange; that micro-batch takes at most
    `micro_batch_seconds`.
    """

    model_seconds: float
    buckets: tuple[Bucket, ...]
    optimizer_seconds: float = 0.0
    micro_batch_seconds: float = math.inf

    @property
    def num_bytes(self) -> int:
        """The size of the whole gradient."""
        return sum(bucket.num_bytes for bucket in self.buckets)


@dataclass(frozen=True)
class StepTime:
    """The parts of the time of a step; of the exchange only what is not hidden."""

    compute_seconds: float
    exposed_seconds: float
    small_seconds: float

    @property
    def seconds(self) -> float:
        """The time of a step."""
        return self.compute_seconds + self.exposed_seconds + self.small_seconds


def predict_ddp(job: Job, link: Link, *, num_processes: int) -> StepTime:
    """Predict a step of DDP: buckets are sent in order, each when it is ready and the link is free."""
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
    """List the gradient in the order in which the backward pass completes it.

    Heads and pooler come first. The tied word embeddings are complete only at the end, and so is a block that
    all layers share. Blocks that are not shared are spaced evenly in between.
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


def predict_step(found: ShapeSpeed, family: Family, link: Link, *, num_processes: int) -> StepTime:
    """Predict a DDP step in which every process computes a batch of the measured size."""
    job = Job(
        num_processes * found.find_median(family, MODEL),
        list_buckets(found.pair[family]),
        optimizer_seconds=found.find_median(family, OPTIMIZER),
    )
    return predict_ddp(job, link, num_processes=num_processes)


def predict_speedup(found: ShapeSpeed, link: Link, *, num_processes: int) -> float:
    """Predict BERT's step time divided by ALBERT's."""
    albert, bert = (
        predict_step(found, family, link, num_processes=num_processes).seconds for family in FAMILIES
    )
    return bert / albert


def find_exchange_share(gain: float, *, size_ratio: float) -> float:
    """Find the share of BERT's step that the exchange must take to make ALBERT faster by `gain` on its own.

    From (c + e) / (c + e / size_ratio) = gain, where both compute for c and BERT exchanges for e.
    """
    exchange = (gain - 1.0) / (1.0 - gain / size_ratio)  # in units of c
    return exchange / (1.0 + exchange)


def read_speeds(folder: Path) -> list[ShapeSpeed]:
    """Read the rounds of a speed study."""
    results = read_json(folder / RESULTS_NAME)
    rounds: dict[str, list[SpeedRound]] = {}
    for name, part in results["parts"].items():
        found = TypeAdapter(SpeedRound).validate_python(part["found"])
        rounds.setdefault(name.partition("/")[0], []).append(found)
    changes: Mapping[str, object] = results["settings"]["model"]
    return [
        ShapeSpeed(shape, build_pair(shape, changes=changes), tuple(found)) for shape, found in rounds.items()
    ]


def build_table(measured: Sequence[ShapeSpeed], links: Sequence[Link], *, num_processes: int) -> list[str]:
    """Build the rows of a Markdown table: gradients, step times and the speed-up, for each shape and link."""
    lines = [
        "| shape | link | gradient, ALBERT | BERT | step, ALBERT | BERT | speed-up of ALBERT |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in measured:
        sizes = [format_bytes(BYTES_EACH * each.count_parameters(family)) for family in FAMILIES]
        for link in links:
            steps = [predict_step(each, family, link, num_processes=num_processes) for family in FAMILIES]
            speedup = predict_speedup(each, link, num_processes=num_processes)
            cells = [each.shape, f"{link.bits_per_second / 1e9:g} Gbit/s", *sizes]
            cells += [*(format_time(step.seconds) for step in steps), f"{speedup:.2f}×"]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def main(words: Sequence[str] | None = None) -> None:
    """Print the table for the folder of a speed study."""
    parser = argparse.ArgumentParser(prog="python -m bench.exchange", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="SPEED_DIR", help="the --out of `albert study speed`")
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--latency", type=float, default=50e-6, help="seconds between neighbors")
    parser.add_argument("--links", type=float, nargs="+", default=[1.0, 10.0, 100.0], help="Gbit/s")
    options = parser.parse_args(words)
    links = [Link(options.latency, 1e9 * gbit) for gbit in options.links]
    print("\n".join(build_table(read_speeds(options.folder), links, num_processes=options.processes)))
    sizes, gain = count_pair("large"), PAPER_RATIOS["large"]
    ratio = sizes["BERT"].total / sizes["ALBERT"].total
    share = find_exchange_share(gain, size_ratio=ratio)
    print(
        f"\nThe exchange alone explains the paper's {gain:g}× at large if both models compute for the same "
        f"time and BERT-large exchanges {ratio:.0f} times the bytes for {share:.0%} of its step."
    )


if __name__ == "__main__":
    main()
