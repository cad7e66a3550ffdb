"""The memory study: peak memory of a training step of ALBERT and of BERT of the same shape."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt

from albert.model.config import ModelConfig, build_preset, count_parameters
from albert.progress import Reporter
from albert.report.content import Cell, Chart, Column, Finding, Outcome, Page, Section, Series, Table
from albert.study.parameters import PAPER_SIZES
from albert.study.results import MISSING, build_table, format_bytes, number_cell, open_results, seconds_cell
from albert.study.step_costs import (
    FAMILIES,
    DoesNotFitError,
    Family,
    Footprint,
    PairSettings,
    describe_machine,
)

STUDY = "memory"
# Parts are stored by shape, checkpointing and batch size, which may be added later.
_FREE_KEYS = frozenset({"shapes", "batch_sizes", "checkpointing"})
_MIN_RATIO = 1.05  # smaller ratios are noise
_SOURCES = {
    "VmHWM": "the kernel's high-water mark of resident memory",
    "getrusage": "the peak of the process by getrusage, which misses what is below an earlier peak",
}
_EXPLANATION = (
    "Sharing reduces the memory of weights, gradients and moments, which does not depend on the batch size. "
    "It does not reduce activations, which grow with the batch size: each pass through the shared block has "
    "its own. Gradient checkpointing keeps only the inputs of layers and computes the rest again."
)


class MemorySettings(PairSettings):
    """Settings of the memory study.

    Args:
        batch_sizes: The numbers of sequences in a step.
        checkpointing: With or without gradient checkpointing, or both.
        max_gigabytes: The memory that a step may use; by default what is available.
    """

    batch_sizes: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (1, 2, 4, 8, 16)
    checkpointing: Annotated[tuple[bool, ...], Field(min_length=1)] = (False, True)
    max_gigabytes: PositiveFloat | None = None


@dataclass(frozen=True)
class MemoryPoint:
    """One measured step, or the reason why it did not fit."""

    footprint: Footprint | None
    failure: str | None = None


@dataclass(frozen=True)
class Case:
    """A family, with or without gradient checkpointing."""

    family: Family
    is_checkpointed: bool

    @property
    def name(self) -> str:
        return f"{self.family}, checkpointed" if self.is_checkpointed else self.family


@dataclass(frozen=True)
class ShapeMemory:
    """The measurements of one shape, by case and batch size."""

    shape: str
    points: Mapping[Case, Mapping[int, MemoryPoint]]

    def list_measured(self, case: Case) -> dict[int, Footprint]:
        points = self.points.get(case, {})
        return {size: point.footprint for size, point in points.items() if point.footprint is not None}

    def list_ratios(self, *, is_checkpointed: bool) -> dict[int, float]:
        """Compute BERT's peak divided by ALBERT's, for batch sizes where both fit."""
        albert, bert = (self.list_measured(Case(family, is_checkpointed)) for family in FAMILIES)
        return {size: bert[size].peak_bytes / albert[size].peak_bytes for size in albert if size in bert}

    @property
    def parameter_ratio(self) -> float | None:
        """BERT's parameters divided by ALBERT's, as counted in the measured models."""
        steps = [(case.family, step) for case in self.points for step in self.list_measured(case).values()]
        counts = {family: step.num_parameters for family, step in steps}
        return counts["BERT"] / counts["ALBERT"] if len(counts) == len(FAMILIES) else None


def run_memory(settings: MemorySettings, *, out: Path, reporter: Reporter) -> Page:
    """Measure the missing steps in `out`, each in a new process, and build the report.

    Batches larger than one that does not fit are skipped, unless an earlier start has measured them. The next
    start tries again what did not fit.
    """
    pairs = settings.build_pairs()
    machine = describe_machine(num_threads=settings.num_threads)
    cases = [Case(family, flag) for flag in dict.fromkeys(settings.checkpointing) for family in FAMILIES]
    steps = list(product(cases, sorted(set(settings.batch_sizes))))
    found: list[ShapeMemory] = []
    with open_results(out, study=STUDY, settings=settings, free_keys=_FREE_KEYS, machine=machine) as results:
        for shape, pair in pairs.items():
            points: dict[Case, dict[int, MemoryPoint]] = {case: {} for case in cases}
            for number, (case, size) in enumerate(steps):
                part = f"{shape}/{case.name}/{size}"
                if part not in results.parts and any(point.failure for point in points[case].values()):
                    continue
                progress = f"{case.name}, batches of {size}"
                reporter.show(f"{STUDY}, {shape}", progress, fraction=number / len(steps))
                measure = partial(_measure_point, pair[case.family], settings, case=case, batch_size=size)
                try:
                    points[case][size] = results.get_or_measure(part, MemoryPoint, measure)
                except DoesNotFitError as error:
                    points[case][size] = MemoryPoint(None, str(error))
                    reporter.say(f"{part}: does not fit ({error})")
            found.append(ShapeMemory(shape, points))
    return build_memory_page(found, settings=settings, machine=machine)


def _measure_point(
    config: ModelConfig, settings: MemorySettings, *, case: Case, batch_size: int
) -> MemoryPoint:
    limit = None if settings.max_gigabytes is None else round(1e9 * settings.max_gigabytes)
    options = {"gradient_checkpointing": case.is_checkpointed, "max_bytes": limit}
    return MemoryPoint(settings.measure(config, batch_size=batch_size, **options))


def build_memory_page(found: Sequence[ShapeMemory], *, settings: PairSettings, machine: str) -> Page:
    """Build the report: the claims of the paper, ratios, every step, and how they were measured."""
    failures = [
        f"{each.shape}, {case.name}, batches of {size} did not fit: {point.failure}. Run the command again "
        "to retry."
        for each in found
        for case, points in each.points.items()
        for size, point in points.items()
        if point.footprint is None
    ]
    steps = [step for each in found for case in each.points for step in each.list_measured(case).values()]
    sources = ", ".join(_SOURCES[source] for source in sorted({step.memory_source for step in steps}))
    method = [
        settings.describe_step(),
        "Each step runs in a new process. Its memory is the peak minus the memory before the model was built "
        f"({sources or '–'}). Times are medians of {settings.num_steps} steps after a warm-up step.",
        f"{machine}.",
    ]
    all_ratios = {each.shape: list(each.list_ratios(is_checkpointed=False).values()) for each in found}
    compared = [f"{shape} {max(each):.1f} to {min(each):.1f}" for shape, each in all_ratios.items() if each]
    lead = f"BERT's peak over ALBERT's: {'; '.join(compared) or 'not measured'}."
    findings = [_compare_parameters(), *(_compare_memory(each) for each in found)]
    tables = [table for table in (_tabulate_ratios(found),) if table.rows]
    charts = [_draw(each) for each in found if any(map(each.list_measured, each.points))]
    sections = [
        Section("Claims of the paper and measurements", [_EXPLANATION], findings, tables, charts),
        Section("Every step", failures, tables=[_tabulate_steps(found)]),
        Section("How it was measured", method),
    ]
    return Page("Memory of a training step: ALBERT against BERT of the same shape", lead, sections)


def _compare_parameters() -> Finding:
    names = ("albert-large", "bert-large")
    albert, bert = (count_parameters(build_preset(name)).backbone for name in names)
    paper_albert, paper_bert = (PAPER_SIZES[name] for name in names)
    return Finding(
        "ALBERT-large has 18 times fewer parameters than BERT-large.",
        f"{paper_albert}M against {paper_bert}M, {paper_bert / paper_albert:.1f}×.",
        f"{albert:,} against {bert:,}, {bert / albert:.1f}×, counted.",
        "agrees" if bert // albert == paper_bert // paper_albert else "disagrees",
    )


def _compare_memory(found: ShapeMemory) -> Finding:
    claim = f"Fewer parameters lower the memory of training ({found.shape})."
    theirs = "“Two parameter-reduction techniques to lower memory consumption” (abstract); no figure."
    ratios = found.list_ratios(is_checkpointed=False) or found.list_ratios(is_checkpointed=True)
    if not ratios:
        return Finding(claim, theirs, "No batch size was measured for both models.", "not tested")
    is_less = {ratio > _MIN_RATIO for ratio in ratios.values()}
    outcome: Outcome = "inconclusive" if len(is_less) > 1 else "agrees" if True in is_less else "disagrees"
    figures = ", ".join(f"{ratio:.2f} with batches of {size}" for size, ratio in ratios.items())
    return Finding(claim, theirs, f"BERT's peak over ALBERT's, one measurement each: {figures}.", outcome)


def _tabulate_ratios(found: Sequence[ShapeMemory]) -> Table:
    rows, hint = [], "BERT's over ALBERT's"
    for each in found:
        plain, checkpointed = (each.list_ratios(is_checkpointed=flag) for flag in (False, True))
        for size in sorted({*plain, *checkpointed}):
            row = {
                Column("shape"): Cell(each.shape),
                Column("batch", True, "sequences"): Cell.number(size),
                Column("parameters", True, hint): number_cell(each.parameter_ratio),
                Column("peak memory", True, hint): number_cell(plain.get(size)),
                Column("peak memory, both checkpointed", True, hint): number_cell(checkpointed.get(size)),
            }
            rows.append(row)
    return build_table("memory-ratios", rows, note="Above 1, ALBERT needs less memory.")


def _tabulate_steps(found: Sequence[ShapeMemory]) -> Table:
    figures = ("peak memory", "step", "forward and backward", "optimizer", "tokens per second")
    rows = []
    for each in found:
        for case, points in each.points.items():
            for size, point in points.items():
                cells = [Cell("does not fit"), *[MISSING] * 4]
                if (step := point.footprint) is not None:
                    times = (step.step_seconds, step.model_seconds, step.optimizer_seconds)
                    speed = number_cell(step.num_tokens / step.step_seconds)
                    peak = Cell(format_bytes(step.peak_bytes), float(step.peak_bytes))
                    cells = [peak, *map(seconds_cell, times), speed]
                row = {
                    Column("shape"): Cell(each.shape),
                    Column("family"): Cell(case.family),
                    Column("checkpointed"): Cell("yes" if case.is_checkpointed else "no"),
                    Column("batch", True): Cell.number(size),
                }
                row |= {Column(name, True): cell for name, cell in zip(figures, cells, strict=True)}
                rows.append(row)
    return build_table("memory-steps", rows)


def _draw(found: ShapeMemory) -> Chart:
    measured = {case.name: steps for case in found.points if (steps := found.list_measured(case))}
    series = [
        Series(name, list(steps), [step.peak_bytes / 1e9 for step in steps.values()])
        for name, steps in measured.items()
    ]
    texts = [f"{each.name} {each.ys[0]:.2f} to {each.ys[-1]:.2f}" for each in series]
    name, title = f"memory-{found.shape}", f"Peak memory of a training step, {found.shape}"
    caption = f"From the smallest to the largest batch, in GB: {'; '.join(texts)}."
    return Chart(name, title, "batch size (sequences)", "GB", series, caption=caption)
