"""Build the report of a study: verdicts on the paper's claims, a table of all arms, and charts."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from albert.progress import format_seconds
from albert.report.content import Cell, Chart, Column, Finding, Level, Page, Section, Series, Table, Verdict
from albert.study.arms.folder import StudyPlan
from albert.study.arms.plan import FIGURES, ClaimSettings, StudySettings
from albert.study.arms.results import ArmResult, ArmSummary, is_share
from albert.study.arms.statistics import Estimate, compare_paired, estimate_mean, format_p

Summaries = Sequence[ArmSummary]
_QUALITY = (
    "mlm_accuracy", "mlm_loss", "sop_accuracy", "nsp_accuracy", "probe_sop", "probe_nsp", "agreement",
)  # fmt: skip
_STABILITY = ("train_loss", "mlm_loss", "gap", "grad_norm", "grad_variation")


def build_page(plan: StudyPlan, summaries: Summaries) -> Page:
    """Show the findings first, then every figure, then how the study was run."""
    settings = plan.settings
    found = {summary.arm: summary for summary in summaries}
    results = [result for summary in summaries for result in summary.results.values()]
    noted = [(_label(settings, name), arm.note) for name, arm in settings.arms.items() if arm.note]
    arm_notes = [f"{label[:1].upper()}{label[1:]}: {note}" for label, note in noted]
    base = _label(settings, settings.base)
    told = (
        f"One seed, so no intervals and no p-values. Differences are from {base}."
        if settings.num_seeds == 1
        else f"Means over seeds with 95% intervals (Student's t). Differences are from {base}, seed by seed, "
        "with the p-value of a paired t-test."
    )
    curves = (
        "Curves over steps are measured during training, on examples like those that the arm is trained on: "
        "where the examples of arms differ, their curves cannot be compared. All other figures are measured "
        "at the end, on the same examples for all arms."
    )
    stability = (
        "The gap is the loss of masked words in held-out text minus that in training text. Gradient norms "
        "are those of the second half of training. The spread is the standard deviation over seeds."
    )
    sections = [
        Section(
            "What the paper says, and what came out here",
            paragraphs=[settings.question, *settings.notes, *arm_notes],
            findings=[judge_claim(claim, settings, found) for claim in settings.claims],
        ),
        Section(
            "The arms",
            paragraphs=[f"{told} Parameters are those of the encoder with its pooler."],
            tables=[_build_arm_table(settings, summaries)],
        ),
        Section("Charts", paragraphs=[curves], charts=_draw_charts(settings, summaries)),
        Section(
            "Stability and overfitting",
            paragraphs=[stability],
            tables=[_build_stability_table(settings, summaries)],
        ),
    ]
    if settings.paper_tables:
        sections.append(Section("The paper's own figures", tables=_build_paper_tables(settings)))
    sections.append(_describe_run(plan, summaries, results))
    return Page(f"{settings.title} ({settings.paper})", _describe_scale(plan, results), sections)


def name_figure(figure: str) -> str:
    """Return the title of a figure; a task is called by its name."""
    return FIGURES[figure][0] if figure in FIGURES else figure


def _is_better_high(figure: str) -> bool:
    return FIGURES[figure][1] if figure in FIGURES else True


def _label(settings: StudySettings, arm: str) -> str:
    return settings.arms[arm].label or arm


def _find_main_figure(settings: StudySettings) -> str:
    """Return the figure that arms are compared by."""
    return "average" if settings.tasks else "mlm_accuracy"


def _estimate(summary: ArmSummary, figure: str) -> Estimate | None:
    values = summary.collect(figure)
    return estimate_mean(list(values.values())) if values else None


def _describe_scale(plan: StudyPlan, results: Sequence[ArmResult]) -> str:
    """Say what was run here, so that nobody takes it for the paper's experiment."""
    if not results:
        return "Nothing is finished yet."
    first = results[0]
    seconds = sum(result.seconds for result in results)
    num_seeds = plan.settings.num_seeds
    return (
        f"A small copy of the paper's experiment: {len(plan.settings.arms)} arms, "
        f"{num_seeds} seed{'' if num_seeds == 1 else 's'}; about {first.num_parameters:,} parameters, "
        f"{first.num_steps:,} steps and {first.num_tokens:,} tokens in the arm {first.arm}; "
        f"{format_seconds(seconds)} of pretraining. "
        "The paper trains 12 to 235 million parameters on 16 GB of text for 125,000 steps of 4,096 sequences."
    )


