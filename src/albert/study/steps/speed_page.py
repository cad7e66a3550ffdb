"""The speed study as a page: rounds of ALBERT and BERT come in; tables, charts and what follows go out."""

from collections.abc import Sequence

from albert.report.content import Chart, Column, Level, Page, Section, Series, Table
from albert.study.cells import (
    count_cell,
    format_time,
    interval_cell,
    number_cell,
    seconds_cell,
    text_cell,
)
from albert.study.steps.equal_shapes import FAMILIES, count_operations
from albert.study.steps.pair_settings import PairSettings
from albert.study.steps.speed_exchange import Network, build_exchange_section
from albert.study.steps.speed_findings import PAPER_SPEEDS, find_paper_ratio, list_findings
from albert.study.steps.speed_results import (
    ShapeSpeed,
    find_largest,
    read_inference,
    read_model,
    read_optimizer,
    read_step,
)

TIMES = {
    "training step": read_step,
    "forward and backward": read_model,
    "optimiser": read_optimizer,
    "inference": read_inference,
}
# The optimiser's ratio is that of the parameters, on another scale than the rest.
_DRAWN = ("training step", "forward and backward", "inference")


def build_speed_page(
    found: Sequence[ShapeSpeed], *, settings: PairSettings, network: Network, machine: str
) -> Page:
    """What was measured, what the paper says, and why they differ."""
    measured = [each for each in found if each.rounds]
    told = ", ".join(f"{each.shape} {each.find_ratio(read_step).value:.2f}×" for each in measured)
    return Page(
        title="Training speed: ALBERT against BERT of the same shape",
        lead=(
            "Table 2's last column, measured here by one process on one machine. A training step of ALBERT "
            f"is so many times as fast as BERT's: {told or 'nothing could be measured'}."
        ),
        sections=[
            Section(
                title="What the paper says, and what was measured here",
                paragraphs=[*_explain(measured), *_list_failures(found)],
                findings=list_findings(measured, network=network),
                tables=[_tabulate_ratios(measured, length=settings.length)],
                charts=[_draw_ratios(measured)] if measured else [],
            ),
            *_build_details(measured, network),
            Section(title="How it was measured", paragraphs=_tell_rules(measured, settings, machine)),
        ],
    )


def _build_details(measured: Sequence[ShapeSpeed], network: Network) -> list[Section]:
    if not measured:
        return []
    tables = [_tabulate_times(measured), _tabulate_column(measured)]
    return [Section(title="Times", tables=tables), build_exchange_section(measured, network)]


def _explain(measured: Sequence[ShapeSpeed]) -> list[str]:
    """Why a processor by itself sees so little of it, with the figures of the largest shape."""
    if not measured:
        return []
    largest = find_largest(measured)
    shares = {
        family: largest.find_median(family, read_optimizer) / largest.find_median(family, read_step)
        for family in FAMILIES
    }
    sizes = {family: largest.rounds[0].footprints[family].num_parameters for family in FAMILIES}
    return [
        "Sharing parameters saves no arithmetic: every layer is computed, whether its weights are its "
        "own or shared. By itself, a process gains in two places. The word table is narrower, so that "
        f"predicting masked words is less work; and the optimiser moves fewer weights: at {largest.shape} "
        f"{sizes['ALBERT'] / 1e6:.1f} instead of {sizes['BERT'] / 1e6:.1f} million "
        f"({sizes['BERT'] / sizes['ALBERT']:.1f} times fewer), which makes it {shares['ALBERT']:.1%} of a "
        f"step instead of {shares['BERT']:.1%}.",
        "The paper's speeds are those of many TPU chips that exchange the gradients of every weight in "
        "every step. That exchange is in none of the times measured here; further down it is added for "
        "given links.",
    ]


def _list_failures(found: Sequence[ShapeSpeed]) -> list[str]:
    """A round that failed is not kept, and the last: those before it count."""
    told = []
    for each in found:
        if each.failure is not None:
            done = f"stopped after {each.told_rounds}" if each.rounds else "was not measured"
            told.append(f"{each.shape} {done}. {each.failure}. The same command tries it again.")
    return told


def _tabulate_ratios(measured: Sequence[ShapeSpeed], *, length: int) -> Table:
    columns = [
        Column("shape"),
        Column("paper", is_number=True, hint="ALBERT's speed over BERT's, both from table 2"),
        *(Column(name, is_number=True, hint="BERT's time over ALBERT's") for name in TIMES),
        Column("parameters", is_number=True, hint="BERT's over ALBERT's"),
        Column("arithmetic", is_number=True, hint="operations a token, BERT's over ALBERT's"),
    ]
    rows = []
    for each in measured:
        sizes = {family: each.rounds[0].footprints[family].num_parameters for family in FAMILIES}
        work = {family: count_operations(each.pair[family], length=length) for family in FAMILIES}
        rows.append(
            [
                text_cell(each.shape),
                number_cell(find_paper_ratio(each.shape)),
                *(interval_cell(each.find_ratio(time), suffix="×") for time in TIMES.values()),
                number_cell(sizes["BERT"] / sizes["ALBERT"]),
                number_cell(work["BERT"] / work["ALBERT"]),
            ]
        )
    note = "Above 1, ALBERT is faster or smaller. Medians of rounds; in brackets the least and the most."
    return Table("ratios", columns, rows, note=note)


