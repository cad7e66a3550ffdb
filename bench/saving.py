"""`python -m bench saving`: measure the cost of background and blocking checkpoints of two processes."""

import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace

from bench.processes import Processes, start_processes
from bench.worker import Task

TASKS = {
    "nano": Task("nano", num_sequences=16, length=128),
    "base": Task("base", num_sequences=8, length=64),
}
STRATEGIES = ("ddp", "fsdp")
STEPS = {"nano": 8, "base": 5}  # of a block, in which a checkpoint is started and written
ROUNDS = 5


@dataclass(frozen=True)
class Cost:
    """Seconds of a step, of the saving call, and added to a block of steps by either type of checkpoint."""

    step: float
    blocked: float
    background: float
    blocking: float


def measure_cost(task: Task, *, steps: int) -> Cost:
    """Interleave blocks of steps without a checkpoint, with a background one, and with a blocking one."""
    print(f"{task.shape}, {task.strategy}", file=sys.stderr, flush=True)
    plain, background, blocking, blocked = [], [], [], []
    with tempfile.TemporaryDirectory() as folder, start_processes(task) as processes:

        def time_block(save: Callable[[], float]) -> float:
            saved = save()
            calls = processes.send(f"step synced {steps}")[0]["calls"]
            flushed = _send(processes, "flush")
            seconds: float = sum(call["seconds"] for call in calls)
            return saved + flushed + seconds

        def save_in_background() -> float:
            blocked.append(_send(processes, f"save background {folder}/background"))
            return blocked[-1]

        time_block(save_in_background)  # warm-up
        for _ in range(ROUNDS):
            plain.append(time_block(lambda: 0.0))
            background.append(time_block(save_in_background))
            # Sharded tensors are written by all processes or gathered first; no blocking save is measured.
            if task.strategy == "ddp":
                blocking.append(time_block(lambda: _send(processes, f"save blocking {folder}/blocking")))
    return Cost(
        step=statistics.median(plain) / steps,
        blocked=statistics.median(blocked[1:]),
        background=_median_difference(background, plain),
        blocking=_median_difference(blocking or plain, plain),
    )


def _median_difference(times: list[float], plain: list[float]) -> float:
    return statistics.median(one - other for one, other in zip(times, plain, strict=True))


def _send(processes: Processes, line: str) -> float:
    return max(float(answer["seconds"]) for answer in processes.send(line))


def format_section() -> str:
    """Measure, and format the table."""
    lines = [
        "Two processes with one thread each, AdamW, random tokens. Blocks of steps without a checkpoint,",
        f"with one written in the background, and with a blocking one are interleaved; medians of {ROUNDS}",
        "rounds. *Added* is the additional time of the block, with writing, hashing and renaming. Shares",
        "are of the time between two checkpoints. Training uses both cores, so writing slows it down.",
        "",
        "| shape | strategy | step | call returns after | added, background | added, blocking | "
        "background, one per minute | one per ten minutes (default) | target |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, task in TASKS.items():
        for strategy in STRATEGIES:
            cost = measure_cost(replace(task, strategy=strategy), steps=STEPS[name])
            print(cost, file=sys.stderr, flush=True)
            blocking = f"{cost.blocking:.2f} s" if cost.blocking else "–"
            lines.append(
                f"| {name} | {strategy} | {cost.step:.2f} s | {cost.blocked:.3f} s | "
                f"{cost.background:.2f} s | {blocking} | **{cost.background / 60:.1%}** | "
                f"{cost.background / 600:.2%} | < 5% |"
            )
    return "\n".join(lines)
