"""The plan of a study and what came of its arms come in; a page that a person reads goes out."""

from collections.abc import Mapping, Sequence

from albert.pages.content import Cell, Column, Page, Section, Table
from albert.reporting import format_seconds
from albert.study.arms.charts import draw_charts
from albert.study.arms.findings import judge_claims, name_figure
from albert.study.arms.folder import StudyPlan
from albert.study.arms.results import ArmResult, ArmSummary
from albert.study.arms.statistics import Estimate, compare_paired, estimate_mean

_QUALITY = (
    "mlm_accuracy", "mlm_loss", "sop_accuracy", "nsp_accuracy", "probe_sop", "probe_nsp", "agreement",
)  # fmt: skip
_STABILITY = ("train_loss", "mlm_loss", "gap", "grad_norm", "grad_variation")
MISSING = Cell("–")


def build_page(plan: StudyPlan, summaries: Sequence[ArmSummary]) -> Page:
    """Findings first, then every figure, then how it was run."""
    settings = plan.settings
    found = {summary.arm: summary for summary in summaries}
    results = [result for summary in summaries for result in summary.results.values()]
    sections = [
        Section(
            "What the paper says, and what came out here",
            paragraphs=[settings.question, *settings.notes],
            findings=judge_claims(settings, found),
        ),
        Section("The arms", paragraphs=[_explain_table(plan)], tables=[build_arm_table(plan, summaries)]),
        Section("In pictures", charts=draw_charts(plan, summaries)),
        Section(
            "Does it stay stable, and does it overfit?",
            paragraphs=[
                "The gap is the loss of masked words in held-out text above that in training text. Gradient "
                "norms are those of the second half of training. The spread is the standard deviation of "
                "single runs over seeds."
            ],
            tables=[_build_stability_table(plan, summaries)],
        ),
        _describe_run(plan, summaries, results),
    ]
    return Page(f"{settings.title} ({settings.paper})", _describe_scale(plan, results), sections)


def _describe_scale(plan: StudyPlan, results: Sequence[ArmResult]) -> str:
    """What was run here, in a sentence, so that nobody takes it for the paper's."""
    if not results:
        return "Nothing is finished yet."
    first = results[0]
    seconds = sum(result.seconds for result in results)
    return (
        f"A small copy of the paper's experiment: {len(plan.settings.arms)} arms, {plan.settings.num_seeds} "
        f"seeds; about {first.num_parameters:,} parameters, {first.num_steps:,} steps and "
        f"{first.num_tokens:,} pieces in the arm {first.arm}; {format_seconds(seconds)} of pretraining. "
        "The paper trains 12 to 235 million parameters on 16 GB of text for 125,000 steps of 4,096 sequences."
    )


def _explain_table(plan: StudyPlan) -> str:
    base = plan.settings.arms[plan.settings.base].label or plan.settings.base
    return (
        f"Means over seeds with 95% intervals (Student's t). Differences are from {base}, seed by seed, "
        "with the p-value of a paired t-test. Parameters are those of the encoder with its pooler."
    )


def build_arm_table(plan: StudyPlan, summaries: Sequence[ArmSummary]) -> Table:
    """A row for each arm: size, quality, the difference from the base, cost, and the paper's figure."""
    figures = [name for name in _QUALITY if any(summary.collect(name) for summary in summaries)]
    tasks = list(plan.settings.tasks)
    shown = [*figures, *tasks, *(["average"] if len(tasks) > 1 else [])]
    judged = "average" if tasks else "mlm_accuracy"
    base = next(summary for summary in summaries if summary.arm == plan.settings.base)
    columns = [
        Column("arm"),
        Column("parameters", is_number=True),
        *(Column(name_figure(name), is_number=True) for name in shown),
        Column("difference", is_number=True, hint=f"{name_figure(judged)}, in points"),
        Column("p", is_number=True, hint="paired t-test against the base"),
        Column("paper", is_number=True, hint="its average over five tasks, unless it says otherwise"),
        Column("minutes", is_number=True, hint="of one pretraining"),
        Column("step", is_number=True, hint="milliseconds at full depth and length, in a fresh process"),
        Column("memory", is_number=True, hint="MB at its peak in such a step"),
    ]
    rows = [_build_row(plan, summary, shown, judged, base) for summary in summaries]
    strong = [number for number, summary in enumerate(summaries) if summary.arm == plan.settings.base]
    return Table("arms", columns, rows, strong_rows=strong)