def _describe_run(plan: StudyPlan, summaries: Summaries, results: Sequence[ArmResult]) -> Section:
    settings = plan.settings
    first, last = settings.seeds[0], settings.seeds[-1]
    seeds = f"seed {first}" if first == last else f"seeds {first} to {last}"
    threads = " or ".join(map(str, sorted({result.num_threads for result in results}))) or "–"
    versions = ", ".join(f"{name} {version}" for name, version in plan.versions.items())
    lines = [
        f"{len(results)} of {len(settings.arms) * settings.num_seeds} trainings are finished, with {seeds}. "
        f"Started {plan.started}; threads per training: {threads}. All arms with the same seed saw the same "
        "examples in the same order, unless the examples are what differs.",
        f"Recipe {settings.recipe}; the differences of each arm are in study.json. {versions}.",
    ]
    if plan.budget_seconds is not None:
        steps = ", ".join(f"{arm} {number:,}" for arm, number in plan.num_steps.items())
        lines.append(f"Steps were frozen for a budget of {format_seconds(plan.budget_seconds)}: {steps}.")
    waiting = []
    for summary in summaries:
        lines += [f"Failed: {summary.arm}, seed {seed}: {why}" for seed, why in summary.failures.items()]
        done = summary.results.keys() | summary.failures.keys()
        waiting += [f"{summary.arm}, seed {seed}" for seed in settings.seeds if seed not in done]
    if waiting:
        lines.append(f"Not finished: {'; '.join(waiting)}.")
    return Section("How it was run", paragraphs=lines, code=plan.command)


def _build_arm_table(settings: StudySettings, summaries: Summaries) -> Table:
    """List size, quality, difference from the base, cost and the paper's figures of each arm."""
    shown = [name for name in _QUALITY if any(summary.collect(name) for summary in summaries)]
    shown += [*settings.tasks, *(["average"] if len(settings.tasks) > 1 else [])]
    known = {name for arm in settings.arms.values() for name in arm.paper}
    theirs = [name for name in FIGURES if name in known]
    has_sizes = any(arm.paper_millions is not None for arm in settings.arms.values())
    main = _find_main_figure(settings)
    columns = [
        Column("arm"),
        Column("parameters", is_number=True),
        *([Column("paper: million parameters", is_number=True)] if has_sizes else []),
        *(Column(name_figure(name), is_number=True) for name in shown),
        Column("difference", is_number=True, hint=f"{name_figure(main)}, in points"),
        Column("p", is_number=True, hint="paired t-test against the base"),
        *(Column(f"paper: {name_figure(name)}", is_number=True) for name in theirs),
        Column("minutes", is_number=True, hint="of one pretraining"),
        Column("step", is_number=True, hint="milliseconds at full depth and length, in a fresh process"),
        Column("forward", is_number=True, hint="milliseconds of a forward pass over the same batch"),
        Column("memory", is_number=True, hint="MB at its peak in such a step"),
    ]
    base = next(summary for summary in summaries if summary.arm == settings.base)
    rows = []
    for summary in summaries:
        arm, results, cost = settings.arms[summary.arm], list(summary.results.values()), summary.footprint
        minutes = fmean(result.seconds / 60 for result in results) if results else None
        costs: list[float | None] = [None, None, None]
        if cost is not None and cost.inference_seconds is not None:
            costs = [1e3 * cost.step_seconds, 1e3 * cost.inference_seconds, cost.peak_bytes / 1e6]
        rows.append(
            [
                Cell(_label(settings, summary.arm)),
                Cell.number(results[0].num_parameters if results else None),
                *([Cell.number(arm.paper_millions, "g")] if has_sizes else []),
                *(_format_mean(summary, name) for name in shown),
                *_format_difference(summary, base, main),
                *(Cell.number(arm.paper.get(name), ".1f") for name in theirs),
                Cell.number(minutes, ".1f"),
                *(Cell.number(each, ".0f") for each in costs),
            ]
        )
    strong = [index for index, summary in enumerate(summaries) if summary.arm == settings.base]
    return Table("arms", columns, rows, strong_rows=strong)