def _draw_ratios(measured: Sequence[ShapeSpeed]) -> Chart:
    places = [float(place) for place in range(len(measured))]
    series = []
    for name in _DRAWN:
        ratios = [each.find_ratio(TIMES[name]) for each in measured]
        series.append(
            Series(
                name,
                xs=places,
                ys=[ratio.value for ratio in ratios],
                lows=[ratio.low for ratio in ratios],
                highs=[ratio.high for ratio in ratios],
            )
        )
    paper = {place: find_paper_ratio(each.shape) for place, each in zip(places, measured, strict=True)}
    known = {place: ratio for place, ratio in paper.items() if ratio is not None}
    if known:
        series.append(Series("paper, TPU pods", list(known), list(known.values()), is_reference=True))
    told = "; ".join(
        f"{each.shape}: " + ", ".join(f"{name} {each.find_ratio(TIMES[name]).value:.2f}" for name in _DRAWN)
        for each in measured
    )
    return Chart(
        name="speed-ratios",
        title="How many times as fast ALBERT is as BERT of the same shape",
        x_label="shape",
        y_label="BERT's time ÷ ALBERT's",
        series=series,
        kind="points",
        x_names=[each.shape for each in measured],
        levels=[Level(1.0, "as fast as BERT")],
        told=f"{told}.",
    )


def _tabulate_times(measured: Sequence[ShapeSpeed]) -> Table:
    columns = [
        Column("model"),
        Column("parameters", is_number=True, hint="with both pretraining heads"),
        *(Column(name, is_number=True) for name in TIMES),
        Column("pieces a second, training", is_number=True),
        Column("pieces a second, inference", is_number=True),
    ]
    rows = []
    for each in measured:
        for family in FAMILIES:
            first = each.rounds[0].footprints[family]
            seconds = {name: each.find_median(family, time) for name, time in TIMES.items()}
            rows.append(
                [
                    text_cell(f"{family} {each.shape}"),
                    count_cell(first.num_parameters),
                    *(seconds_cell(value) for value in seconds.values()),
                    number_cell(first.num_tokens / seconds["training step"]),
                    number_cell(first.num_tokens / seconds["inference"]),
                ]
            )
    return Table("times", columns, rows, note="Medians over rounds.")


def _tabulate_column(measured: Sequence[ShapeSpeed]) -> Table:
    """The paper's way: everything against one BERT, the large one where it is among them."""
    base = next((each for each in measured if each.shape == "large"), None) or find_largest(measured)
    columns = [
        Column("model"),
        Column("paper, BERT-large = 1", is_number=True, hint="table 2"),
        Column(f"here, BERT {base.shape} = 1", is_number=True, hint="training speed"),
    ]
    rows = []
    for each in measured:
        for family in FAMILIES:
            paper = PAPER_SPEEDS.get((family, each.shape))
            speed = base.find_median("BERT", read_step) / each.find_median(family, read_step)
            name = text_cell(f"{family} {each.shape}")
            rows.append([name, number_cell(paper), number_cell(speed)])
    return Table("column", columns, rows, note="Of nano and small the vocabulary is smaller, too.")


def _tell_rules(measured: Sequence[ShapeSpeed], settings: PairSettings, machine: str) -> list[str]:
    tokens = measured[0].rounds[0].footprints["ALBERT"].num_tokens if measured else 0
    rounds = max((len(each.rounds) for each in measured), default=0)
    spent = sum(
        each.find_median(family, read_step) * len(each.rounds) * (settings.num_steps + 1)
        for each in measured
        for family in FAMILIES
    )
    return [
        "Both sides differ in settings only: BERT shares nothing, its E is its H, and its GELU is the "
        "exact one; layers, width, heads and vocabulary are the same, and neither has dropout. A step is "
        f"that of `albert pretrain` with {settings.optimizer.upper()}: both losses, clipping, update; "
        f"{tokens:,} random pieces in sequences of {settings.length}, computed at once, in float32.",
        f"Each side runs in a fresh process, in turns, {rounds} times; of each process {settings.num_steps} "
        "steps are timed after one that is not, and their median counts. A ratio is of both sides of one "
        f"round. The steps took {format_time(spent)} in all. Other work on the machine makes all of it "
        "worthless.",
        f"{machine}.",
    ]
