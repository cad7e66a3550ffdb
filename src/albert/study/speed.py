"""The speed study (last column of Table 2): times of ALBERT against BERT of the same shape, as a report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Annotated

from pydantic import Field, PositiveInt

from albert.model.config import ModelConfig
from albert.progress import Reporter
from albert.report.content import Cell, Chart, Column, Finding, Level, Page, Section, Series, Table, Verdict
from albert.study.cells import (
    format_bytes,
    interval_cell,
    number_cell,
    seconds_cell,
)
from albert.study.results import StudyResults, open_results
from albert.study.step_costs import (
    FAMILIES,
    DoesNotFitError,
    Family,
    Footprint,
    PairSettings,
    Shape,
    count_operations,
    describe_machine,
    measure_footprint,
)
from albert.tasks.metrics.intervals import Interval

STUDY = "speed"
# Rounds and shapes may be added. Older versions also wrote the last three, which no measurement depends on.
_FREE_KEYS = frozenset({"shapes", "num_rounds", "links_gbit", "latency_seconds", "num_processes"})
STEP, MODEL, OPTIMIZER, INFERENCE = "training step", "forward and backward", "optimizer", "inference"
TIMES: dict[str, Callable[[Footprint], float]] = {
    STEP: attrgetter("step_seconds"),
    MODEL: attrgetter("model_seconds"),
    OPTIMIZER: attrgetter("optimizer_seconds"),
    INFERENCE: attrgetter("inference_seconds"),
}
# Training speeds of Table 2, relative to BERT-large.
PAPER_SPEEDS: dict[tuple[Family, str], float] = {
    ("BERT", "base"): 4.7,
    ("BERT", "large"): 1.0,
    ("ALBERT", "base"): 5.6,
    ("ALBERT", "large"): 1.7,
    ("ALBERT", "xlarge"): 0.6,
    ("ALBERT", "xxlarge"): 0.3,
}
PAPER_RATIOS = {
    shape: PAPER_SPEEDS["ALBERT", shape] / PAPER_SPEEDS["BERT", shape] for shape in ("base", "large")
}
_NOTICEABLE = 1.05  # smaller ratios are noise, or a matter of kernels
_MIN_ROUNDS = 3  # the range of fewer rounds says little about a further round


class SpeedSettings(PairSettings):
    """Training steps of `batch_size` sequences and forward passes, in rounds of fresh processes."""

    shapes: Annotated[tuple[Shape, ...], Field(min_length=1)] = ("nano", "small", "base")
    batch_size: PositiveInt = 8
    num_rounds: PositiveInt = 5
    num_passes: PositiveInt = 3


@dataclass(frozen=True)
class SpeedRound:
    """Measurements of both models, one right after the other; or the reason why there are none."""

    footprints: dict[Family, Footprint]
    failure: str | None = None


@dataclass(frozen=True)
class ShapeSpeed:
    """The rounds of one shape, and the reason why there are no more of them."""

    shape: str
    pair: dict[Family, ModelConfig]
    rounds: tuple[SpeedRound, ...]
    failure: str | None = None

    def find_median(self, family: Family, name: str) -> float:
        """Return the median over rounds of one of `TIMES`."""
        return median(TIMES[name](each.footprints[family]) for each in self.rounds)

    def find_ratio(self, name: str) -> Interval:
        """Return BERT's time divided by ALBERT's in the same round: median, minimum and maximum."""
        time = TIMES[name]
        ratios = [time(each.footprints["BERT"]) / time(each.footprints["ALBERT"]) for each in self.rounds]
        return Interval(median(ratios), min(ratios), max(ratios), level=1.0)

    def count_parameters(self, family: Family) -> int:
        """Return the parameters of a model with both pretraining heads."""
        return self.rounds[0].footprints[family].num_parameters

    @property
    def parameter_ratio(self) -> float:
        """BERT's parameters divided by ALBERT's."""
        return self.count_parameters("BERT") / self.count_parameters("ALBERT")


def run_speed(settings: SpeedSettings, *, out: Path, reporter: Reporter) -> Page:
    """Measure the rounds that are missing in `out` and build the report."""
    pairs = settings.build_pairs()
    machine = describe_machine(num_threads=settings.num_threads)
    with open_results(out, study=STUDY, settings=settings, free_keys=_FREE_KEYS, machine=machine) as results:
        found = [
            _measure_shape(shape, pair, settings=settings, results=results, reporter=reporter)
            for shape, pair in pairs.items()
        ]
    return build_speed_page(found, settings=settings, machine=machine)


def _measure_shape(
    shape: str,
    pair: dict[Family, ModelConfig],
    *,
    settings: SpeedSettings,
    results: StudyResults,
    reporter: Reporter,
) -> ShapeSpeed:
    """Measure all rounds of a shape, up to one that does not fit; the next start tries that one again."""
    rounds: list[SpeedRound] = []
    for number in range(settings.num_rounds):
        text = f"round {number + 1} of {settings.num_rounds}, ALBERT and BERT"
        reporter.show(f"{STUDY}, {shape}", text, fraction=number / settings.num_rounds)
        part = f"{shape}/round-{number + 1}"
        measure = partial(measure_round, pair, settings=settings, number=number)
        found = results.take(
            part, SpeedRound, measure=measure, has_failed=lambda each: each.failure is not None
        )
        if found.failure is not None:
            reporter.say(f"{part}: {found.failure}")
            return ShapeSpeed(shape, pair, tuple(rounds), found.failure)
        rounds.append(found)
    reporter.show(f"{STUDY}, {shape}", f"{len(rounds)} rounds", fraction=1.0)
    return ShapeSpeed(shape, pair, tuple(rounds))


def measure_round(pair: dict[Family, ModelConfig], *, settings: SpeedSettings, number: int) -> SpeedRound:
    """Measure both models in fresh processes; the order alternates, because a machine warms up."""
    footprints: dict[Family, Footprint] = {}
    order = FAMILIES if number % 2 == 0 else FAMILIES[::-1]
    try:
        for family in order:
            footprints[family] = measure_footprint(
                pair[family],
                batch_size=settings.batch_size,
                length=settings.length,
                optimizer=settings.optimizer,
                num_steps=settings.num_steps,
                num_passes=settings.num_passes,
                num_threads=settings.num_threads,
            )
    except DoesNotFitError as error:
        return SpeedRound({}, f"{order[len(footprints)]} does not fit: {error}")
    return SpeedRound(footprints)


def build_speed_page(found: Sequence[ShapeSpeed], *, settings: PairSettings, machine: str) -> Page:
    """Build the report: the claims of the paper, ratios, times, and how they were measured."""
    measured = [each for each in found if each.rounds]
    ratios = ", ".join(f"{each.shape} {each.find_ratio(STEP).value:.2f}×" for each in measured)
    return Page(
        title="Training speed: ALBERT against BERT of the same shape",
        lead=(
            "The last column of Table 2, measured by one process on one machine. Speed of a training step of "
            f"ALBERT relative to BERT: {ratios or 'nothing could be measured'}."
        ),
        sections=[
            Section(
                title="Claims of the paper and measurements",
                paragraphs=[*(_explain(_find_largest(measured)) if measured else ()), *_list_failures(found)],
                findings=_list_findings(measured),
                tables=[_tabulate_ratios(measured, length=settings.length)],
                charts=[_draw_ratios(measured)] if measured else [],
            ),
            *(
                [Section("Times", tables=[_tabulate_times(measured), _tabulate_column(measured)])]
                if measured
                else []
            ),
            Section(title="How it was measured", paragraphs=_describe_method(measured, settings, machine)),
        ],
    )


def _find_largest(measured: Sequence[ShapeSpeed]) -> ShapeSpeed:
    return max(measured, key=lambda each: each.count_parameters("BERT"))


def _explain(largest: ShapeSpeed) -> list[str]:
    """Explain why a single process gains little, with the figures of the largest shape."""
    sizes = [f"{largest.count_parameters(family) / 1e6:.1f}M" for family in FAMILIES]
    shares = [
        f"{largest.find_median(each, OPTIMIZER) / largest.find_median(each, STEP):.1%}" for each in FAMILIES
    ]
    return [
        "Sharing parameters saves no arithmetic: every layer is computed. A single process gains in two "
        "ways. The masked-token prediction is less work, because word embeddings are narrower. And the "
        f"optimizer updates fewer weights: at {largest.shape} {sizes[0]} instead of {sizes[1]}, {shares[0]} "
        f"of a step instead of {shares[1]}. The paper's speeds are those of many TPU chips that exchange "
        "all gradients in every step; the times measured here include no exchange.",
    ]


def _list_failures(found: Sequence[ShapeSpeed]) -> list[str]:
    return [
        f"{each.shape}: stopped after {len(each.rounds)} rounds. {each.failure}. Run the command again to "
        "retry."
        for each in found
        if each.failure is not None
    ]


def _list_findings(measured: Sequence[ShapeSpeed]) -> list[Finding]:
    """Compare with the paper: faster at base and large, fewer computations, less communication."""
    findings = []
    for shape, paper in PAPER_RATIOS.items():
        claim = f"ALBERT-{shape} trains faster than BERT-{shape}."
        speeds = [PAPER_SPEEDS[family, shape] for family in FAMILIES]
        theirs = f"{paper:.2f}×, {speeds[0]:g} over {speeds[1]:g} of Table 2, on TPU pods."
        found = next((each for each in measured if each.shape == shape), None)
        if found is None:
            findings.append(
                Finding(claim, theirs, f"{shape} was not measured; add it to shapes.", "not asked")
            )
            continue
        ours = f"{_describe_ratio(found, STEP)} with one process on a CPU."
        findings.append(Finding(claim, theirs, ours, _judge([found], STEP, limit=1.0)))
    less_work = "ALBERT computes less than BERT of the same shape."
    less_traffic = "ALBERT exchanges fewer bytes in data-parallel training."
    reason = "“Because of less communication and fewer computations” (section 4.3)."
    if not measured:
        missing = "Nothing was measured."
        return [
            *findings,
            *(Finding(claim, reason, missing, "not asked") for claim in (less_work, less_traffic)),
        ]
    ratios = "; ".join(f"{each.shape} {_describe_ratio(each, MODEL)}" for each in measured)
    ours = (
        f"Forward and backward, BERT's time over ALBERT's: {ratios}. Below {_NOTICEABLE} they count as equal."
    )
    findings.append(Finding(less_work, reason, ours, _judge(measured, MODEL, limit=_NOTICEABLE)))
    largest = _find_largest(measured)
    albert, bert = (format_bytes(4 * largest.count_parameters(family)) for family in FAMILIES)
    ours = f"{largest.shape}: {albert} of gradients per step instead of {bert}, counted; no network was used."
    verdict: Verdict = "agrees" if largest.parameter_ratio > _NOTICEABLE else "disagrees"
    return [*findings, Finding(less_traffic, reason, ours, verdict)]


def _judge(measured: Sequence[ShapeSpeed], name: str, *, limit: float) -> Verdict:
    """Agree if every round of every shape is above the limit, disagree if every one is below."""
    if any(len(each.rounds) < _MIN_ROUNDS for each in measured):
        return "cannot tell"
    ratios = [each.find_ratio(name) for each in measured]
    if all(ratio.low > limit for ratio in ratios):
        return "agrees"
    return "disagrees" if all(ratio.high < limit for ratio in ratios) else "cannot tell"


def _describe_ratio(found: ShapeSpeed, name: str) -> str:
    ratio = found.find_ratio(name)
    return f"{ratio.value:.2f}× ({ratio.low:.2f}–{ratio.high:.2f} in {len(found.rounds)} rounds)"


def _tabulate_ratios(measured: Sequence[ShapeSpeed], *, length: int) -> Table:
    columns = [
        Column("shape"),
        Column("paper", is_number=True, hint="ALBERT's speed over BERT's, both from Table 2"),
        *(Column(name, is_number=True, hint="BERT's time over ALBERT's") for name in TIMES),
        Column("parameters", is_number=True, hint="BERT's over ALBERT's"),
        Column("arithmetic", is_number=True, hint="operations per token, BERT's over ALBERT's"),
    ]
    rows = []
    for each in measured:
        albert, bert = (count_operations(each.pair[family], length=length) for family in FAMILIES)
        rows.append(
            [
                Cell(each.shape),
                number_cell(PAPER_RATIOS.get(each.shape)),
                *(interval_cell(each.find_ratio(name), suffix="×") for name in TIMES),
                number_cell(each.parameter_ratio),
                number_cell(bert / albert),
            ]
        )
    note = "Above 1, ALBERT is faster or smaller. Medians over rounds, with minimum and maximum in brackets."
    return Table("ratios", columns, rows, note=note)


def _draw_ratios(measured: Sequence[ShapeSpeed]) -> Chart:
    # Without the optimizer, whose ratio is that of the parameters: it needs another scale.
    names = (STEP, MODEL, INFERENCE)
    xs = [float(x) for x in range(len(measured))]
    series = []
    for name in names:
        ratios = [each.find_ratio(name) for each in measured]
        lows, highs = [ratio.low for ratio in ratios], [ratio.high for ratio in ratios]
        series.append(Series(name, xs=xs, ys=[ratio.value for ratio in ratios], lows=lows, highs=highs))
    paper = {
        x: PAPER_RATIOS[each.shape]
        for x, each in zip(xs, measured, strict=True)
        if each.shape in PAPER_RATIOS
    }
    if paper:
        series.append(Series("paper, TPU pods", list(paper), list(paper.values()), is_reference=True))
    text = "; ".join(
        f"{each.shape}: " + ", ".join(f"{name} {each.find_ratio(name).value:.2f}" for name in names)
        for each in measured
    )
    return Chart(
        name="speed-ratios",
        title="Speed of ALBERT relative to BERT of the same shape",
        x_label="shape",
        y_label="BERT's time ÷ ALBERT's",
        series=series,
        kind="points",
        x_names=[each.shape for each in measured],
        levels=[Level(1.0, "as fast as BERT")],
        told=f"{text}.",
    )


def _tabulate_times(measured: Sequence[ShapeSpeed]) -> Table:
    columns = [
        Column("model"),
        Column("parameters", is_number=True, hint="with both pretraining heads"),
        *(Column(name, is_number=True) for name in TIMES),
        Column("tokens per second, training", is_number=True),
        Column("tokens per second, inference", is_number=True),
    ]
    rows = []
    for each in measured:
        for family in FAMILIES:
            num_tokens = each.rounds[0].footprints[family].num_tokens
            seconds = {name: each.find_median(family, name) for name in TIMES}
            rows.append(
                [
                    Cell(f"{family} {each.shape}"),
                    Cell.number(each.count_parameters(family)),
                    *(seconds_cell(value) for value in seconds.values()),
                    number_cell(num_tokens / seconds[STEP]),
                    number_cell(num_tokens / seconds[INFERENCE]),
                ]
            )
    return Table("times", columns, rows, note="Medians over rounds.")


def _tabulate_column(measured: Sequence[ShapeSpeed]) -> Table:
    """Build the column as the paper has it: relative to one BERT, the large one if it was measured."""
    base = next((each for each in measured if each.shape == "large"), None) or _find_largest(measured)
    columns = [
        Column("model"),
        Column("paper, BERT-large = 1", is_number=True, hint="Table 2"),
        Column(f"here, BERT {base.shape} = 1", is_number=True, hint="training speed"),
    ]
    rows = []
    for each in measured:
        for family in FAMILIES:
            speed = base.find_median("BERT", STEP) / each.find_median(family, STEP)
            paper = PAPER_SPEEDS.get((family, each.shape))
            rows.append([Cell(f"{family} {each.shape}"), number_cell(paper), number_cell(speed)])
    return Table("column", columns, rows, note="nano and small also have a smaller vocabulary.")


def _describe_method(measured: Sequence[ShapeSpeed], settings: PairSettings, machine: str) -> list[str]:
    num_rounds = max((len(each.rounds) for each in measured), default=0)
    return [
        settings.describe_step(),
        f"Each model runs in a fresh process, alternately, {num_rounds} times. A process times "
        f"{settings.num_steps} steps after a warm-up step, and their median counts. A ratio compares the "
        "two models of one round. Other work on the machine invalidates the measurement.",
        f"{machine}.",
    ]
