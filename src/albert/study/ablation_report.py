"""Build the report of an ablation study: verdicts on the paper's claims, a table of all variants, and charts.

Variants are compared seed by seed, because with one seed all variants see the same examples in the same
order. A claim is decided by the 95% interval of the difference.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from albert.progress import format_seconds
from albert.report.content import Cell, Chart, Column, Finding, Level, Page, Section, Series, Table, Verdict
from albert.study.plan import StudyPlan
from albert.study.run import RunResult
from albert.study.settings import FIGURES, ClaimSettings, StudySettings, get_figure
from albert.study.step_costs import Footprint

LEVEL = 0.95
_QUALITY = (
    "mlm_accuracy", "mlm_loss", "sop_accuracy", "nsp_accuracy", "probe_sop", "probe_nsp", "agreement",
)  # fmt: skip
_STABILITY = ("train_loss", "mlm_loss", "gap", "grad_norm", "grad_variation")


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, its 95% interval (Student's t) and the p-value of a two-sided t-test against 0.

    Of one seed, or if a run diverged, there is only the mean.
    """

    mean: float
    low: float | None
    high: float | None
    spread: float | None
    p_value: float | None
    num_seeds: int


@dataclass(frozen=True)
class VariantSummary:
    """The runs of a variant by seed, and the cost of its training step."""

    variant: str
    results: Mapping[int, RunResult]
    failures: Mapping[int, str]
    footprint: Footprint | None = None

    def collect(self, figure: str) -> dict[int, float]:
        """Collect a figure by seed, accuracies and scores in points of 100; seeds without it are left out.

        A figure is a task, `average` of the tasks, or one measured at the end of pretraining.
        """
        found = {}
        for seed, result in self.results.items():
            if figure == "average" and result.scores:
                found[seed] = fmean(result.scores.values())
            elif figure in result.scores:
                found[seed] = result.scores[figure]
            elif figure in result.figures:
                found[seed] = result.figures[figure] * (100.0 if get_figure(figure).is_share else 1.0)
        return found

    def estimate(self, figure: str) -> Estimate | None:
        values = self.collect(figure)
        return estimate_mean(list(values.values())) if values else None


Summaries = Sequence[VariantSummary]


def estimate_mean(values: Sequence[float]) -> Estimate:
    """Estimate the mean of at least one run."""
    from scipy.stats import t

    mean, number = fmean(values), len(values)
    if number < 2 or not math.isfinite(mean):
        return Estimate(mean, None, None, None, None, number)
    spread = stdev(values)
    half = float(t.ppf((1 + LEVEL) / 2, number - 1)) * spread / math.sqrt(number)
    if spread == 0.0:
        p_value = 1.0 if mean == 0.0 else 0.0
    else:
        p_value = 2.0 * float(t.sf(abs(mean) * math.sqrt(number) / spread, number - 1))
    return Estimate(mean, mean - half, mean + half, spread, p_value, number)


def compare_paired(values: Mapping[int, float], *, base: Mapping[int, float]) -> Estimate | None:
    """Estimate `values` minus `base`, seed by seed; None if they have no seed in common."""
    differences = [values[seed] - base[seed] for seed in sorted(values.keys() & base.keys())]
    return estimate_mean(differences) if differences else None


