"""The memory study: peak memory of a training step of ALBERT against BERT of the same shape, as a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt

from albert.model.config import ModelConfig
from albert.progress import Reporter
from albert.report.content import Cell, Chart, Column, Finding, Page, Section, Series, Table, Verdict
from albert.study.parameters import PAPER_SIZES, list_sizes
from albert.study.results import (
    MISSING,
    StudyResults,
    build_table,
    number_cell,
    open_results,
    seconds_cell,
    size_cell,
)
from albert.study.step_costs import (
    FAMILIES,
    DoesNotFitError,
    Family,
    Footprint,
    PairSettings,
    describe_machine,
)

STUDY = "memory"
# Parts are stored by shape, checkpointing and batch size: more of them may be requested later.
_FREE_KEYS = frozenset({"shapes", "batch_sizes", "checkpointing"})
_NOTICEABLE = 1.05
_SOURCES = {
    "VmHWM": "the kernel's high-water mark of resident memory",
    "getrusage": "the whole process's peak by getrusage, which misses what stays below an earlier one",
}
_EXPLANATION = (
    "The memory of a step has two parts. Weights, gradients and moments do not depend on the batch, and "
    "sharing reduces them. Activations grow with the batch, and sharing does not reduce them: every pass "
    "through the shared block has its own. Gradient checkpointing keeps only the inputs of the layers and "
    "computes the rest again. With many weights and a small batch, the peak is that of the optimizer's "
    "step, after the activations are freed; there one more sequence seems to cost less than it does."
)


class MemorySettings(PairSettings):
    """Training steps of each of the `batch_sizes`, with and without gradient checkpointing.

    No step may use more than `max_gigabytes`; the default is the available memory.
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
    """All measurements of one shape, by case and batch size."""

    shape: str
    points: Mapping[Case, Mapping[int, MemoryPoint]]

    def list_measured(self, case: Case) -> dict[int, Footprint]:
        """Return the steps that fit, by batch size."""
        points = self.points.get(case, {})
        return {size: point.footprint for size, point in points.items() if point.footprint is not None}

    def list_ratios(self, *, is_checkpointed: bool) -> dict[int, float]:
        """Return BERT's peak divided by ALBERT's, by batch size where both fit."""
        albert, bert = (self.list_measured(Case(family, is_checkpointed)) for family in FAMILIES)
        return {size: bert[size].peak_bytes / albert[size].peak_bytes for size in albert if size in bert}

    @property
    def parameter_ratio(self) -> float | None:
        """BERT's parameters divided by ALBERT's, as counted in the measured models."""
        counts = {
            case.family: step.num_parameters
            for case in self.points
            for step in self.list_measured(case).values()
        }
        return counts["BERT"] / counts["ALBERT"] if len(counts) == len(FAMILIES) else None


def run_memory(settings: MemorySettings, *, out: Path, reporter: Reporter) -> Page:
    """Measure the steps that are missing in `out`, each in a fresh process, and build the report."""
    pairs = settings.build_pairs()
    machine = describe_machine(num_threads=settings.num_threads)
    with open_results(out, study=STUDY, settings=settings, free_keys=_FREE_KEYS, machine=machine) as results:
        found = [_measure_shape(*item, settings, results, reporter) for item in pairs.items()]
    return build_memory_page(found, settings=settings, machine=machine)


def _measure_shape(
    shape: str,
    pair: dict[Family, ModelConfig],
    settings: MemorySettings,
    results: StudyResults,
    reporter: Reporter,
) -> ShapeMemory:
    """Measure all cases and batch sizes; batches larger than one that does not fit are not tried.

    Larger batches of an earlier start are reported all the same. The next start tries what did not fit again.
    """
    cases = [Case(family, way) for way in dict.fromkeys(settings.checkpointing) for family in pair]
    sizes = sorted(set(settings.batch_sizes))
    points: dict[Case, dict[int, MemoryPoint]] = {case: {} for case in cases}
    for number, case in enumerate(cases):
        is_full = False
        for index, batch_size in enumerate(sizes):
            part = f"{shape}/{case.name}/{batch_size}"
            if is_full and part not in results.parts:
                continue
            fraction = (number + index / len(sizes)) / len(cases)
            reporter.show(f"{STUDY}, {shape}", f"{case.name}, batches of {batch_size}", fraction=fraction)
            measure = partial(_measure_point, pair[case.family], settings, case=case, batch_size=batch_size)
            try:
                points[case][batch_size] = results.get_or_measure(part, MemoryPoint, measure)
            except DoesNotFitError as error:
                points[case][batch_size] = MemoryPoint(None, str(error))
                reporter.say(f"{part}: does not fit: {error}")
                is_full = True
    reporter.show(f"{STUDY}, {shape}", f"{len(cases)} models", fraction=1.0)
    return ShapeMemory(shape, points)


