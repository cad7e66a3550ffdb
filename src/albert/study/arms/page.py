"""The plan of a study and what came of its arms come in; a page that a person reads goes out."""

from collections.abc import Mapping, Sequence

from albert.report.content import Cell, Column, Page, Section, Table
from albert.reporting import format_seconds
from albert.study.arms.arm_table import build_arm_table
from albert.study.arms.charts import draw_charts
from albert.study.arms.figures import name_figure
from albert.study.arms.findings import judge_claims
from albert.study.arms.folder import StudyPlan
from albert.study.arms.plan import StudySettings
from albert.study.arms.results import ArmResult, ArmSummary
from albert.study.arms.statistics import Estimate, estimate_mean
from albert.study.cells import MISSING

_STABILITY = ("train_loss", "mlm_loss", "gap", "grad_norm", "grad_variation")
_CURVES = (
    "Curves over steps are asked during training, of examples such as the arm learns from: where arms differ "
    "in their examples, these are different questions. All else is asked at the end, and of all arms alike."
)


def build_page(plan: StudyPlan, summaries: Sequence[ArmSummary]) -> Page:
    """Findings first, then every figure, then how it was run."""
    settings = plan.settings
    found = {summary.arm: summary for summary in summaries}
    results = [result for summary in summaries for result in summary.results.values()]
    sections = [
        Section(
            "What the paper says, and what came out here",
            paragraphs=[settings.question, *settings.notes, *_list_arm_notes(settings)],
            findings=judge_claims(settings, found),
        ),
        Section("The arms", paragraphs=[_explain_table(plan)], tables=[build_arm_table(plan, summaries)]),
        Section("In pictures", paragraphs=[_CURVES], charts=draw_charts(plan, summaries)),
        Section(
            "Does it stay stable, and does it overfit?",
            paragraphs=[
                "The gap is the loss of masked words in held-out text above that in training text. Gradient "
                "norms are those of the second half of training. The spread is the standard deviation of "
                "single runs over seeds."
            ],
            tables=[_build_stability_table(plan, summaries)],
        ),
        *_build_paper_section(settings),
        _describe_run(plan, summaries, results),
    ]
    return Page(f"{settings.title} ({settings.paper})", _describe_scale(plan, results), sections)


def _list_arm_notes(settings: StudySettings) -> list[str]:
    noted = ((arm.label or name, arm.note) for name, arm in settings.arms.items())
    return [f"{label[:1].upper()}{label[1:]}: {note}" for label, note in noted if note]


def _build_paper_section(settings: StudySettings) -> list[Section]:
    """Its models that nobody trains here, in tables of their own."""
    if not settings.paper_tables:
        return []
    tables = [
        Table(
            table.name,
            [Column(table.columns[0]), *(Column(name, is_number=True) for name in table.columns[1:])],
            [[_format_paper(value) for value in row] for row in table.rows],
            note=table.note,
        )
        for table in settings.paper_tables
    ]
    return [Section("The paper's own figures", tables=tables)]


def _format_paper(value: str | float) -> Cell:
    return Cell(value) if isinstance(value, str) else Cell(f"{value:g}", float(value))


def _describe_scale(plan: StudyPlan, results: Sequence[ArmResult]) -> str:
    """What was run here, in a sentence, so that nobody takes it for the paper's."""
    if not results:
        return "Nothing is finished yet."
    first = results[0]
    seconds = sum(result.seconds for result in results)
    num_seeds = plan.settings.num_seeds
    return (
        f"A small copy of the paper's experiment: {len(plan.settings.arms)} arms, "
        f"{num_seeds} seed{'' if num_seeds == 1 else 's'}; about {first.num_parameters:,} parameters, "
        f"{first.num_steps:,} steps and {first.num_tokens:,} pieces in the arm {first.arm}; "
        f"{format_seconds(seconds)} of pretraining. "
        "The paper trains 12 to 235 million parameters on 16 GB of text for 125,000 steps of 4,096 sequences."
    )


def _explain_table(plan: StudyPlan) -> str:
    base = plan.settings.arms[plan.settings.base].label or plan.settings.base
    told = (
        f"One seed, so no intervals and no p-values. Differences are from {base}."
        if plan.settings.num_seeds == 1
        else f"Means over seeds with 95% intervals (Student's t). Differences are from {base}, seed by seed, "
        "with the p-value of a paired t-test."
    )
    return f"{told} Parameters are those of the encoder with its pooler."


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


def _tell_seeds(settings: StudySettings) -> str:
    first, last = settings.seeds[0], settings.seeds[-1]
    return f"seed {first}" if first == last else f"seeds {first} to {last}"


def _describe_run(plan: StudyPlan, summaries: Sequence[ArmSummary], results: Sequence[ArmResult]) -> Section:
    settings = plan.settings
    total = len(settings.arms) * settings.num_seeds
    threads = sorted({result.num_threads for result in results})
    lines = [
        f"{len(results)} of {total} trainings are finished, with {_tell_seeds(settings)}. Begun "
        f"{plan.started}; threads of one training: {' or '.join(map(str, threads)) or '–'}. Every arm with "
        "the same seed saw the same examples in the same order, unless its examples are what differs.",
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
    waiting = [
        f"{summary.arm}, seed {seed}"
        for summary in summaries
        for seed in settings.seeds
        if seed not in summary.results and seed not in summary.failures
    ]
    if waiting:
        lines.append(f"Not finished: {'; '.join(waiting)}.")
    return Section("How it was run", paragraphs=lines, code=plan.command)