def _format_mean(summary: ArmSummary, figure: str) -> Cell:
    """Format a mean with half of its interval; a single run has none."""
    found = _estimate(summary, figure)
    if found is None:
        return Cell("")
    more = "" if found.high is None else f" ± {found.high - found.mean:.2f}"
    return Cell.number(found.mean, ".2f", low=found.low, high=found.high, more=more)


def _format_difference(summary: ArmSummary, base: ArmSummary, figure: str) -> tuple[Cell, Cell]:
    """Format the difference from the base and its p-value."""
    found = compare_paired(summary.collect(figure), base=base.collect(figure))
    if found is None or summary.arm == base.arm:
        return Cell(""), Cell("")
    more = "" if found.low is None else f" ({found.low:+.2f} … {found.high:+.2f})"
    p_value = Cell("") if found.p_value is None else Cell(format_p(found.p_value), found.p_value)
    return Cell.number(found.mean, "+.2f", low=found.low, high=found.high, more=more), p_value


def _build_stability_table(settings: StudySettings, summaries: Summaries) -> Table:
    columns = [
        Column("arm"),
        *(Column(name_figure(name), is_number=True) for name in _STABILITY),
        Column("spread of the held-out loss", is_number=True, hint="between seeds"),
    ]
    rows = []
    for summary in summaries:
        row = [Cell(_label(settings, summary.arm))]
        for name in _STABILITY:
            found = _estimate(summary, name)
            row.append(
                Cell("") if found is None else Cell.number(found.mean, ".3f", low=found.low, high=found.high)
            )
        loss = _estimate(summary, "mlm_loss")
        rows.append([*row, Cell.number(None if loss is None else loss.spread, ".4f")])
    return Table("stability", columns, rows)


def _build_paper_tables(settings: StudySettings) -> list[Table]:
    """Show the paper's models that nobody trains here in tables of their own."""
    return [
        Table(
            table.name,
            [Column(name, is_number=index > 0) for index, name in enumerate(table.columns)],
            [
                [Cell(value) if isinstance(value, str) else Cell.number(value, "g") for value in row]
                for row in table.rows
            ],
            note=table.note,
        )
        for table in settings.paper_tables
    ]


def _draw_charts(settings: StudySettings, summaries: Summaries) -> list[Chart]:
    """Draw what there is enough data for."""
    main = _find_main_figure(settings)
    drawn = [
        _draw_differences(settings, summaries, main),
        _draw_dial(settings, summaries, main),
        *(_draw_curves(settings, summaries, name) for name in ("mlm_loss", "mlm_accuracy", "sop_accuracy")),
        _draw_questions(settings, summaries),
    ]
    return [chart for chart in drawn if chart is not None]


def _build_series(name: str, points: Iterable[tuple[float, Estimate]]) -> Series:
    """Build a series of means; one without an interval has an interval of no length."""
    found = list(points)
    return Series(
        name,
        [x for x, _ in found],
        [each.mean for _, each in found],
        [each.mean if each.low is None else each.low for _, each in found],
        [each.mean if each.high is None else each.high for _, each in found],
    )


