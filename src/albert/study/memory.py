"""The memory study: peak memory of a training step of ALBERT against BERT of the same shape, as a report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveFloat, PositiveInt

from albert.model.config import ModelConfig, build_preset, count_parameters
from albert.progress import Reporter
from albert.report.content import Cell, Chart, Column, Finding, Page, Section, Series, Table, Verdict
from albert.study.cells import (
    MISSING,
    number_cell,
    seconds_cell,
    size_cell,
)
from albert.study.parameters import PAPER_SIZES
from albert.study.results import StudyResults, open_results
from albert.study.step_costs import (
    FAMILIES,
    MIN_BYTES_PER_PARAMETER,
    DoesNotFitError,
    Family,
    Footprint,
    PairSettings,
    describe_machine,
    measure_footprint,
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
        """Return the name in the report and in results.json."""
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

    def find_growth(self, case: Case) -> float | None:
        """Return the bytes that a sequence adds to the peak, between the two largest batches.

        A line through all batches would be wrong: with small batches and many weights the peak is that of the
        optimizer's step, which does not depend on the batch.
        """
        found = sorted(self.list_measured(case).items())[-2:]
        if len(found) < 2:
            return None
        (smaller, before), (larger, after) = found
        return (after.peak_bytes - before.peak_bytes) / (larger - smaller)

    def list_ratios(self, *, is_checkpointed: bool) -> dict[int, float]:
        """Return BERT's peak divided by ALBERT's, by batch size where both fit."""
        albert, bert = (self.list_measured(Case(family, is_checkpointed)) for family in FAMILIES)
        return {size: bert[size].peak_bytes / albert[size].peak_bytes for size in albert if size in bert}

    @property
    def parameter_ratio(self) -> float | None:
        """BERT's parameters divided by ALBERT's, as counted in the measured models."""
        counts: dict[Family, int] = {}
        for case in self.points:
            for found in self.list_measured(case).values():
                counts[case.family] = found.num_parameters
        return counts["BERT"] / counts["ALBERT"] if len(counts) == len(FAMILIES) else None


def run_memory(settings: MemorySettings, *, out: Path, reporter: Reporter) -> Page:
    """Measure the steps that are missing in `out`, each in a fresh process, and build the report."""
    pairs = settings.build_pairs()
    machine = describe_machine(num_threads=settings.num_threads)
    with open_results(out, study=STUDY, settings=settings, free_keys=_FREE_KEYS, machine=machine) as results:
        found = [
            _measure_shape(shape, pair, settings=settings, results=results, reporter=reporter)
            for shape, pair in pairs.items()
        ]
    return build_memory_page(found, settings=settings, machine=machine)


def _measure_shape(
    shape: str,
    pair: dict[Family, ModelConfig],
    *,
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
            point = results.take(
                part, MemoryPoint, measure=measure, has_failed=lambda each: each.footprint is None
            )
            points[case][batch_size] = point
            if point.footprint is None:
                reporter.say(f"{part}: does not fit: {point.failure}")
                is_full = True
    reporter.show(f"{STUDY}, {shape}", f"{len(cases)} models", fraction=1.0)
    return ShapeMemory(shape, points)


def _measure_point(
    config: ModelConfig, settings: MemorySettings, *, case: Case, batch_size: int
) -> MemoryPoint:
    limit = settings.max_gigabytes
    try:
        return MemoryPoint(
            measure_footprint(
                config,
                batch_size=batch_size,
                length=settings.length,
                optimizer=settings.optimizer,
                gradient_checkpointing=case.is_checkpointed,
                num_steps=settings.num_steps,
                num_threads=settings.num_threads,
                max_bytes=None if limit is None else round(1e9 * limit),
            )
        )
    except DoesNotFitError as error:
        return MemoryPoint(None, str(error))


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
    drawn = [each for each in found if any(each.list_measured(case) for case in each.points)]
    return Page(
        title="Memory of a training step: ALBERT against BERT of the same shape",
        lead=f"How much memory ALBERT's fewer parameters save in training. {_summarize_ratios(found)}",
        sections=[
            Section(
                title="Claims of the paper and measurements",
                paragraphs=[_EXPLANATION],
                findings=[_judge_parameters(), *(_judge_memory(each) for each in found)],
                tables=[_tabulate_ratios(found), _tabulate_growth(found)],
                charts=[_draw(each, "memory", "Peak memory", "GB", _read_gigabytes) for each in drawn],
            ),
            Section(
                title="Every step",
                paragraphs=failures,
                tables=[_tabulate_steps(found)],
                charts=[_draw(each, "memory-time", "Time", "seconds", _read_seconds) for each in drawn],
            ),
            Section(title="How it was measured", paragraphs=_describe_method(found, settings, machine)),
        ],
    )


def _summarize_ratios(found: Sequence[ShapeMemory]) -> str:
    texts = []
    for each in found:
        ratios = each.list_ratios(is_checkpointed=False)
        if ratios and each.parameter_ratio:
            figures = [
                f"{ratios[size]:.1f} times the memory (batches of {size})"
                for size in (min(ratios), max(ratios))
            ]
            texts.append(
                f"At {each.shape}, BERT has {each.parameter_ratio:.1f} times the parameters and needs "
                f"{' to '.join(figures)}."
            )
    return " ".join(texts) or "Nothing could be compared."


def _judge_parameters() -> Finding:
    """Compare the parameter counts of the paper's own shapes, which needs no measurement."""
    sizes = {name: count_parameters(build_preset(name)).backbone for name in ("albert-large", "bert-large")}
    paper = PAPER_SIZES["bert-large"] / PAPER_SIZES["albert-large"]
    ratio = sizes["bert-large"] / sizes["albert-large"]
    return Finding(
        claim="ALBERT-large has 18 times fewer parameters than BERT-large.",
        theirs=f"{PAPER_SIZES['albert-large']}M against {PAPER_SIZES['bert-large']}M, {paper:.1f}×.",
        ours=f"{sizes['albert-large']:,} against {sizes['bert-large']:,}, {ratio:.1f}×, counted.",
        verdict="agrees" if int(ratio) == int(paper) else "disagrees",
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
    ours = f"BERT's peak over ALBERT's, one measurement each: {figures}."
    return Finding(claim, theirs, ours, verdict)


def _tabulate_ratios(found: Sequence[ShapeMemory]) -> Table:
    figures = ("parameters", "peak memory", "peak memory, both checkpointed")
    columns = [
        Column("shape"),
        Column("batch", is_number=True, hint="sequences"),
        *(Column(name, is_number=True, hint="BERT's over ALBERT's") for name in figures),
    ]
    rows = []
    for each in found:
        plain, checkpointed = (each.list_ratios(is_checkpointed=way) for way in (False, True))
        for size in sorted({*plain, *checkpointed}):
            ratios = [each.parameter_ratio, plain.get(size), checkpointed.get(size)]
            rows.append([Cell(each.shape), Cell.number(size), *map(number_cell, ratios)])
    return Table("memory-ratios", columns, rows, note="Above 1, ALBERT needs less.")


def _tabulate_growth(found: Sequence[ShapeMemory]) -> Table:
    columns = [
        Column("model"),
        Column("parameters", is_number=True, hint="with both pretraining heads"),
        Column("minimum", is_number=True, hint="weights, gradients and two moments, by count"),
        Column("smallest batch", is_number=True, hint="its peak"),
        Column("each sequence", is_number=True, hint="what one more adds to the peak"),
    ]
    rows = []
    for each in found:
        for case in each.points:
            growth, measured = each.find_growth(case), each.list_measured(case)
            if growth is not None:
                smallest = measured[min(measured)]
                sizes = (MIN_BYTES_PER_PARAMETER * smallest.num_parameters, smallest.peak_bytes, growth)
                name = Cell(f"{case.name} ({each.shape})")
                rows.append([name, Cell.number(smallest.num_parameters), *map(size_cell, sizes)])
    return Table("memory-growth", columns, rows, note="Each sequence: between the two largest batches.")


def _tabulate_steps(found: Sequence[ShapeMemory]) -> Table:
    figures = ("peak memory", "step", "forward and backward", "optimizer", "tokens per second")
    columns = [
        *map(Column, ("shape", "family", "checkpointed")),
        *(Column(name, is_number=True) for name in ("batch", *figures)),
    ]
    rows = []
    for each in found:
        for case, points in each.points.items():
            names = [each.shape, case.family, "yes" if case.is_checkpointed else "no"]
            for size, point in points.items():
                cells = [Cell("does not fit"), *[MISSING] * 4]
                if (step := point.footprint) is not None:
                    times = (step.step_seconds, step.model_seconds, step.optimizer_seconds)
                    speed = number_cell(step.num_tokens / step.step_seconds)
                    cells = [size_cell(step.peak_bytes), *map(seconds_cell, times), speed]
                rows.append([*map(Cell, names), Cell.number(size), *cells])
    return Table("memory-steps", columns, rows)


def _read_gigabytes(step: Footprint) -> float:
    return step.peak_bytes / 1e9


def _read_seconds(step: Footprint) -> float:
    return step.step_seconds


def _draw(found: ShapeMemory, name: str, what: str, unit: str, read: Callable[[Footprint], float]) -> Chart:
    """Draw a figure of each case over the batch size; on linear axes a fixed cost is a height, not a "
    "slope."""
    series = [
        Series(case.name, xs=[float(size) for size in steps], ys=[read(step) for step in steps.values()])
        for case in found.points
        if (steps := found.list_measured(case))
    ]
    text = "; ".join(
        f"{each.name} {each.ys[0]:.2f} (batches of {each.xs[0]:g}) to {each.ys[-1]:.2f} (of {each.xs[-1]:g})"
        for each in series
    )
    return Chart(
        name=f"{name}-{found.shape}",
        title=f"{what} of a training step, {found.shape}",
        x_label="batch size (sequences)",
        y_label=unit,
        series=series,
        told=f"In {unit}: {text}.",
    )


def _describe_method(found: Sequence[ShapeMemory], settings: PairSettings, machine: str) -> list[str]:
    sources = {
        point.memory_source
        for each in found
        for case in each.points
        for point in each.list_measured(case).values()
    }
    names = ", ".join(_SOURCES[source] for source in sorted(sources))
    return [
        settings.describe_step(),
        "Every step runs in a fresh process. Its memory is the peak above what the process held before the "
        f"model was built ({names or 'nothing measured'}). The times are medians of {settings.num_steps} "
        "steps after a warm-up step, which allocates the optimizer's moments.",
        f"{machine}.",
    ]
