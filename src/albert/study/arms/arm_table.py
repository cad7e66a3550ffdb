"""The arms of a study and what came of them come in; a table with a row for each arm goes out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from albert.report.content import Cell, Column, Table
from albert.study.arms.figures import FIGURES, name_figure
from albert.study.arms.folder import StudyPlan
from albert.study.arms.plan import StudySettings
from albert.study.arms.results import ArmSummary
from albert.study.arms.statistics import compare_paired, estimate_mean, format_p
from albert.study.cells import MISSING

_QUALITY = (
    "mlm_accuracy", "mlm_loss", "sop_accuracy", "nsp_accuracy", "probe_sop", "probe_nsp", "agreement",
)  # fmt: skip


@dataclass(frozen=True)
class _Layout:
    """The figures that are shown, ours and the paper's; the one that arms are compared by, and with whom."""

    shown: Sequence[str]
    theirs: Sequence[str]
    judged: str
    base: ArmSummary


def build_arm_table(plan: StudyPlan, summaries: Sequence[ArmSummary]) -> Table:
    """A row for each arm: size, quality, the difference from the base, cost, and the paper's figure."""
    figures = [name for name in _QUALITY if any(summary.collect(name) for summary in summaries)]
    tasks = list(plan.settings.tasks)
    shown = [*figures, *tasks, *(["average"] if len(tasks) > 1 else [])]
    theirs = _list_theirs(plan.settings)
    judged = "average" if tasks else "mlm_accuracy"
    base = next(summary for summary in summaries if summary.arm == plan.settings.base)
    columns = [
        Column("arm"),
        Column("parameters", is_number=True),
        *([Column("paper: million parameters", is_number=True)] if _has_sizes(plan.settings) else []),
        *(Column(name_figure(name), is_number=True) for name in shown),
        Column("difference", is_number=True, hint=f"{name_figure(judged)}, in points"),
        Column("p", is_number=True, hint="paired t-test against the base"),
        *(Column(f"paper: {name_figure(name)}", is_number=True) for name in theirs),
        Column("minutes", is_number=True, hint="of one pretraining"),
        Column("step", is_number=True, hint="milliseconds at full depth and length, in a fresh process"),
        Column("forward", is_number=True, hint="milliseconds of a forward pass over the same batch"),
        Column("memory", is_number=True, hint="MB at its peak in such a step"),
    ]
    layout = _Layout(shown, theirs, judged, base)
    rows = [_build_row(plan, summary, layout) for summary in summaries]
    strong = [number for number, summary in enumerate(summaries) if summary.arm == plan.settings.base]
    return Table("arms", columns, rows, strong_rows=strong)


def _has_sizes(settings: StudySettings) -> bool:
    return any(arm.paper_millions is not None for arm in settings.arms.values())


def _list_theirs(settings: StudySettings) -> list[str]:
    """The figures that the paper has for some arm."""
    known = {name for arm in settings.arms.values() for name in arm.paper}
    return [name for name in FIGURES if name in known]


def _build_row(plan: StudyPlan, summary: ArmSummary, layout: _Layout) -> list[Cell]:
    arm = plan.settings.arms[summary.arm]
    results = list(summary.results.values())
    size = Cell(f"{results[0].num_parameters:,}", float(results[0].num_parameters)) if results else MISSING
    minutes = [result.seconds / 60 for result in results]
    return [
        Cell(arm.label or summary.arm),
        size,
        *([_format_millions(arm.paper_millions)] if _has_sizes(plan.settings) else []),
        *(format_estimate(summary.collect(name)) for name in layout.shown),
        *_compare_cells(summary, layout.base, layout.judged),
        *(
            Cell(f"{arm.paper[name]:.1f}", arm.paper[name]) if name in arm.paper else MISSING
            for name in layout.theirs
        ),
        Cell(f"{sum(minutes) / len(minutes):.1f}", sum(minutes) / len(minutes)) if minutes else MISSING,
        *_format_footprint(summary),
    ]


def _format_millions(millions: float | None) -> Cell:
    return MISSING if millions is None else Cell(f"{millions:g}", millions)


def _compare_cells(summary: ArmSummary, base: ArmSummary, figure: str) -> tuple[Cell, Cell]:
    if summary.arm == base.arm:
        return MISSING, MISSING
    found = compare_paired(summary.collect(figure), base=base.collect(figure))
    if found is None:
        return MISSING, MISSING
    told = f"{found.difference:+.2f}"
    if found.low is not None and found.high is not None:
        told += f" ({found.low:+.2f} … {found.high:+.2f})"
    p_value = MISSING if found.p_value is None else Cell(format_p(found.p_value), found.p_value)
    return Cell(told, found.difference, found.low, found.high), p_value


def _format_footprint(summary: ArmSummary) -> tuple[Cell, Cell, Cell]:
    found = summary.footprint
    if found is None or found.inference_seconds is None:
        return MISSING, MISSING, MISSING
    step, forward = 1e3 * found.step_seconds, 1e3 * found.inference_seconds
    megabytes = found.peak_bytes / 1e6
    return Cell(f"{step:.0f}", step), Cell(f"{forward:.0f}", forward), Cell(f"{megabytes:.0f}", megabytes)


def format_estimate(values: Mapping[int, float]) -> Cell:
    """A mean with half of its interval; a single run has none."""
    if not values:
        return MISSING
    found = estimate_mean(list(values.values()))
    reach = "" if found.high is None else f" ± {found.high - found.mean:.2f}"
    return Cell(f"{found.mean:.2f}{reach}", found.mean, found.low, found.high)