def _draw_differences(settings: StudySettings, summaries: Summaries, figure: str) -> Chart | None:
    """Compare every arm with the base: ours with intervals, and the paper's on the same scale."""
    base = next(summary for summary in summaries if summary.arm == settings.base)
    base_label = _label(settings, settings.base)
    others = [summary for summary in summaries if summary.arm != settings.base and summary.collect(figure)]
    compared = [compare_paired(each.collect(figure), base=base.collect(figure)) for each in others]
    ours = [(float(x), each) for x, each in enumerate(compared) if each is not None]
    if not ours:
        return None
    known = settings.arms[settings.base].paper.get(figure)
    paper = [(float(x), settings.arms[each.arm].paper.get(figure)) for x, each in enumerate(others)]
    theirs = [(x, value - known) for x, value in paper if value is not None and known is not None]
    series = [_build_series("here", ours)]
    if theirs:
        series.append(Series("the paper", [x for x, _ in theirs], [y for _, y in theirs], is_reference=True))
    has_intervals = any(each.low is not None for _, each in ours)
    return Chart(
        "differences",
        f"Against {base_label}{', with 95% intervals' if has_intervals else ''}",
        "",
        f"{name_figure(figure)}, points",
        series,
        kind="points",
        x_names=[_label(settings, each.arm) for each in others],
        levels=[Level(0.0, "no difference")],
        told=f"The difference of each arm from {base_label} in points.",
    )


def _draw_dial(settings: StudySettings, summaries: Summaries, figure: str) -> Chart | None:
    """Draw a line for each family of arms that have an x, such as their width, depth or data."""
    families: dict[str, list[tuple[float, Estimate]]] = defaultdict(list)
    for summary in summaries:
        arm, found = settings.arms[summary.arm], _estimate(summary, figure)
        if arm.x is not None and found is not None:
            families[arm.family or "here"].append((arm.x, found))
    if not any(len(points) > 1 for points in families.values()):
        return None
    xs = [x for points in families.values() for x, _ in points]
    x_label = settings.x_label or (settings.x_from or "").replace("_", " ")
    return Chart(
        "dial",
        f"{name_figure(figure)} by {x_label}",
        x_label,
        name_figure(figure),
        [
            _build_series(family, sorted(points, key=lambda point: point[0]))
            for family, points in families.items()
        ],
        has_log_x=min(xs) > 0 and max(xs) / min(xs) >= 4,
        told=f"{name_figure(figure)} over {x_label}, a line for each family.",
    )


def _draw_curves(settings: StudySettings, summaries: Summaries, figure: str) -> Chart | None:
    """Draw a figure during training: the mean over seeds, between the lowest and the highest.

    Over steps; over minutes where arms have equal time, because their numbers of steps differ then.
    """
    is_timed = settings.equal == "time"
    factor = 100.0 if is_share(figure) else 1.0
    series = []
    for summary in summaries:
        points: dict[int, list[float]] = defaultdict(list)
        minutes: dict[int, list[float]] = defaultdict(list)
        for result in summary.results.values():
            for point in result.curve:
                if figure in point.figures:
                    points[point.step].append(factor * point.figures[figure])
                    minutes[point.step].append(point.seconds / 60)
        if len(points) > 1:
            steps = sorted(points)
            series.append(
                Series(
                    _label(settings, summary.arm),
                    [fmean(minutes[step]) if is_timed else float(step) for step in steps],
                    [fmean(points[step]) for step in steps],
                    [min(points[step]) for step in steps],
                    [max(points[step]) for step in steps],
                )
            )
    if not series:
        return None
    return Chart(
        f"curve-{figure.replace('_', '-')}",
        f"Held out, {name_figure(figure)}",
        "minutes of training" if is_timed else "step",
        f"{name_figure(figure)}, %" if is_share(figure) else name_figure(figure),
        series,
        told=f"{name_figure(figure)} of held-out text during training, a line for each arm.",
    )