def build_page(plan: StudyPlan, summaries: Summaries) -> Page:
    """Show the findings first, then every figure, then how the study was run."""
    settings = plan.settings
    found = {summary.variant: summary for summary in summaries}
    results = [result for summary in summaries for result in summary.results.values()]
    notes = {_label(settings, name): variant.note for name, variant in settings.arms.items() if variant.note}
    base = _label(settings, settings.base)
    intervals = (
        f"One seed, so no intervals and no p-values. Differences are from {base}."
        if settings.num_seeds == 1
        else f"Means over seeds with 95% intervals (Student's t). Differences are from {base}, seed by seed, "
        "with the p-value of a paired t-test."
    )
    curves = (
        "Curves over steps are measured during training, on examples like those that the variant is trained "
        "on: where the examples of variants differ, their curves cannot be compared. All other figures are "
        "measured at the end, on the same examples for all variants."
    )
    stability = (
        "The gap is the loss of masked words in held-out text minus that in training text. Gradient norms "
        "are those of the second half of training. The spread is the standard deviation over seeds."
    )
    main = _get_main_figure(settings)
    charts = [
        _draw_differences(settings, summaries, main),
        _draw_families(settings, summaries, main),
        *(_draw_curves(settings, summaries, name) for name in ("mlm_loss", "mlm_accuracy", "sop_accuracy")),
    ]
    sections = [
        Section(
            "Claims of the paper and results",
            paragraphs=[
                settings.question,
                *settings.notes,
                *(f"{label[:1].upper()}{label[1:]}: {note}" for label, note in notes.items()),
            ],
            findings=[judge_claim(claim, settings, found) for claim in settings.claims],
        ),
        Section(
            "Variants",
            paragraphs=[f"{intervals} Parameters are those of the encoder with its pooler."],
            tables=[_build_variant_table(settings, summaries)],
        ),
        Section("Charts", paragraphs=[curves], charts=[chart for chart in charts if chart is not None]),
        Section(
            "Stability and overfitting",
            paragraphs=[stability],
            tables=[_build_stability_table(settings, summaries)],
        ),
    ]
    if settings.paper_tables:
        tables = []
        for table in settings.paper_tables:
            columns = [Column(name, is_number=index > 0) for index, name in enumerate(table.columns)]
            tables.append(Table(table.name, columns, list(map(_format_row, table.rows)), note=table.note))
        sections.append(Section("The paper's own figures", tables=tables))
    sections.append(_describe_runs(plan, summaries, results))
    return Page(f"{settings.title} ({settings.paper})", _describe_scale(plan, results), sections)


def _label(settings: StudySettings, variant: str) -> str:
    return settings.arms[variant].label or variant


def _format_row(values: Sequence[str | float]) -> list[Cell]:
    return [Cell(value) if isinstance(value, str) else Cell.number(value, "g") for value in values]


def _get_main_figure(settings: StudySettings) -> str:
    return "average" if settings.tasks else "mlm_accuracy"


def _describe_scale(plan: StudyPlan, results: Sequence[RunResult]) -> str:
    """Say what was run here, so that nobody takes it for the paper's experiment."""
    if not results:
        return "Nothing is finished yet."
    first = results[0]
    seconds = sum(result.seconds for result in results)
    num_seeds = plan.settings.num_seeds
    return (
        f"A small copy of the paper's experiment: {len(plan.settings.arms)} variants, "
        f"{num_seeds} seed{'' if num_seeds == 1 else 's'}; about {first.num_parameters:,} parameters, "
        f"{first.num_steps:,} steps and {first.num_tokens:,} tokens in the variant {first.arm}; "
        f"{format_seconds(seconds)} of pretraining. "
        "The paper trains 12 to 235 million parameters on 16 GB of text for 125,000 steps of 4,096 sequences."
    )


