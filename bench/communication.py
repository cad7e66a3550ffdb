"""`python -m bench communication`: count the bytes that two training processes send each other.

The payload is read from the kernel's counters of each process's connections, so no other traffic is counted.
The bytes over the loopback interface are reported for comparison.
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

# Bytes do not depend on the batch, so it is small where a step is slow. At the large size SGD is used,
# because two processes with moments do not fit into memory.
TASKS = {
    "nano": Task("nano", num_sequences=8, length=128, optimizer="adamw"),
    "base": Task("base", num_sequences=2, length=16, optimizer="lamb"),
    "large": Task("large", num_sequences=2, length=16, optimizer="sgd"),
}
STRATEGIES = ("ddp", "fsdp")
STEPS = 2
RING_BYTES = 8_000_000
RING_SIZES = (2, 4, 8)
# Its backward pass is long enough to see the order of the buckets.
BUCKETS_TASK = Task("base", num_sequences=8, length=64, optimizer="sgd")
BACKWARD_SHARES = (0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Exchange:
    """Per step: bytes and segments that each of two processes sent, and bytes over the loopback interface."""

    sent_bytes: float
    segments: float
    loopback_bytes: float


def measure_exchange(task: Task) -> Exchange:
    """Count the bytes after two steps, in which DDP finds the order of its buckets."""
    print(f"{task.family} {task.shape}, {task.strategy}", file=sys.stderr, flush=True)
    with start_processes(task) as processes:
        processes.send("step synced 2")
        answers = processes.send(f"step synced {STEPS}")
    traffic = [answer["traffic"] for answer in answers]
    assert abs(sum(each["sent"] - each["received"] for each in traffic)) < 1000
    return Exchange(
        sent_bytes=sum(each["sent"] for each in traffic) / len(traffic) / STEPS,
        segments=sum(each["messages"] for each in traffic) / len(traffic) / STEPS,
        loopback_bytes=max(answer["loopback"] for answer in answers) / STEPS,
    )


def measure_ring(num_processes: int) -> float:
    """Count the bytes that each process sends per byte of an all-reduce."""
    with start_processes(Task(), num_processes=num_processes) as processes:
        answers = processes.send(f"reduce {RING_BYTES} {STEPS}")
    sent: int = sum(answer["traffic"]["sent"] for answer in answers)
    return sent / num_processes / STEPS / RING_BYTES


def measure_buckets(family: Family) -> list[Bucket]:
    """Measure when DDP sends which part of the gradient."""
    with start_processes(replace(BUCKETS_TASK, family=family)) as processes:
        answer = processes.send("buckets")[0]
    return [Bucket(size, share) for size, share in answer["buckets"]]


def find_sent_share(buckets: Sequence[Bucket], backward_share: float) -> float:
    """Compute the share of the gradient that is sent by that share of the backward pass."""
    sent = sum(bucket.num_bytes for bucket in buckets if bucket.ready_share <= backward_share)
    return sent / sum(bucket.num_bytes for bucket in buckets)


def measure_background(seconds: float = 2.0) -> float:
    """Measure the bytes per second over the loopback interface before the benchmark."""
    before = count_loopback()
    time.sleep(seconds)
    return (count_loopback() - before) / seconds


def format_section() -> str:
    """Measure everything, and format the section."""
    background = measure_background()
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
        *_format_remarks(found, many, background),
        "",
        *rings,
        "",
        *buckets,
    ]
    return "\n".join(lines)


def _format_exchanges(found: dict[tuple[str, Family, str], Exchange]) -> list[str]:
    lines = [
        "Payload that each of two processes sends per training step (forward, backward, exchange, clipping,",
        "optimizer), from the kernel's counters of its connections; gloo over the loopback interface.",
        "*Formula*: 4 bytes per weight, times 2 (N − 1) / N for DDP's ring all-reduce; for FSDP2 (N − 1) / N",
        "to gather and as much to scatter. For N = 2 both are 4 bytes per weight.",
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
                f"| {family} {shape} | {count / 1e6:.2f}M | {BYTES_EACH * count / 1e6:.2f} MB | "
                f"{ddp / 1e6:.2f} MB | {fsdp / 1e6:.2f} MB | {fsdp / (BYTES_EACH * count):.2f} |"
            )
        counted = sizes["BERT"].total / sizes["ALBERT"].total
        ddp, fsdp = (
            found[shape, "BERT", strategy].sent_bytes / found[shape, "ALBERT", strategy].sent_bytes
            for strategy in STRATEGIES
        )
        lines.append(f"| BERT ÷ ALBERT | {counted:.1f}× | | **{ddp:.1f}×** | **{fsdp:.1f}×** | |")
    return lines


def _format_remarks(
    found: dict[tuple[str, Family, str], Exchange], many: Exchange, background: float
) -> list[str]:
    sizes = {(shape, family): count.total for shape in TASKS for family, count in count_pair(shape).items()}
    extra = {
        key: exchange.sent_bytes - BYTES_EACH * sizes[key[:2]]
        for key, exchange in found.items()
        if key[2] == "ddp"
    }
    overheads = [exchange.loopback_bytes / exchange.sent_bytes / 2 for exchange in found.values()]
    nano = found["nano", "ALBERT", "fsdp"]
    return [
        "The paper's 18× is 334M ÷ 18M weights. Beyond the formula, DDP sends counts, losses and headers of",
        f"gloo: {min(extra.values()):,.0f} to {max(extra.values()):,.0f} bytes per step. The loopback",
        f"interface carried {min(overheads):.3f} to {max(overheads):.3f} times the payload of both,",
        f"including headers and other traffic; before the benchmark it carried {background:,.0f} bytes per",
        f"second. FSDP2 with four micro-batches instead of one (ALBERT nano): {many.sent_bytes / 1e6:.2f} MB",
        f"instead of {nano.sent_bytes / 1e6:.2f}. Optimizers: AdamW at nano, LAMB at base, SGD at large.",
        "Base and large train on 2 × 16 tokens per step.",
    ]


def _format_rings() -> list[str]:
    cells = [(size, measure_ring(size), 2 * (size - 1) / size) for size in RING_SIZES]
    return [
        f"A single all-reduce of {RING_BYTES / 1e6:.0f} MB, bytes sent by each process per byte:",
        "",
        f"| processes | {' | '.join(str(size) for size, _, _ in cells)} |",
        "|---" * (len(cells) + 1) + "|",
        f"| 2 (N − 1) / N | {' | '.join(f'{formula:.3f}' for _, _, formula in cells)} |",
        f"| measured | {' | '.join(f'{measured:.3f}' for _, measured, _ in cells)} |",
    ]


def _format_buckets() -> list[str]:
    pair = build_pair(BUCKETS_TASK.shape)
    lines = [
        "Share of the gradient that DDP has started to send after 25% to 95% of the backward pass (base,",
        f"{BUCKETS_TASK.num_sequences} × {BUCKETS_TASK.length} tokens; measured from the end of the forward",
        "pass to the last bucket). *Assumed*: in the scaling table.",
        "",
        "| | buckets | " + " | ".join(f"after {share:.0%}" for share in BACKWARD_SHARES) + " |",
        "|---" * (len(BACKWARD_SHARES) + 2) + "|",
    ]
    for family in FAMILIES:
        rows = {"measured": measure_buckets(family), "assumed": list_buckets(pair[family])}
        for name, buckets in rows.items():
            cells = " | ".join(f"{find_sent_share(buckets, share):.0%}" for share in BACKWARD_SHARES)
            lines.append(f"| {family}, {name} | {len(buckets)} | {cells} |")
    return lines
