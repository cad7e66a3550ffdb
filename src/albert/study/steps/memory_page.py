"""The memory study as a page: peaks of ALBERT and BERT come in; tables, charts and what follows go out."""

from collections.abc import Callable, Sequence

from albert.report.content import Cell, Chart, Column, Page, Section, Series, Table
from albert.study.cells import (
    MISSING,
    count_cell,
    format_bytes,
    number_cell,
    seconds_cell,
    size_cell,
    text_cell,
)
from albert.study.steps.memory_findings import list_findings
from albert.study.steps.memory_results import Case, ShapeMemory
from albert.study.steps.pair_settings import PairSettings
from albert.study.steps.step_process import MIN_BYTES_EACH, Footprint


def build_memory_page(found: Sequence[ShapeMemory], *, settings: PairSettings, machine: str) -> Page:
    """What of the fewer parameters is left in the memory that a step really takes."""
    failures = [failure for each in found for failure in each.list_failures()]
    return Page(
        title="Memory of a training step: ALBERT against BERT of the same shape",
        lead=f"How much of ALBERT's saving of parameters is one of memory in training. {_tell_ratios(found)}",
        sections=[
            Section(
                title="What the paper says, and what was measured here",
                paragraphs=_explain(found),
                findings=list_findings(found),
                tables=[_tabulate_ratios(found), _tabulate_growth(found)],
                charts=[_draw_memory(each) for each in found if _has_points(each)],
            ),
            Section(
                title="Every step",
                paragraphs=[
                    f"Did not fit, and was left out: {failure}. The same command tries it again."
                    for failure in failures
                ],
                tables=[_tabulate_steps(found)],
                charts=[_draw_times(each) for each in found if _has_points(each)],
            ),
            Section(title="How it was measured", paragraphs=_tell_rules(found, settings, machine)),
        ],
    )


def _has_points(found: ShapeMemory) -> bool:
    return any(found.list_measured(case) for case in found.points)


def _tell_ratios(found: Sequence[ShapeMemory]) -> str:
    told = []
    for each in found:
        ratios, parameters = each.list_ratios(is_checkpointed=False), each.parameter_ratio
        if ratios and parameters:
            first, last = min(ratios), max(ratios)
            told.append(
                f"At {each.shape}, BERT has {parameters:.1f} times the parameters and takes "
                f"{ratios[first]:.1f} times the memory with batches of {first}, {ratios[last]:.1f} times "
                f"with {last}."
            )
    return " ".join(told) or "Nothing could be compared."


def _explain(found: Sequence[ShapeMemory]) -> list[str]:
    told = [
        "A step holds two kinds of memory. Weights, gradients and the optimiser's moments do not depend on "
        "the batch; sharing divides them. What every layer computed is kept for the backward pass, grows "
        "with the batch, and is not shared: each loop of the one block has activations of its own. "
        "Gradient checkpointing keeps only the layers' inputs, and computes the rest a second time. Where "
        "weights are many and the batch is small, the peak is that of the optimiser's step instead, when "
        "activations are gone: there a further sequence seems to cost less than it takes."
    ]
    for each in found:
        albert, bert = (each.find_growth(Case(family, False)) for family in ("ALBERT", "BERT"))
        if albert is not None and bert is not None:
            told.append(
                f"At {each.shape}, a further sequence adds {format_bytes(albert.sequence_bytes)} to ALBERT's "
                f"peak (from batches of {albert.smaller} to {albert.larger}) and "
                f"{format_bytes(bert.sequence_bytes)} to BERT's (from {bert.smaller} to {bert.larger})."
            )
    return told


def _tabulate_ratios(found: Sequence[ShapeMemory]) -> Table:
    columns = [
        Column("shape"),
        Column("batch", is_number=True, hint="sequences"),
        Column("parameters", is_number=True, hint="BERT's over ALBERT's"),
        Column("peak memory", is_number=True, hint="BERT's over ALBERT's"),
        Column("peak memory, both checkpointed", is_number=True, hint="BERT's over ALBERT's"),
    ]
    rows = []
    for each in found:
        plain, checkpointed = (each.list_ratios(is_checkpointed=way) for way in (False, True))
        parameters = each.parameter_ratio
        for size in sorted({*plain, *checkpointed}):
            figures = [parameters, plain.get(size), checkpointed.get(size)]
            rows.append([text_cell(each.shape), count_cell(size), *map(number_cell, figures)])
    return Table("memory-ratios", columns, rows, note="Above 1, ALBERT takes less.")


