"""What data-parallel training would make of measured steps: pairs and a network come in; a section goes out.

Every process takes the measured batch, and all exchange the gradients of every weight by a ring. No torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from albert.report.content import Chart, Column, Level, Section, Series, Table
from albert.study.cells import number_cell, seconds_cell, size_cell, text_cell
from albert.study.steps.equal_shapes import FAMILIES, Family, count_pair
from albert.study.steps.exchange import BYTES_EACH, Job, Link, StepTime, list_buckets, predict_ddp
from albert.study.steps.speed_results import ShapeSpeed, read_model, read_optimizer

PAPER_GAIN = 1.7  # of ALBERT-large over BERT-large


@dataclass(frozen=True)
class Network:
    """So many processes, and the links to their neighbours."""

    num_processes: int
    latency_seconds: float
    links_gbit: Sequence[float]

    def find_link(self, gbit: float) -> Link:
        """A link of that speed."""
        return Link(self.latency_seconds, 1e9 * gbit)


def predict_step(found: ShapeSpeed, family: Family, network: Network, gbit: float) -> StepTime:
    """A step of many processes, as DDP takes it: what can be is hidden behind the backward pass."""
    job = Job(
        # Each takes a whole batch of the measured size.
        network.num_processes * found.find_median(family, read_model),
        list_buckets(found.pair[family]),
        optimizer_seconds=found.find_median(family, read_optimizer),
    )
    return predict_ddp(job, network.find_link(gbit), num_processes=network.num_processes)


def predict_speedup(found: ShapeSpeed, network: Network, gbit: float) -> float:
    """BERT's step over ALBERT's."""
    albert, bert = (predict_step(found, family, network, gbit).seconds for family in FAMILIES)
    return bert / albert


def find_exchange_share(gain: float, *, size_ratio: float) -> float:
    """The share of BERT's step that the exchange must take if it alone makes ALBERT so much faster.

    From (c + e) / (c + e / size_ratio) = gain, where both compute for c and BERT exchanges for e.
    """
    exchange = (gain - 1.0) / (1.0 - gain / size_ratio)  # in units of c
    return exchange / (1.0 + exchange)


def build_exchange_section(measured: Sequence[ShapeSpeed], network: Network) -> Section:
    """Bytes, seconds and speed-ups over links."""
    sizes = count_pair("large")
    ratio = sizes["BERT"].total / sizes["ALBERT"].total
    share = find_exchange_share(PAPER_GAIN, size_ratio=ratio)
    return Section(
        title="With the exchange of gradients",
        paragraphs=[
            "In data-parallel training every process sends 2 (N − 1) / N times the bytes of the gradient "
            "in each step, by a ring, four bytes a weight. A small gradient is soon exchanged; but it is "
            "ready only at the end of the backward pass, when the shared block has been passed for the "
            "last time, while BERT sends that of its last layers early.",
            f"The exchange alone can explain the paper's {PAPER_GAIN}× at large: it does where both compute "
            f"for as long and BERT-large exchanges {ratio:.0f} times the bytes for {share:.0%} of its step.",
            "Bytes are counted and times computed from the measured ones: no network was used.",
        ],
        tables=[_tabulate(measured, network)],
        charts=[_draw(measured, network)],
    )


def _tabulate(measured: Sequence[ShapeSpeed], network: Network) -> Table:
    columns = [
        Column("shape"),
        Column("link, Gbit/s", is_number=True),
        *(Column(f"gradient, {family}", is_number=True, hint="4 bytes a weight") for family in FAMILIES),
        *(Column(f"sent, {family}", is_number=True, hint="by each process in a step") for family in FAMILIES),
        *(Column(f"exchange, {family}", is_number=True, hint="by itself") for family in FAMILIES),
        *(Column(f"step, {family}", is_number=True, hint="with what is not hidden") for family in FAMILIES),
        Column("speed-up", is_number=True, hint="BERT's step over ALBERT's"),
    ]
    rows = []
    for each in measured:
        counts = {family: each.rounds[0].footprints[family].num_parameters for family in FAMILIES}
        sizes = [BYTES_EACH * counts[family] for family in FAMILIES]
        around = 2 * (network.num_processes - 1) / network.num_processes
        for gbit in network.links_gbit:
            link = network.find_link(gbit)
            rings = [link.find_ring_seconds(size, num_processes=network.num_processes) for size in sizes]
            rows.append(
                [
                    text_cell(each.shape),
                    number_cell(gbit),
                    *(size_cell(size) for size in sizes),
                    *(size_cell(around * size) for size in sizes),
                    *(seconds_cell(ring) for ring in rings),
                    *(seconds_cell(predict_step(each, family, network, gbit).seconds) for family in FAMILIES),
                    number_cell(predict_speedup(each, network, gbit)),
                ]
            )
    note = f"{network.num_processes} processes, {1e6 * network.latency_seconds:g} µs from one to the next."
    return Table("exchange", columns, rows, note=note)


def _draw(measured: Sequence[ShapeSpeed], network: Network) -> Chart:
    links = sorted(network.links_gbit)
    series = [
        Series(each.shape, xs=links, ys=[predict_speedup(each, network, gbit) for gbit in links])
        for each in measured
    ]
    told = "; ".join(
        f"{each.name}: {each.ys[0]:.2f} at {links[0]:g} Gbit/s, {each.ys[-1]:.2f} at {links[-1]:g}"
        for each in series
    )
    return Chart(
        name="speed-exchange",
        title=f"Computed speed-up of {network.num_processes} processes that exchange gradients",
        x_label="link, Gbit/s",
        y_label="BERT's step ÷ ALBERT's",
        series=series,
        levels=[Level(1.0, "as fast as BERT")],
        has_log_x=True,
        told=f"{told}.",
    )