def _draw_questions(settings: StudySettings, summaries: Summaries) -> Chart | None:
    """Draw table 5: every arm on both sentence tasks."""
    objectives = {settings.arms[each.arm].pretrain.get("examples", {}).get("objective") for each in summaries}
    if len(objectives) < 2 or not any(summary.collect("sop_accuracy") for summary in summaries):
        return None
    series = []
    for figure in ("sop_accuracy", "nsp_accuracy", "probe_sop", "probe_nsp"):
        found = [(float(x), _estimate(each, figure)) for x, each in enumerate(summaries)]
        points = [(x, each) for x, each in found if each is not None]
        if points:
            series.append(_build_series(name_figure(figure), points))
    return Chart(
        "questions",
        "Every arm on both sentence tasks",
        "",
        "right, %",
        series,
        kind="points",
        x_names=[_label(settings, each.arm) for each in summaries],
        levels=[Level(50.0, "chance")],
        told="Sentence order and next sentence accuracy of every arm.",
    )


def judge_claim(
    claim: ClaimSettings, settings: StudySettings, summaries: Mapping[str, ArmSummary]
) -> Finding:
    """Judge a claim by the first of its figures that was measured."""
    theirs = "no difference" if claim.is_equal else "better"
    if claim.paper is not None:
        told = f"{claim.paper:+.1f} points ({name_figure(claim.by[0])})"
        theirs = f"no difference: {told}" if claim.is_equal else told
    for figure in claim.by:
        better = summaries[claim.better].collect(figure)
        if isinstance(claim.than, str):
            found = compare_paired(better, base=summaries[claim.than].collect(figure))
        else:
            found = compare_paired(better, base=dict.fromkeys(better, claim.than))
        if found is not None:
            ours = _format_claim(claim, figure, found, settings)
            return Finding(claim.text, theirs, ours, _judge(claim, figure, found))
    waiting = [_label(settings, arm) for arm in claim.arms if not summaries[arm].results]
    if waiting:
        ours = f"not finished: {', '.join(waiting)}"
    else:
        hint = "; give tasks, as in tasks=[sst-2], and --task-data" if claim.by == ("average",) else ""
        ours = f"{' and '.join(name_figure(figure) for figure in claim.by)}: not measured{hint}"
    return Finding(claim.text, theirs, ours, "not asked")


def _judge(claim: ClaimSettings, figure: str, found: Estimate) -> Verdict:
    """Decide by the interval of how much better one arm is than the other."""
    if found.low is None or found.high is None:
        return "cannot tell"
    low, high = (found.low, found.high) if _is_better_high(figure) else (-found.high, -found.low)
    margin = claim.margin if claim.is_equal else 0.0
    if claim.is_equal and -margin <= low and high <= margin:
        return "agrees"
    if low > margin:
        return "disagrees" if claim.is_equal else "agrees"
    return "disagrees" if high < -margin else "cannot tell"


def _format_claim(claim: ClaimSettings, figure: str, found: Estimate, settings: StudySettings) -> str:
    better, *than = (_label(settings, arm) for arm in claim.arms)
    unit = "" if figure.endswith(("loss", "gap", "norm", "variation")) else " points"
    told = f"{found.mean:+.2f}{unit}"
    if found.low is None or found.high is None or found.p_value is None:
        told += ", no interval" if found.num_seeds > 1 else ", one seed, no interval"
    else:
        p_value = format_p(found.p_value)
        sign = "" if p_value.startswith("<") else "= "
        told += (
            f", 95% from {found.low:+.2f} to {found.high:+.2f} ({found.num_seeds} seeds, p {sign}{p_value})"
        )
    if not _is_better_high(figure):
        told += "; less is better"
    return f"{name_figure(figure)}, {better} against {than[0] if than else f'{claim.than:g}'}: {told}"
