"""The speed study (last column of Table 2): training and inference times of ALBERT and BERT of one shape."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Annotated

from pydantic import Field, PositiveInt

from albert.model.config import ModelConfig
from albert.progress import Reporter
from albert.report.content import Cell, Chart, Column, Finding, Level, Outcome, Page, Section, Series, Table
from albert.study.results import (
    build_table,
    format_bytes,
    interval_cell,
    number_cell,
    open_results,
    seconds_cell,
)
from albert.study.step_costs import (
    FAMILIES,
    DoesNotFitError,
    Family,
    Footprint,
    PairSettings,
    Shape,
    count_operations,
    describe_machine,
)
from albert.tasks.metrics.intervals import Interval

STUDY = "speed"
# Rounds and shapes may be added; the last three are keys of earlier versions.
_FREE_KEYS = frozenset({"shapes", "num_rounds", "links_gbit", "latency_seconds", "num_processes"})
STEP, MODEL, OPTIMIZER, INFERENCE = "training step", "forward and backward", "optimizer", "inference"
TIMES = {
    STEP: "step_seconds", MODEL: "model_seconds", OPTIMIZER: "optimizer_seconds",
    INFERENCE: "inference_seconds",
}  # fmt: skip
# Training speeds of Table 2, relative to BERT-large.
PAPER_SPEEDS: dict[Family, dict[str, float]] = {
    "BERT": {"base": 4.7, "large": 1.0},
    "ALBERT": {"base": 5.6, "large": 1.7, "xlarge": 0.6, "xxlarge": 0.3},
}
PAPER_RATIOS = {shape: PAPER_SPEEDS["ALBERT"][shape] / speed for shape, speed in PAPER_SPEEDS["BERT"].items()}
_EXPLANATION = (
    "Sharing parameters does not reduce computation, because every layer is computed. A single process is "
    "faster only because the word embeddings of the masked-token prediction are narrower and fewer weights "
    "are updated. The paper's speeds are those of many TPU chips, which exchange all gradients in every step."
)
_MIN_RATIO = 1.05  # smaller ratios are noise, or differences of kernels
_MIN_ROUNDS = 3  # for a finding


class SpeedSettings(PairSettings):
    """Settings of the speed study: training steps and forward passes, in rounds of new processes.

    Args:
        batch_size: The number of sequences in a step.
        num_rounds: The number of rounds; each measures both models.
        num_passes: The number of timed forward passes in a round.
    """

    shapes: Annotated[tuple[Shape, ...], Field(min_length=1)] = ("nano", "small", "base")
    batch_size: PositiveInt = 8
    num_rounds: PositiveInt = 5
    num_passes: PositiveInt = 3


@dataclass(frozen=True)
class SpeedRound:
    """Measurements of both models, one after the other."""

    footprints: dict[Family, Footprint]


@dataclass(frozen=True)
class ShapeSpeed:
    """The rounds of one shape, and why there are no more."""

    shape: str
    pair: dict[Family, ModelConfig]
    rounds: tuple[SpeedRound, ...]
    failure: str | None = None

    def list_seconds(self, family: Family, name: str) -> list[float]:
        return [getattr(each.footprints[family], TIMES[name]) for each in self.rounds]

    def find_median(self, family: Family, name: str) -> float:
        return median(self.list_seconds(family, name))

    def find_ratio(self, name: str) -> Interval:
        """Compute the median, minimum and maximum over rounds of BERT's time divided by ALBERT's."""
        albert, bert = (self.list_seconds(family, name) for family in FAMILIES)
        ratios = [theirs / ours for ours, theirs in zip(albert, bert, strict=True)]
        return Interval(median(ratios), min(ratios), max(ratios), level=1.0)

    def describe_ratio(self, name: str) -> str:
        ratio = self.find_ratio(name)
        return f"{ratio.value:.2f}× ({ratio.low:.2f}–{ratio.high:.2f} in {len(self.rounds)} rounds)"

    def count_parameters(self, family: Family) -> int:
        return self.rounds[0].footprints[family].num_parameters

    @property
    def parameter_ratio(self) -> float:
        return self.count_parameters("BERT") / self.count_parameters("ALBERT")


def run_speed(settings: SpeedSettings, *, out: Path, reporter: Reporter) -> Page:
    """Measure the missing rounds in `out` and build the report.

    A shape that does not fit into memory is skipped; the next start tries it again.
    """
    pairs = settings.build_pairs()
    machine = describe_machine(num_threads=settings.num_threads)
    found: list[ShapeSpeed] = []
    with open_results(out, study=STUDY, settings=settings, free_keys=_FREE_KEYS, machine=machine) as results:
        for shape, pair in pairs.items():
            rounds, failure = [], None
            for number in range(settings.num_rounds):
                progress = f"round {number + 1} of {settings.num_rounds}, ALBERT and BERT"
                reporter.show(f"{STUDY}, {shape}", progress, fraction=number / settings.num_rounds)
                part = f"{shape}/round-{number + 1}"
                measure = partial(measure_round, pair, settings=settings, number=number)
                try:
                    rounds.append(results.get_or_measure(part, SpeedRound, measure))
                except DoesNotFitError as error:
                    failure = str(error)
                    reporter.say(f"{part}: {failure}")
                    break
            found.append(ShapeSpeed(shape, pair, tuple(rounds), failure))
    return build_speed_page(found, settings=settings, machine=machine)


def measure_round(pair: Mapping[Family, ModelConfig], *, settings: SpeedSettings, number: int) -> SpeedRound:
    """Measure both models in new processes; the order alternates between rounds."""
    footprints: dict[Family, Footprint] = {}
    sizes = {"batch_size": settings.batch_size, "num_passes": settings.num_passes}
    try:
        for family in FAMILIES if number % 2 == 0 else FAMILIES[::-1]:
            footprints[family] = settings.measure(pair[family], **sizes)
    except DoesNotFitError as error:
        raise DoesNotFitError(f"{family} does not fit: {error}") from error
    return SpeedRound(footprints)


def build_speed_page(found: Sequence[ShapeSpeed], *, settings: PairSettings, machine: str) -> Page:
    """Build the report: the claims of the paper, ratios, times, and how they were measured."""
    measured = [each for each in found if each.rounds]
    ratios = ", ".join(f"{each.shape} {each.find_ratio(STEP).value:.2f}×" for each in measured)
    failures = [
        f"{each.shape}: stopped after {len(each.rounds)} rounds. {each.failure}. Run it again to retry."
        for each in found
        if each.failure is not None
    ]
    method = [
        settings.describe_step(),
        f"In each round, each model runs in a new process, in alternating order. Times are medians of "
        f"{settings.num_steps} steps after a warm-up step; ratios compare the two models of a round. Other "
        "processes must not use the machine meanwhile.",
        f"{machine}.",
    ]
    tables = [_tabulate_ratios(measured, length=settings.length)] if measured else []
    charts = [_draw_ratios(measured)] if measured else []
    times = [_tabulate_times(measured), _tabulate_column(measured)] if measured else []
    paragraphs, findings = [_EXPLANATION, *failures], _list_findings(measured)
    sections = [
        Section("Claims of the paper and measurements", paragraphs, findings, tables, charts),
        Section("Times", tables=times),
        Section("How it was measured", method),
    ]
    lead = (
        "The last column of Table 2, measured with one process on one machine. Speed of a training step of "
        f"ALBERT relative to BERT: {ratios or 'not measured'}."
    )
    return Page("Training speed: ALBERT against BERT of the same shape", lead, sections)


def _find_largest(measured: Sequence[ShapeSpeed]) -> ShapeSpeed:
    return max(measured, key=lambda each: each.count_parameters("BERT"))


def _list_findings(measured: Sequence[ShapeSpeed]) -> list[Finding]:
    """Evaluate the claims of the paper: faster at base and large, less computation and communication."""
    findings = []
    for shape, paper in PAPER_RATIOS.items():
        albert, bert = (PAPER_SPEEDS[family][shape] for family in FAMILIES)
        theirs = f"{paper:.2f}×, {albert:g} over {bert:g} of Table 2, on TPU pods."
        own = [each for each in measured if each.shape == shape]
        ours = f"{shape} was not measured; add it to shapes."
        if own:
            ours = f"{own[0].describe_ratio(STEP)} with one process on a CPU."
        claim = f"ALBERT-{shape} trains faster than BERT-{shape}."
        findings.append(Finding(claim, theirs, ours, _decide(own, STEP, limit=1.0)))
    work = traffic = "Nothing was measured."
    less_traffic: Outcome = "not tested"
    if measured:
        ratios = "; ".join(f"{each.shape} {each.describe_ratio(MODEL)}" for each in measured)
        work = f"Forward and backward, BERT's time over ALBERT's: {ratios}. Below {_MIN_RATIO} is equal."
        largest = _find_largest(measured)
        sizes = [format_bytes(4 * largest.count_parameters(family)) for family in FAMILIES]
        traffic = f"{largest.shape}: {sizes[0]} of gradients per step instead of {sizes[1]}, counted."
        less_traffic = "agrees" if largest.parameter_ratio > _MIN_RATIO else "disagrees"
    reason = "“Because of less communication and fewer computations” (section 4.3)."
    less_work = _decide(measured, MODEL, limit=_MIN_RATIO)
    return [
        *findings,
        Finding("ALBERT computes less than BERT of the same shape.", reason, work, less_work),
        Finding("ALBERT exchanges fewer bytes in data-parallel training.", reason, traffic, less_traffic),
    ]


def _decide(measured: Sequence[ShapeSpeed], name: str, *, limit: float) -> Outcome:
    """Agree if all rounds of all shapes are above the limit, disagree if all are below."""
    if not measured:
        return "not tested"
    if any(len(each.rounds) < _MIN_ROUNDS for each in measured):
        return "inconclusive"
    ratios = [each.find_ratio(name) for each in measured]
    if all(ratio.low > limit for ratio in ratios):
        return "agrees"
    return "disagrees" if all(ratio.high < limit for ratio in ratios) else "inconclusive"


def _tabulate_ratios(measured: Sequence[ShapeSpeed], *, length: int) -> Table:
    rows = []
    for each in measured:
        albert, bert = (count_operations(each.pair[family], length=length) for family in FAMILIES)
        paper = number_cell(PAPER_RATIOS.get(each.shape))
        row = {Column("shape"): Cell(each.shape), Column("paper", True, "ALBERT's speed over BERT's"): paper}
        for name in TIMES:
            ratio = interval_cell(each.find_ratio(name), suffix="×")
            row[Column(name, True, "BERT's time over ALBERT's")] = ratio
        row[Column("parameters", True, "BERT's over ALBERT's")] = number_cell(each.parameter_ratio)
        operations = Column("arithmetic", True, "operations per token, BERT's over ALBERT's")
        rows.append({**row, operations: number_cell(bert / albert)})
    note = "Above 1, ALBERT is faster or smaller. Medians over rounds, with minimum and maximum in brackets."
    return build_table("ratios", rows, note=note)


def _draw_ratios(measured: Sequence[ShapeSpeed]) -> Chart:
    # Without the optimizer, whose ratio has another scale.
    series = []
    for name in (STEP, MODEL, INFERENCE):
        ratios = [each.find_ratio(name) for each in measured]
        ys, lows, highs = ([getattr(ratio, end) for ratio in ratios] for end in ("value", "low", "high"))
        series.append(Series(name, range(len(measured)), ys, lows, highs))
    texts = [f"{each.name}: {', '.join(f'{y:.2f}' for y in each.ys)}" for each in series]
    paper = {x: PAPER_RATIOS[each.shape] for x, each in enumerate(measured) if each.shape in PAPER_RATIOS}
    if paper:
        series.append(Series("paper, TPU pods", list(paper), list(paper.values()), is_reference=True))
    title, y_label = "Speed of ALBERT relative to BERT of the same shape", "BERT's time ÷ ALBERT's"
    shapes, levels = [each.shape for each in measured], [Level(1.0, "as fast as BERT")]
    caption = f"For {', '.join(shapes)}: {'; '.join(texts)}."
    return Chart("speed-ratios", title, "shape", y_label, series, "points", shapes, levels, caption=caption)


def _tabulate_times(measured: Sequence[ShapeSpeed]) -> Table:
    rows = []
    for each in measured:
        for family in FAMILIES:
            num_tokens = each.rounds[0].footprints[family].num_tokens
            seconds = {name: each.find_median(family, name) for name in TIMES}
            size = Cell.number(each.count_parameters(family))
            row = {Column("model"): Cell(f"{family} {each.shape}"), Column("parameters", True): size}
            row |= {Column(name, True): seconds_cell(value) for name, value in seconds.items()}
            for title, name in (("training", STEP), ("inference", INFERENCE)):
                row[Column(f"tokens per second, {title}", True)] = number_cell(num_tokens / seconds[name])
            rows.append(row)
    return build_table("times", rows, note="Medians over rounds; parameters with both pretraining heads.")


def _tabulate_column(measured: Sequence[ShapeSpeed]) -> Table:
    """Build the column as in the paper: relative to one BERT, the large one if it was measured."""
    base = next((each for each in measured if each.shape == "large"), None) or _find_largest(measured)
    ours = Column(f"here, BERT {base.shape} = 1", True, "training speed")
    rows, seconds = [], base.find_median("BERT", STEP)
    for each, family in product(measured, FAMILIES):
        paper = number_cell(PAPER_SPEEDS[family].get(each.shape))
        row = {Column("model"): Cell(f"{family} {each.shape}"), Column("paper, BERT-large = 1", True): paper}
        rows.append({**row, ours: number_cell(seconds / each.find_median(family, STEP))})
    return build_table("column", rows, note="nano and small also have a smaller vocabulary.")