def _describe_runs(plan: StudyPlan, summaries: Summaries, results: Sequence[RunResult]) -> Section:
    settings = plan.settings
    first, last = settings.seeds[0], settings.seeds[-1]
    seeds = f"seed {first}" if first == last else f"seeds {first} to {last}"
    threads = " or ".join(map(str, sorted({result.num_threads for result in results}))) or "–"
    versions = ", ".join(f"{name} {version}" for name, version in plan.versions.items())
    lines = [
        f"{len(results)} of {len(settings.arms) * settings.num_seeds} runs are finished, with {seeds}. "
        f"Started {plan.started}; threads per run: {threads}. All variants with the same seed saw the same "
        "examples in the same order, unless the examples are what differs.",
        f"Recipe {settings.recipe}; the differences of each variant are in study.json. {versions}.",
    ]
    if plan.budget_seconds is not None:
        steps = ", ".join(f"{variant} {number:,}" for variant, number in plan.num_steps.items())
        lines.append(f"Steps were frozen for a budget of {format_seconds(plan.budget_seconds)}: {steps}.")
    waiting = []
    for summary in summaries:
        lines += [f"Failed: {summary.variant}, seed {seed}: {why}" for seed, why in summary.failures.items()]
        done = summary.results.keys() | summary.failures.keys()
        waiting += [f"{summary.variant}, seed {seed}" for seed in settings.seeds if seed not in done]
    if waiting:
        lines.append(f"Not finished: {'; '.join(waiting)}.")
    return Section("How it was run", paragraphs=lines, code=plan.command)


def _build_variant_table(settings: StudySettings, summaries: Summaries) -> Table:
    """List size, quality, difference from the base, cost and the paper's figures of each variant."""
    shown = [name for name in _QUALITY if any(summary.collect(name) for summary in summaries)]
    shown += [*settings.tasks, *(["average"] if len(settings.tasks) > 1 else [])]
    in_paper = {name for variant in settings.arms.values() for name in variant.paper}
    theirs = [name for name in FIGURES if name in in_paper]
    has_sizes = any(variant.paper_millions is not None for variant in settings.arms.values())
    main = _get_main_figure(settings)
    columns = [
        Column("arm"),
        Column("parameters", is_number=True),
        *([Column("paper: million parameters", is_number=True)] if has_sizes else []),
        *(Column(get_figure(name).title, is_number=True) for name in shown),
        Column("difference", is_number=True, hint=f"{get_figure(main).title}, in points"),
        Column("p", is_number=True, hint="paired t-test against the base"),
        *(Column(f"paper: {get_figure(name).title}", is_number=True) for name in theirs),
        Column("minutes", is_number=True, hint="of one pretraining"),
        Column("step", is_number=True, hint="milliseconds at full depth and length, in a fresh process"),
        Column("forward", is_number=True, hint="milliseconds of a forward pass over the same batch"),
        Column("memory", is_number=True, hint="MB at its peak in such a step"),
    ]
    base = next(summary for summary in summaries if summary.variant == settings.base)
    rows = []
    for summary in summaries:
        variant, results = settings.arms[summary.variant], list(summary.results.values())
        minutes = fmean(result.seconds / 60 for result in results) if results else None
        costs: list[float | None] = [None, None, None]
        if (cost := summary.footprint) is not None and cost.inference_seconds is not None:
            costs = [1e3 * cost.step_seconds, 1e3 * cost.inference_seconds, cost.peak_bytes / 1e6]
        rows.append(
            [
                Cell(_label(settings, summary.variant)),
                Cell.number(results[0].num_parameters if results else None),
                *([Cell.number(variant.paper_millions, "g")] if has_sizes else []),
                *(_format_mean(summary.estimate(name)) for name in shown),
                *_format_difference(summary, base, main),
                *(Cell.number(variant.paper.get(name), ".1f") for name in theirs),
                Cell.number(minutes, ".1f"),
                *(Cell.number(each, ".0f") for each in costs),
            ]
        )
    return Table("arms", columns, rows, strong_rows=[summaries.index(base)])


def _format_mean(found: Estimate | None) -> Cell:
    if found is None:
        return Cell("")
    more = "" if found.high is None else f" ± {found.high - found.mean:.2f}"
    return Cell.number(found.mean, ".2f", low=found.low, high=found.high, more=more)