def _measure_point(
    config: ModelConfig, settings: MemorySettings, *, case: Case, batch_size: int
) -> MemoryPoint:
    limit = None if settings.max_gigabytes is None else round(1e9 * settings.max_gigabytes)
    is_checkpointed = case.is_checkpointed
    return MemoryPoint(
        settings.measure(
            config, batch_size=batch_size, gradient_checkpointing=is_checkpointed, max_bytes=limit
        )
    )


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
        "Every step runs in a fresh process. Its memory is the peak above what the process held before the "
        f"model was built ({sources or 'nothing measured'}). The times are medians of {settings.num_steps} "
        "steps after a warm-up step, which allocates the optimizer's moments.",
        f"{machine}.",
    ]
    all_ratios = {each.shape: list(each.list_ratios(is_checkpointed=False).values()) for each in found}
    compared = [f"{shape} {max(each):.1f} to {min(each):.1f}" for shape, each in all_ratios.items() if each]
    return Page(
        "Memory of a training step: ALBERT against BERT of the same shape",
        "How much memory ALBERT's fewer parameters save in training. BERT's peak over ALBERT's: "
        f"{'; '.join(compared) or 'nothing could be compared'}.",
        [
            Section(
                "Claims of the paper and measurements",
                paragraphs=[_EXPLANATION],
                findings=[_judge_parameters(), *(_judge_memory(each) for each in found)],
                tables=[table for table in (_tabulate_ratios(found),) if table.rows],
                charts=[_draw(each) for each in found if any(map(each.list_measured, each.points))],
            ),
            Section("Every step", paragraphs=failures, tables=[_tabulate_steps(found)]),
            Section("How it was measured", paragraphs=method),
        ],
    )


def _judge_parameters() -> Finding:
    """Compare the parameter counts of the paper's own shapes, which needs no measurement."""
    albert, bert = (
        next(row.backbone for row in list_sizes() if row.name == name)
        for name in ("albert-large", "bert-large")
    )
    paper = PAPER_SIZES["bert-large"] / PAPER_SIZES["albert-large"]
    return Finding(
        "ALBERT-large has 18 times fewer parameters than BERT-large.",
        f"{PAPER_SIZES['albert-large']}M against {PAPER_SIZES['bert-large']}M, {paper:.1f}×.",
        f"{albert:,} against {bert:,}, {bert / albert:.1f}×, counted.",
        "agrees" if int(bert / albert) == int(paper) else "disagrees",
    )


def _judge_memory(found: ShapeMemory) -> Finding:
    claim = f"Fewer parameters lower the memory of training ({found.shape})."
    theirs = "“Two parameter-reduction techniques to lower memory consumption” (abstract); no figure."
    ratios = found.list_ratios(is_checkpointed=False) or found.list_ratios(is_checkpointed=True)
    if not ratios:
        return Finding(claim, theirs, "No batch was measured on both sides.", "not asked")
    verdict: Verdict = "cannot tell"
    if all(ratio > _NOTICEABLE for ratio in ratios.values()):
        verdict = "agrees"
    elif all(ratio < _NOTICEABLE for ratio in ratios.values()):
        verdict = "disagrees"
    figures = ", ".join(f"{ratio:.2f} with batches of {size}" for size, ratio in ratios.items())
    return Finding(claim, theirs, f"BERT's peak over ALBERT's, one measurement each: {figures}.", verdict)


def _tabulate_ratios(found: Sequence[ShapeMemory]) -> Table:
    rows = []
    for each in found:
        plain, checkpointed = (each.list_ratios(is_checkpointed=way) for way in (False, True))
        for size in sorted({*plain, *checkpointed}):
            figures = {
                "parameters": each.parameter_ratio,
                "peak memory": plain.get(size),
                "peak memory, both checkpointed": checkpointed.get(size),
            }
            row = {Column("shape"): Cell(each.shape), Column("batch", True, "sequences"): Cell.number(size)}
            for name, value in figures.items():
                row[Column(name, True, "BERT's over ALBERT's")] = number_cell(value)
            rows.append(row)
    return build_table("memory-ratios", rows, note="Above 1, ALBERT needs less.")


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
                    cells = [size_cell(step.peak_bytes), *map(seconds_cell, times), speed]
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
    """Draw the peak over the batch size; on linear axes a fixed cost is a height, not a slope."""
    series = []
    for case in found.points:
        if steps := found.list_measured(case):
            gigabytes = [step.peak_bytes / 1e9 for step in steps.values()]
            series.append(Series(case.name, [float(size) for size in steps], gigabytes))
    texts = [f"{each.name} {each.ys[0]:.2f} to {each.ys[-1]:.2f}" for each in series]
    return Chart(
        f"memory-{found.shape}",
        f"Peak memory of a training step, {found.shape}",
        "batch size (sequences)",
        "GB",
        series,
        told=f"From the smallest to the largest batch, in GB: {'; '.join(texts)}.",
    )