def _tabulate_growth(found: Sequence[ShapeMemory]) -> Table:
    columns = [
        Column("model"),
        Column("parameters", is_number=True, hint="with both pretraining heads"),
        Column("least", is_number=True, hint="weights, gradients and two moments, by count"),
        Column("smallest batch", is_number=True, hint="its peak"),
        Column("each sequence", is_number=True, hint="what one more adds to the peak"),
    ]
    rows = []
    for each in found:
        for case in each.points:
            growth, measured = each.find_growth(case), each.list_measured(case)
            if growth is None:
                continue
            smallest = measured[min(measured)]
            rows.append(
                [
                    text_cell(f"{case.name} ({each.shape})"),
                    count_cell(smallest.num_parameters),
                    size_cell(MIN_BYTES_EACH * smallest.num_parameters),
                    size_cell(smallest.peak_bytes),
                    size_cell(growth.sequence_bytes),
                ]
            )
    return Table("memory-growth", columns, rows, note="Each sequence: between the two largest batches.")


def _tabulate_steps(found: Sequence[ShapeMemory]) -> Table:
    columns = [
        Column("shape"),
        Column("family"),
        Column("checkpointed"),
        Column("batch", is_number=True, hint="sequences"),
        Column("peak memory", is_number=True),
        Column("step", is_number=True),
        Column("forward and backward", is_number=True),
        Column("optimiser", is_number=True),
        Column("pieces a second", is_number=True),
    ]
    rows = []
    for each in found:
        for case, points in each.points.items():
            for size, point in points.items():
                names = [each.shape, case.family, "yes" if case.is_checkpointed else "no"]
                rows.append([*map(text_cell, names), count_cell(size), *_list_figures(point.footprint)])
    return Table("memory-steps", columns, rows)


def _list_figures(found: Footprint | None) -> list[Cell]:
    if found is None:
        return [text_cell("does not fit"), *[MISSING] * 4]
    return [
        size_cell(found.peak_bytes),
        seconds_cell(found.step_seconds),
        seconds_cell(found.model_seconds),
        seconds_cell(found.optimizer_seconds),
        number_cell(found.num_tokens / found.step_seconds),
    ]


def _draw_memory(found: ShapeMemory) -> Chart:
    # On straight axes what is fixed is seen as a height and what a sequence adds as a slope.
    series = _list_series(found, lambda each: each.peak_bytes / 1e9)
    told = "; ".join(
        f"{each.name}: {each.ys[0]:.2f} GB with batches of {each.xs[0]:g}, {each.ys[-1]:.2f} with "
        f"{each.xs[-1]:g}"
        for each in series
    )
    return Chart(
        name=f"memory-{found.shape}",
        title=f"Peak memory of a training step, {found.shape}",
        x_label="batch, sequences",
        y_label="GB",
        series=series,
        told=f"{told}.",
    )


def _draw_times(found: ShapeMemory) -> Chart:
    series = _list_series(found, lambda each: each.step_seconds)
    told = "; ".join(f"{each.name}: {each.ys[-1]:.2f} s with batches of {each.xs[-1]:g}" for each in series)
    return Chart(
        name=f"memory-time-{found.shape}",
        title=f"Time of a training step, {found.shape}",
        x_label="batch, sequences",
        y_label="seconds",
        series=series,
        told=f"{told}.",
    )


def _list_series(found: ShapeMemory, read: Callable[[Footprint], float]) -> list[Series]:
    measured = {case: found.list_measured(case) for case in found.points}
    return [
        Series(case.name, xs=[float(size) for size in sizes], ys=[read(each) for each in sizes.values()])
        for case, sizes in measured.items()
        if sizes
    ]


def _tell_rules(found: Sequence[ShapeMemory], settings: PairSettings, machine: str) -> list[str]:
    sources = {
        point.memory_source
        for each in found
        for case in each.points
        for point in each.list_measured(case).values()
    }
    return [
        "Both sides differ in settings only: BERT shares nothing, its E is its H, and its GELU is the "
        f"exact one. A step is that of `albert pretrain` with {settings.optimizer.upper()} on sequences of "
        f"{settings.length} random pieces, in float32, the whole batch at once.",
        "Every step runs in a fresh process. Its memory is the highest that the process ever held, above "
        f"what it held before the model was built; {settings.num_steps + 1} steps are taken, since the "
        "optimiser's moments come with the first, and the times are medians over those after it. Measured, "
        f"not computed ({', '.join(_SOURCES[source] for source in sorted(sources)) or 'nothing'}).",
        f"{machine}.",
    ]


_SOURCES = {
    "VmHWM": "the kernel's high-water mark of resident memory",
    "getrusage": "the whole process's peak by getrusage, which misses what stays below an earlier one",
}
