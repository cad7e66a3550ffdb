"""`python -m bench saving`: what a checkpoint costs two processes that train, written aside or waited for."""

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
STEPS = {"nano": 8, "base": 5}  # a stretch, in which a checkpoint is begun and written
ROUNDS = 5


@dataclass(frozen=True)
class Cost:
    """Seconds: of a step, of a call that saves, and of all that a checkpoint added to a stretch of steps."""

    step: float
    blocked: float
    aside: float
    waited: float


def measure_cost(task: Task, *, steps: int) -> Cost:
    """Stretches of steps in turns: without a checkpoint, with one written aside, with one waited for."""
    print(f"{task.shape}, {task.strategy}", file=sys.stderr, flush=True)
    plain, aside, waited, blocked = [], [], [], []
    with tempfile.TemporaryDirectory() as folder, start_processes(task) as processes:

        def stretch(save: Callable[[], float]) -> float:
            saved = save()
            calls = processes.ask(f"step together {steps}")[0]["calls"]
            settled = _ask(processes, "settle")
            taken: float = sum(call["seconds"] for call in calls)
            return saved + settled + taken

        def save_aside() -> float:
            blocked.append(_ask(processes, f"save aside {folder}/aside"))
            return blocked[-1]

        stretch(save_aside)  # warms up
        for _ in range(ROUNDS):
            plain.append(stretch(lambda: 0.0))
            aside.append(stretch(save_aside))
            # Spread tensors are written by all, or gathered first: nobody waits for them here.
            if task.strategy == "ddp":
                waited.append(stretch(lambda: _ask(processes, f"save waiting {folder}/waiting")))
    return Cost(
        step=statistics.median(plain) / steps,
        blocked=statistics.median(blocked[1:]),
        aside=statistics.median(with_one - without for with_one, without in zip(aside, plain, strict=True)),
        waited=statistics.median(one - none for one, none in zip(waited or plain, plain, strict=True)),
    )


def _ask(processes: Processes, line: str) -> float:
    return max(float(answer["seconds"]) for answer in processes.ask(line))


def format_section() -> str:
    """The table."""
    lines = [
        "Two processes, one thread each, AdamW, random pieces; in turns a stretch of steps without a checkpoint, one "
        f"with a checkpoint written aside, and one that waits for it; medians of {ROUNDS} rounds. *Added* is what the "
        "whole stretch took longer, the writing, hashing and renaming included; a share is of the time between two "
        "checkpoints. Both cores compute already: what the writing needs is taken from the training.",
        "",
        "| shape | strategy | a step | call returns after | added, aside | added, waited for | aside, one a minute | "
        "one in ten minutes (default) | needed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, task in TASKS.items():
        for strategy in STRATEGIES:
            cost = measure_cost(replace(task, strategy=strategy), steps=STEPS[name])
            print(cost, file=sys.stderr, flush=True)
            waited = f"{cost.waited:.2f} s" if cost.waited else "–"
            lines.append(
                f"| {name} | {strategy} | {cost.step:.2f} s | {cost.blocked:.3f} s | {cost.aside:.2f} s | {waited} | "
                f"**{cost.aside / 60:.1%}** | {cost.aside / 600:.2%} | < 5% |"
            )
    return "\n".join(lines)
