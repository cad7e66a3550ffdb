"""`python -m bench scaling`: compare the predicted step time of two processes with the measured one."""

import statistics
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from albert.study.step_costs import FAMILIES, build_pair
from bench.exchange import Job, Link, StepTime, list_buckets, predict_ddp
from bench.link import ADDRESSES, can_limit, limited_link
from bench.processes import Host, Processes, start_processes
from bench.scaling import build_table
from bench.worker import Task

TASKS = (
    Task("nano", num_sequences=16, length=128),
    Task("base", num_sequences=8, length=64, optimizer="sgd"),
)
ROUNDS = 5
LIMIT = 1e9
SMALL, LARGE = 8, 32_000_000  # bytes of the all-reduces that measure a link
UNKNOWN = Link(0.0, 1.0)


@dataclass(frozen=True)
class Network:
    """A connection of two processes, and its link as measured by all-reduces."""

    name: str
    hosts: tuple[Host, ...] = ()
    address: str = "127.0.0.1"
    link: Link = UNKNOWN

    def measured(self) -> "Network":
        """Measure the latency with a small message and the bandwidth with a large one; medians."""
        with start_processes(Task(), hosts=self.hosts, address=self.address) as processes:
            small = _median_seconds(processes.send(f"reduce {SMALL} 200"))
            large = _median_seconds(processes.send(f"reduce {LARGE} 9"))
        return replace(self, link=Link(small / 2, 8 * LARGE / (large - small)))


@dataclass
class Times:
    """Seconds of each round: one process by parts, two without exchange, and two over each network."""

    model: list[float] = field(default_factory=list)
    optimizer: list[float] = field(default_factory=list)
    unsynced: list[float] = field(default_factory=list)
    synced: dict[str, list[float]] = field(default_factory=dict)

    @property
    def single(self) -> float:
        """The time of a step of one process."""
        return statistics.median(map(sum, zip(self.model, self.optimizer, strict=True)))


def _median_seconds(answers: list[dict[str, Any]]) -> float:
    return statistics.median(_slowest(answers))


def _slowest(answers: list[dict[str, Any]]) -> list[float]:
    """List the seconds of the slowest process at each call."""
    return [
        max(each) for each in zip(*([call["seconds"] for call in a["calls"]] for a in answers), strict=True)
    ]


def measure_steps(task: Task, networks: list[Network]) -> Times:
    """Time all variants interleaved; the first round is a warm-up."""
    times = Times(synced={network.name: [] for network in networks})
    with ExitStack() as stack:
        started: list[tuple[str, Processes]] = [
            (each.name, stack.enter_context(start_processes(task, hosts=each.hosts, address=each.address)))
            for each in networks
        ]
        for _, processes in started:
            processes.send("step synced 2")  # DDP orders its buckets, which needs all processes
        for number in range(ROUNDS + 1):
            local = started[0][1]
            single = local.send("step single 1", ranks=[0])[0]["calls"][0]
            unsynced = _slowest(local.send("step unsynced 1"))
            synced = {name: _slowest(processes.send("step synced 1")) for name, processes in started}
            if not number:
                continue
            times.model.append(single["model"])
            times.optimizer.append(single["optimizer"])
            times.unsynced += unsynced
            for name, seconds in synced.items():
                times.synced[name] += seconds
    return times


def predict(task: Task, times: Times, network: Network) -> StepTime:
    """Predict a step of two processes from the times of one and the link."""
    model_seconds = statistics.median(times.model)
    share = min(1.0, task.micro_batch_tokens / (task.num_sequences * task.length))
    job = Job(
        model_seconds,
        list_buckets(build_pair(task.shape)[task.family]),
        optimizer_seconds=statistics.median(times.optimizer),
        micro_batch_seconds=share * model_seconds,
    )
    return predict_ddp(job, network.link, num_processes=2)


def format_section() -> str:
    """Measure, and format the comparison and the table of predictions."""
    with ExitStack() as stack:
        networks = [Network("loopback").measured()]
        if can_limit():
            hosts = stack.enter_context(limited_link(LIMIT))
            networks.append(Network(f"{LIMIT / 1e9:g} Gbit/s", hosts, ADDRESSES[0]).measured())
        found = [
            (each, measure_steps(each, networks))
            for task in TASKS
            for each in (replace(task, family=family) for family in FAMILIES)
        ]
    return "\n".join([*_format_check(networks, found), "", *_format_table()])


def _format_check(networks: list[Network], found: list[tuple[Task, Times]]) -> list[str]:
    links = "; ".join(
        f"{each.name} {1e6 * each.link.latency_seconds:.0f} µs, {each.link.bits_per_second / 1e9:.2f} Gbit/s"
        for each in networks
    )
    lines = [
        "A whole step with DDP, one thread per process, equal parts of one batch; interleaved in one run,",
        f"medians of {ROUNDS} rounds. Links, measured by all-reduces of {SMALL} bytes and {LARGE / 1e6:.0f}",
        f"MB: {links}.",
        *(["The second is a rate-limited link between two network namespaces."] if networks[1:] else []),
        "*Predicted*: by the formula, from the step of one process. *Without exchange*: two processes that",
        "compute their parts and exchange nothing; from these, only the exchange has to be predicted.",
        "",
        "| | link | one process | two without exchange | two with DDP | predicted | error | "
        "predicted from two without exchange | error |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for task, times in found:
        unsynced = statistics.median(times.unsynced)
        for network in networks:
            step = predict(task, times, network)
            measured = statistics.median(times.synced[network.name])
            second = unsynced + step.exposed_seconds + step.small_seconds
            seconds = " | ".join(f"{each:.3f} s" for each in (times.single, unsynced, measured))
            lines.append(
                f"| {task.family} {task.shape}, {task.num_sequences} × {task.length} | {network.name} | "
                f"{seconds} | {step.seconds:.3f} s | **{step.seconds / measured - 1:+.0%}** | "
                f"{second:.3f} s | **{second / measured - 1:+.0%}** |"
            )
    return lines


def _format_table() -> list[str]:
    lines = [
        "**Simulated, never run**: step time of N processes for one global batch, and the speed-up over one.",
        "`python -m bench.scaling` prints this table for your figures (`--help`).",
        "",
        "    compute / N + optimizer + exposed exchange + 2 (N − 1) · latency",
        "    exchange of B bytes = 2 (N − 1) · latency + 2 (N − 1) / N · B / bandwidth",
        "",
        "Gradients that are ready early are sent during the rest of the last micro-batch's backward pass;",
        "only the rest of the exchange is exposed. In these tables the optimizer's time is 0. Stragglers",
        "and network cards shared by several processes are not modeled. Large shape, 50 TFLOP/s reached per",
        "process, latency 50 µs, micro-batches of 32,768 tokens.",
    ]
    for title, sequences, length in (
        ("The paper's batch, 4,096 × 512", 4096, 512),
        ("A small batch, 256 × 128", 256, 128),
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
