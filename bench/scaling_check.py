"""`python -m bench scaling`: the step of two processes, as the formula has it and as they really take it."""

import statistics
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from albert.study.step_costs import FAMILIES, build_pair
from bench.exchange import Job, Link, StepTime, list_buckets, predict_ddp
from bench.link import ADDRESSES, can_limit, limited_link
from bench.processes import Place, Processes, start_processes
from bench.scaling import build_table
from bench.worker import Task

TASKS = (
    Task("nano", num_sequences=16, length=128),
    Task("base", num_sequences=8, length=64, optimizer="sgd"),
)
ROUNDS = 5
LIMIT = 1e9
SMALL, LARGE = 8, 32_000_000
UNKNOWN = Link(0.0, 1.0)


@dataclass(frozen=True)
class Road:
    """A way between two processes, and what an all-reduce by itself says of it."""

    name: str
    places: tuple[Place, ...] = ()
    address: str = "127.0.0.1"
    link: Link = UNKNOWN

    def measured(self) -> "Road":
        """Latency from the smallest message, bandwidth from a large one; medians."""
        with start_processes(Task(), places=self.places, address=self.address) as processes:
            small = _median_seconds(processes.ask(f"reduce {SMALL} 200"))
            large = _median_seconds(processes.ask(f"reduce {LARGE} 9"))
        return replace(self, link=Link(small / 2, 8 * LARGE / (large - small)))


@dataclass
class Times:
    """Seconds of each round: alone by its parts, two apart, and two together over each road."""

    model: list[float] = field(default_factory=list)
    optimizer: list[float] = field(default_factory=list)
    apart: list[float] = field(default_factory=list)
    together: dict[str, list[float]] = field(default_factory=dict)

    @property
    def alone(self) -> float:
        """A step of one process."""
        return statistics.median(map(sum, zip(self.model, self.optimizer, strict=True)))


def _median_seconds(answers: list[dict[str, Any]]) -> float:
    """Of the slowest process at each call."""
    return statistics.median(_slowest(answers))


def _slowest(answers: list[dict[str, Any]]) -> list[float]:
    return [
        max(each) for each in zip(*([call["seconds"] for call in a["calls"]] for a in answers), strict=True)
    ]


def measure_steps(task: Task, roads: list[Road]) -> Times:
    """All ways in turns; the first round warms up."""
    times = Times(together={road.name: [] for road in roads})
    with ExitStack() as stack:
        started: list[tuple[str, Processes]] = [
            (road.name, stack.enter_context(start_processes(task, places=road.places, address=road.address)))
            for road in roads
        ]
        for _, processes in started:
            processes.ask("step together 2")  # DDP orders its buckets, in which all must take part
        for number in range(ROUNDS + 1):
            here = started[0][1]
            alone = here.ask("step alone 1", ranks=[0])[0]["calls"][0]
            apart = _slowest(here.ask("step apart 1"))
            together = {name: _slowest(processes.ask("step together 1")) for name, processes in started}
            if not number:
                continue
            times.model.append(alone["model"])
            times.optimizer.append(alone["optimizer"])
            times.apart += apart
            for name, seconds in together.items():
                times.together[name] += seconds
    return times


def predict(task: Task, times: Times, road: Road) -> StepTime:
    """Two processes, from what one alone has taken and what the road can do."""
    model_seconds = statistics.median(times.model)
    share = min(1.0, task.micro_batch_tokens / (task.num_sequences * task.length))
    job = Job(
        model_seconds,
        list_buckets(build_pair(task.shape)[task.family]),
        optimizer_seconds=statistics.median(times.optimizer),
        micro_batch_seconds=share * model_seconds,
    )
    return predict_ddp(job, road.link, num_processes=2)


def format_section() -> str:
    """The check, and the table that it is a check of."""
    with ExitStack() as stack:
        roads = [Road("loopback").measured()]
        if can_limit():
            places = stack.enter_context(limited_link(LIMIT))
            roads.append(Road(f"{LIMIT / 1e9:g} Gbit/s", places, ADDRESSES[0]).measured())
        found = [
            (each, measure_steps(each, roads))
            for task in TASKS
            for each in (replace(task, family=family) for family in FAMILIES)
        ]
    return "\n".join([*_format_check(roads, found), "", *_format_table()])


def _format_check(roads: list[Road], found: list[tuple[Task, Times]]) -> list[str]:
    links = "; ".join(
        f"{road.name} {1e6 * road.link.latency_seconds:.0f} µs and {road.link.bits_per_second / 1e9:.2f} Gbit/s"
        for road in roads
    )
    lines = [
        "A whole step with DDP, one thread a process, equal shares of one batch; all ways in turns in one run, medians of",
        f"{ROUNDS} rounds. Roads, by all-reduces of {SMALL} bytes and {LARGE / 1e6:.0f} MB: {links}.",
        *(
            ["The second one is a rate-limited link between two network namespaces of this machine."]
            if roads[1:]
            else []
        ),
        "*Predicted*: by the formula, from the step of one process. *Apart*: two processes that compute their shares and exchange nothing; from them, the formula has",
        "only the exchange to predict.",
        "",
        "| | road | one process | two apart | two together | predicted | error | predicted from two apart | error |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for task, times in found:
        apart = statistics.median(times.apart)
        for road in roads:
            step = predict(task, times, road)
            measured = statistics.median(times.together[road.name])
            second = apart + step.exposed_seconds + step.small_seconds
            seconds = " | ".join(f"{each:.3f} s" for each in (times.alone, apart, measured))
            lines.append(
                f"| {task.family} {task.shape}, {task.num_sequences} × {task.length} | {road.name} | {seconds} | "
                f"{step.seconds:.3f} s | **{step.seconds / measured - 1:+.0%}** | {second:.3f} s | "
                f"**{second / measured - 1:+.0%}** |"
            )
    return lines


def _format_table() -> list[str]:
    lines = [
        "**Simulated, never run**: `python -m bench.scaling` prints this for your figures (`--help`). Step time of N",
        "processes for one global batch, and how many times faster than one:",
        "",
        "    compute / N + optimiser + exposed exchange + 2 (N − 1) · latency",
        "    exchange of B bytes = 2 (N − 1) · latency + 2 (N − 1) / N · B / bandwidth",
        "",
        "Of DDP's exchange, parts that are ready early are hidden behind the rest of the last micro-batch's backward pass.",
        "In these tables the optimiser's time is taken as 0. Left out: slower neighbours, and several processes on one",
        "network card. Large shape, 50 TFLOP/s reached by a process, latency 50 µs, micro-batches of 32,768 tokens.",
    ]
    for title, sequences, length in (
        ("The paper's batch, 4,096 × 512", 4096, 512),
        ("A small one, 256 × 128", 256, 128),
    ):
        table = build_table(
            "large",
            num_tokens=sequences * length,
            length=length,
            micro_batch_tokens=32768,
            operations_per_second=50e12,
            latency_seconds=50e-6,
            bandwidths=(1e9, 10e9, 100e9),
        )
        lines += ["", f"{title}:", "", *table]
    return lines