def _build_row(
    plan: StudyPlan, summary: ArmSummary, shown: Sequence[str], judged: str, base: ArmSummary
) -> list[Cell]:
    arm = plan.settings.arms[summary.arm]
    results = list(summary.results.values())
    size = Cell(f"{results[0].num_parameters:,}", float(results[0].num_parameters)) if results else MISSING
    minutes = [result.seconds / 60 for result in results]
    return [
        Cell(arm.label or summary.arm),
        size,
        *(format_estimate(summary.collect(name)) for name in shown),
        *_compare_cells(summary, base, judged),
        _find_paper(arm.paper),
        Cell(f"{sum(minutes) / len(minutes):.1f}", sum(minutes) / len(minutes)) if minutes else MISSING,
        *_format_footprint(summary),
    ]


def _find_paper(figures: Mapping[str, float]) -> Cell:
    value = figures.get("average", figures.get("mlm_accuracy"))
    return MISSING if value is None else Cell(f"{value:.1f}", value)


def _compare_cells(summary: ArmSummary, base: ArmSummary, figure: str) -> tuple[Cell, Cell]:
    if summary.arm == base.arm:
        return MISSING, MISSING
    found = compare_paired(summary.collect(figure), base=base.collect(figure))
    if found is None:
        return MISSING, MISSING
    told = f"{found.difference:+.2f}"
    if found.low is not None and found.high is not None:
        told += f" ({found.low:+.2f} … {found.high:+.2f})"
    p_value = MISSING if found.p_value is None else Cell(f"{found.p_value:.3f}", found.p_value)
    return Cell(told, found.difference, found.low, found.high), p_value


def _format_footprint(summary: ArmSummary) -> tuple[Cell, Cell]:
    found = summary.footprint
    if found is None:
        return MISSING, MISSING
    milliseconds = 1e3 * (found.model_seconds + found.optimizer_seconds)
    megabytes = found.peak_bytes / 1e6
    return Cell(f"{milliseconds:.0f}", milliseconds), Cell(f"{megabytes:.0f}", megabytes)


def format_estimate(values: Mapping[int, float]) -> Cell:
    """A mean with half of its interval; a single run has none."""
    if not values:
        return MISSING
    found = estimate_mean(list(values.values()))
    reach = "" if found.high is None else f" ± {found.high - found.mean:.2f}"
    return Cell(f"{found.mean:.2f}{reach}", found.mean, found.low, found.high)


def _build_stability_table(plan: StudyPlan, summaries: Sequence[ArmSummary]) -> Table:
    columns = [
        Column("arm"),
        *(Column(name_figure(name), is_number=True) for name in _STABILITY),
        Column("spread of the held-out loss", is_number=True, hint="between seeds"),
    ]
    rows = []
    for summary in summaries:
        losses = summary.collect("mlm_loss")
        spread = estimate_mean(list(losses.values())).spread if losses else None
        rows.append(
            [
                Cell(plan.settings.arms[summary.arm].label or summary.arm),
                *(_format_plain(summary.collect(name)) for name in _STABILITY),
                MISSING if spread is None else Cell(f"{spread:.4f}", spread),
            ]
        )
    return Table("stability", columns, rows)


def _format_plain(values: Mapping[int, float]) -> Cell:
    if not values:
        return MISSING
    found: Estimate = estimate_mean(list(values.values()))
    return Cell(f"{found.mean:.3f}", found.mean, found.low, found.high)


def _describe_run(plan: StudyPlan, summaries: Sequence[ArmSummary], results: Sequence[ArmResult]) -> Section:
    settings = plan.settings
    total = len(settings.arms) * settings.num_seeds
    lines = [
        f"{len(results)} of {total} trainings are finished, with seeds 0 to {settings.num_seeds - 1}. Begun "
        f"{plan.started}, on {plan.num_threads} threads. Every arm with the same seed saw the same examples "
        "in the same order, unless its examples are what differs.",
        f"Recipe {settings.recipe}; the differences of each arm are in study.json. "
        + ", ".join(f"{name} {version}" for name, version in plan.versions.items())
        + ".",
    ]
    if plan.budget_seconds is not None:
        steps = ", ".join(f"{arm} {number:,}" for arm, number in plan.num_steps.items())
        lines.append(f"Steps were frozen for a budget of {format_seconds(plan.budget_seconds)}: {steps}.")
    lines += [
        f"Failed: {summary.arm}, seed {seed}: {reason}"
        for summary in summaries
        for seed, reason in summary.failures.items()
    ]
    return Section("How it was run", paragraphs=lines, code=plan.command)
