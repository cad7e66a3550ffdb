"""`python -m bench communication`: count the bytes that two training processes send each other.

Payload is read from the kernel's counters of each process's own connections, so that nothing else on the
machine is counted; what passed over the loopback interface meanwhile stands beside it.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from albert.study.step_costs import FAMILIES, Family, build_pair, count_pair
from bench.exchange import BYTES_EACH, Bucket, list_buckets
from bench.processes import start_processes
from bench.sockets import count_loopback
from bench.worker import Task

# Bytes do not depend on the batch, so it is as small as can be where a step is slow; moments are left out at
# the large size, where two processes would fill the memory with them.
TASKS = {
    "nano": Task("nano", num_sequences=8, length=128, optimizer="adamw"),
    "base": Task("base", num_sequences=2, length=16, optimizer="lamb"),
    "large": Task("large", num_sequences=2, length=16, optimizer="sgd"),
}
STRATEGIES = ("ddp", "fsdp")
STEPS = 2
RING_BYTES = 8_000_000
RINGS = (2, 4, 8)
# A pass that takes a while, so that the order of its parts is seen.
WATCHED = Task("base", num_sequences=8, length=64, optimizer="sgd")
MOMENTS = (0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Exchange:
    """A step of two processes: what each sent, in how many segments, and what the loopback carried."""

    sent_bytes: float
    segments: float
    loopback_bytes: float


def measure_exchange(task: Task) -> Exchange:
    """After two steps, in which DDP finds the order of its buckets."""
    print(f"{task.family} {task.shape}, {task.strategy}", file=sys.stderr, flush=True)
    with start_processes(task) as processes:
        processes.ask("step together 2")
        answers = processes.ask(f"step together {STEPS}")
    traffic = [answer["traffic"] for answer in answers]
    assert (
        abs(sum(each["sent"] - each["received"] for each in traffic)) < 1000
    )  # what one sends, one receives
    return Exchange(
        sent_bytes=sum(each["sent"] for each in traffic) / len(traffic) / STEPS,
        segments=sum(each["messages"] for each in traffic) / len(traffic) / STEPS,
        loopback_bytes=max(answer["loopback"] for answer in answers) / STEPS,
    )


def measure_ring(num_processes: int) -> float:
    """Bytes that each of so many processes sends for each byte of an all-reduce."""
    with start_processes(Task(), num_processes=num_processes) as processes:
        answers = processes.ask(f"reduce {RING_BYTES} {STEPS}")
    sent: int = sum(answer["traffic"]["sent"] for answer in answers)
    return sent / num_processes / STEPS / RING_BYTES


def watch_buckets(family: Family) -> list[Bucket]:
    """When DDP really sends which part of the gradient."""
    with start_processes(replace(WATCHED, family=family)) as processes:
        answer = processes.ask("buckets")[0]
    return [Bucket(size, share) for size, share in answer["buckets"]]


def find_sent_share(buckets: Sequence[Bucket], moment: float) -> float:
    """The share of the gradient that is on its way before that share of the backward pass."""
    sent = sum(bucket.num_bytes for bucket in buckets if bucket.ready_share <= moment)
    return sent / sum(bucket.num_bytes for bucket in buckets)


def measure_silence(seconds: float = 2.0) -> float:
    """Bytes a second over the loopback interface before anything is measured."""
    before = count_loopback()
    time.sleep(seconds)
    return (count_loopback() - before) / seconds


def format_section() -> str:
    """Measure all of it and write it down."""
    silence = measure_silence()
    buckets, rings = _format_buckets(), _format_rings()
    found = {
        (shape, family, strategy): measure_exchange(replace(task, family=family, strategy=strategy))
        for shape, task in TASKS.items()
        for family in FAMILIES
        for strategy in STRATEGIES
    }
    many = measure_exchange(replace(TASKS["nano"], strategy="fsdp", micro_batch_tokens=128))
    lines = [
        *_format_exchanges(found),
        "",
        *_format_remarks(found, many, silence),
        "",
        *rings,
        "",
        *buckets,
    ]
    return "\n".join(lines)


def _format_exchanges(found: dict[tuple[str, Family, str], Exchange]) -> list[str]:
    lines = [
        "Payload that each of two processes sends in a training step (forward, backward, exchange, clipping, optimiser),",
        "by the kernel's counters of its own connections, gloo over loopback. *Formula*: 4 bytes a weight, times",
        "2 (N − 1) / N for DDP's ring, and for FSDP2 (N − 1) / N to gather and as much to scatter: all the same at N = 2.",
        "",
        "| | weights | formula | DDP, measured | FSDP2, measured | FSDP2 ÷ formula |",
        "|---|---|---|---|---|---|",
    ]
    for shape in TASKS:
        sizes = count_pair(shape)
        for family in FAMILIES:
            count = sizes[family].total
            ddp, fsdp = (found[shape, family, strategy].sent_bytes for strategy in STRATEGIES)
            lines.append(
                f"| {family} {shape} | {count / 1e6:.2f}M | {BYTES_EACH * count / 1e6:.2f} MB | {ddp / 1e6:.2f} MB | "
                f"{fsdp / 1e6:.2f} MB | {fsdp / (BYTES_EACH * count):.2f} |"
            )
        counted = sizes["BERT"].total / sizes["ALBERT"].total
        ddp, fsdp = (
            found[shape, "BERT", way].sent_bytes / found[shape, "ALBERT", way].sent_bytes
            for way in STRATEGIES
        )
        lines.append(f"| BERT ÷ ALBERT | {counted:.1f}× | | **{ddp:.1f}×** | **{fsdp:.1f}×** | |")
    return lines


def _format_remarks(
    found: dict[tuple[str, Family, str], Exchange], many: Exchange, silence: float
) -> list[str]:
    sizes = {(shape, family): count.total for shape in TASKS for family, count in count_pair(shape).items()}
    extra = {
        key: exchange.sent_bytes - BYTES_EACH * sizes[key[:2]]
        for key, exchange in found.items()
        if key[2] == "ddp"
    }
    per_segment = [exchange.loopback_bytes / exchange.sent_bytes / 2 for exchange in found.values()]
    nano = found["nano", "ALBERT", "fsdp"]
    return [
        "The paper's 18× is 334M ÷ 18M weights. What DDP sends beyond the formula are counts, losses and gloo's own",
        f"headers: {min(extra.values()):,.0f} to {max(extra.values()):,.0f} bytes a step.",
        f"The loopback interface carried {min(per_segment):.3f} to {max(per_segment):.3f} times the payload of both,",
        f"headers and whatever else used it included; in the silence before, {silence:,.0f} bytes a second.",
        f"FSDP2 with four micro-batches instead of one (ALBERT nano): {many.sent_bytes / 1e6:.2f} MB instead of "
        f"{nano.sent_bytes / 1e6:.2f}.",
        "Optimisers: AdamW at nano, LAMB at base, plain SGD at large; base and large with 2 × 16 pieces a step.",
    ]


def _format_rings() -> list[str]:
    cells = [(size, measure_ring(size), 2 * (size - 1) / size) for size in RINGS]
    return [
        f"An all-reduce by itself, {RING_BYTES / 1e6:.0f} MB, sent by each process for each byte:",
        "",
        f"| processes | {' | '.join(str(size) for size, _, _ in cells)} |",
        "|---" * (len(cells) + 1) + "|",
        f"| 2 (N − 1) / N | {' | '.join(f'{formula:.3f}' for _, _, formula in cells)} |",
        f"| measured | {' | '.join(f'{measured:.3f}' for _, measured, _ in cells)} |",
    ]


def _format_buckets() -> list[str]:
    pair = build_pair(WATCHED.shape)
    lines = [
        "How much of the gradient DDP has begun to send before the backward pass is over (base, "
        f"{WATCHED.num_sequences} × {WATCHED.length} pieces,",
        "as a share of the time from the end of the forward pass to the last bucket). *Assumed*: by the scaling table.",
        "",
        "| | buckets | " + " | ".join(f"after {moment:.0%}" for moment in MOMENTS) + " |",
        "|---" * (len(MOMENTS) + 2) + "|",
    ]
    for family in FAMILIES:
        rows = {"measured": watch_buckets(family), "assumed": list_buckets(pair[family])}
        for name, buckets in rows.items():
            cells = " | ".join(f"{find_sent_share(buckets, moment):.0%}" for moment in MOMENTS)
            lines.append(f"| {family}, {name} | {len(buckets)} | {cells} |")
    return lines