def _format_difference(summary: VariantSummary, base: VariantSummary, figure: str) -> tuple[Cell, Cell]:
    found = compare_paired(summary.collect(figure), base=base.collect(figure))
    if found is None or summary is base:
        return Cell(""), Cell("")
    more = "" if found.low is None else f" ({found.low:+.2f} … {found.high:+.2f})"
    p_value = Cell("") if found.p_value is None else Cell(_format_p(found.p_value), found.p_value)
    return Cell.number(found.mean, "+.2f", low=found.low, high=found.high, more=more), p_value


def _format_p(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _build_stability_table(settings: StudySettings, summaries: Summaries) -> Table:
    columns = [
        Column("arm"),
        *(Column(get_figure(name).title, is_number=True) for name in _STABILITY),
        Column("spread of the held-out loss", is_number=True, hint="between seeds"),
    ]
    rows = []
    for summary in summaries:
        row = [Cell(_label(settings, summary.variant))]
        for name in _STABILITY:
            found = summary.estimate(name)
            row.append(Cell.number(found.mean, ".3f", low=found.low, high=found.high) if found else Cell(""))
        loss = summary.estimate("mlm_loss")
        rows.append([*row, Cell.number(None if loss is None else loss.spread, ".4f")])
    return Table("stability", columns, rows)


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
    """Compare every variant with the base: ours with intervals, and the paper's on the same scale."""
    base = next(summary for summary in summaries if summary.variant == settings.base)
    base_label, base_paper = _label(settings, base.variant), settings.arms[base.variant].paper.get(figure)
    others = [summary for summary in summaries if summary is not base and summary.collect(figure)]
    ours: list[tuple[float, Estimate]] = []
    theirs: dict[float, float] = {}
    for x, summary in enumerate(others):
        found = compare_paired(summary.collect(figure), base=base.collect(figure))
        if found is not None:
            ours.append((float(x), found))
        paper = settings.arms[summary.variant].paper.get(figure)
        if paper is not None and base_paper is not None:
            theirs[float(x)] = paper - base_paper
    if not ours:
        return None
    series = [_build_series("here", ours)]
    if theirs:
        series.append(Series("the paper", list(theirs), list(theirs.values()), is_reference=True))
    has_intervals = any(each.low is not None for _, each in ours)
    return Chart(
        "differences",
        f"Against {base_label}{', with 95% intervals' if has_intervals else ''}",
        "",
        f"{get_figure(figure).title}, points",
        series,
        kind="points",
        x_names=[_label(settings, each.variant) for each in others],
        levels=[Level(0.0, "no difference")],
        told=f"The difference of each variant from {base_label} in points.",
    )


def _draw_families(settings: StudySettings, summaries: Summaries, figure: str) -> Chart | None:
    """Draw a line for each family of variants that have an x, such as their width, depth or data."""
    families: dict[str, list[tuple[float, Estimate]]] = defaultdict(list)
    for summary in summaries:
        variant, found = settings.arms[summary.variant], summary.estimate(figure)
        if variant.x is not None and found is not None:
            families[variant.family or "here"].append((variant.x, found))
    if not any(len(points) > 1 for points in families.values()):
        return None
    xs = [x for points in families.values() for x, _ in points]
    x_label = settings.x_label or (settings.x_from or "").replace("_", " ")
    return Chart(
        "dial",
        f"{get_figure(figure).title} by {x_label}",
        x_label,
        get_figure(figure).title,
        [
            _build_series(family, sorted(points, key=lambda point: point[0]))
            for family, points in families.items()
        ],
        has_log_x=min(xs) > 0 and max(xs) / min(xs) >= 4,
        told=f"{get_figure(figure).title} over {x_label}, a line for each family.",
    )


def _draw_curves(settings: StudySettings, summaries: Summaries, figure: str) -> Chart | None:
    """Draw a figure during training: the mean over seeds, between the lowest and the highest.

    Over steps; over minutes where variants have equal time, because their numbers of steps differ then.
    """
    is_timed = settings.equal == "time"
    factor = 100.0 if get_figure(figure).is_share else 1.0
    series = []
    for summary in summaries:
        points: dict[int, list[float]] = defaultdict(list)
        minutes: dict[int, list[float]] = defaultdict(list)
        for point in (point for result in summary.results.values() for point in result.curve):
            if figure in point.figures:
                points[point.step].append(factor * point.figures[figure])
                minutes[point.step].append(point.seconds / 60)
        if len(points) > 1:
            steps = sorted(points)
            xs = [fmean(minutes[step]) if is_timed else float(step) for step in steps]
            ys, lows, highs = ([reduce(points[step]) for step in steps] for reduce in (fmean, min, max))
            series.append(Series(_label(settings, summary.variant), xs, ys, lows, highs))
    if not series:
        return None
    return Chart(
        f"curve-{figure.replace('_', '-')}",
        f"Held out, {get_figure(figure).title}",
        "minutes of training" if is_timed else "step",
        f"{get_figure(figure).title}, %" if get_figure(figure).is_share else get_figure(figure).title,
        series,
        told=f"{get_figure(figure).title} of held-out text during training, a line for each variant.",
    )


def judge_claim(
    claim: ClaimSettings, settings: StudySettings, summaries: Mapping[str, VariantSummary]
) -> Finding:
    """Judge a claim by the first of its figures that was measured."""
    theirs = "no difference" if claim.is_equal else "better"
    if claim.paper is not None:
        points = f"{claim.paper:+.1f} points ({get_figure(claim.by[0]).title})"
        theirs = f"no difference: {points}" if claim.is_equal else points
    for figure in claim.by:
        values = summaries[claim.better].collect(figure)
        if isinstance(claim.than, str):
            found = compare_paired(values, base=summaries[claim.than].collect(figure))
        else:
            found = compare_paired(values, base=dict.fromkeys(values, claim.than))
        if found is not None:
            ours = _format_claim(claim, figure, found, settings)
            return Finding(claim.text, theirs, ours, _judge(claim, figure, found))
    waiting = [_label(settings, name) for name in claim.variants if not summaries[name].results]
    if waiting:
        ours = f"not finished: {', '.join(waiting)}"
    else:
        hint = "; give tasks, as in tasks=[sst-2], and --task-data" if claim.by == ("average",) else ""
        ours = f"{' and '.join(get_figure(figure).title for figure in claim.by)}: not measured{hint}"
    return Finding(claim.text, theirs, ours, "not asked")


def _judge(claim: ClaimSettings, figure: str, found: Estimate) -> Verdict:
    """Decide by the interval of how much better one variant is than the other."""
    if found.low is None or found.high is None:
        return "cannot tell"
    low, high = (found.low, found.high) if get_figure(figure).is_better_high else (-found.high, -found.low)
    margin = claim.margin if claim.is_equal else 0.0
    if claim.is_equal and -margin <= low and high <= margin:
        return "agrees"
    if low > margin:
        return "disagrees" if claim.is_equal else "agrees"
    return "disagrees" if high < -margin else "cannot tell"


def _format_claim(claim: ClaimSettings, figure: str, found: Estimate, settings: StudySettings) -> str:
    than = _label(settings, claim.than) if isinstance(claim.than, str) else f"{claim.than:g}"
    unit = "" if figure.endswith(("loss", "gap", "norm", "variation")) else " points"
    text = f"{get_figure(figure).title}, {_label(settings, claim.better)} against {than}: "
    text += f"{found.mean:+.2f}{unit}"
    if found.low is None or found.high is None or found.p_value is None:
        text += ", no interval" if found.num_seeds > 1 else ", one seed, no interval"
    else:
        p_value = _format_p(found.p_value)
        sign = "" if p_value.startswith("<") else "= "
        text += f", 95% from {found.low:+.2f} to {found.high:+.2f}"
        text += f" ({found.num_seeds} seeds, p {sign}{p_value})"
    return text if get_figure(figure).is_better_high else f"{text}; less is better"
