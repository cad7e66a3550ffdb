"""Build the report of an ablation study: the paper's claims, a table of all variants, and charts.

Variants are compared seed by seed, because all variants with the same seed see the same examples in the same
order. The outcome of a claim depends on the 95% interval of the difference.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from albert.progress import format_seconds
from albert.report.content import Cell, Chart, Column, Finding, Level, Outcome, Page, Section, Series, Table
from albert.study.plan import StudyPlan
from albert.study.results import build_table
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

    For one seed, or if a run diverged, there is only the mean.
    """

    mean: float
    num_seeds: int
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    p_value: float | None = None

    @property
    def cell(self) -> Cell:
        more = "" if self.high is None else f" ± {self.high - self.mean:.2f}"
        return Cell.number(self.mean, ".2f", low=self.low, high=self.high, more=more)


@dataclass(frozen=True)
class VariantSummary:
    """The runs of a variant by seed, and the cost of its training step."""

    variant: str
    results: Mapping[int, RunResult]
    failures: Mapping[int, str]
    footprint: Footprint | None = None

    def collect(self, figure: str) -> dict[int, float]:
        """Collect a figure by seed, for seeds that have it; accuracies and scores are in points of 100."""
        values = {}
        for seed, result in self.results.items():
            if figure == "average" and result.scores:
                values[seed] = fmean(result.scores.values())
            elif figure in result.scores:
                values[seed] = result.scores[figure]
            elif figure in result.figures:
                values[seed] = result.figures[figure] * (100.0 if get_figure(figure).is_share else 1.0)
        return values

    def estimate(self, figure: str) -> Estimate | None:
        """Estimate the mean of a figure over seeds; None if it was not measured."""
        values = self.collect(figure)
        return estimate_mean(list(values.values())) if values else None


Summaries = Sequence[VariantSummary]


def estimate_mean(values: Sequence[float]) -> Estimate:
    """Estimate the mean of one or several runs."""
    from scipy.stats import t

    mean, number = fmean(values), len(values)
    if number < 2 or not math.isfinite(mean):
        return Estimate(mean, number)
    spread = stdev(values)
    error = spread / math.sqrt(number)
    half = float(t.ppf((1 + LEVEL) / 2, number - 1)) * error
    p_value = 2.0 * float(t.sf(abs(mean) / error, number - 1)) if error else float(mean == 0.0)
    return Estimate(mean, number, mean - half, mean + half, spread, p_value)


def compare_paired(values: Mapping[int, float], *, base: Mapping[int, float]) -> Estimate | None:
    """Estimate the mean of `values` minus `base`, seed by seed; None without common seeds."""
    differences = [values[seed] - base[seed] for seed in sorted(values.keys() & base.keys())]
    return estimate_mean(differences) if differences else None


def build_page(plan: StudyPlan, summaries: Summaries) -> Page:
    """Build the report of a study."""
    settings = plan.settings
    found = {summary.variant: summary for summary in summaries}
    results = [result for summary in summaries for result in summary.results.values()]
    labeled = {_label(settings, name): each.note for name, each in settings.variants.items() if each.note}
    intervals = "There is only one seed, so there are no intervals and p-values."
    if settings.num_seeds > 1:
        intervals = "Means over seeds with 95% intervals (Student's t) and p-values of a paired t-test."
    intervals += (
        f" Differences from {_label(settings, settings.base)} are computed seed by seed. Parameters are "
        "those of the encoder with its pooler."
    )
    curves = (
        "Curves are measured during training, on held-out examples made like the training examples of the "
        "variant. All other figures are measured at the end, on the same examples for all variants."
    )
    stability = (
        "Gradient norms are those of the second half of training. The spread is the standard deviation "
        "over seeds."
    )
    main = "average" if settings.tasks else "mlm_accuracy"
    charts = [
        _draw_differences(settings, summaries, main),
        _draw_families(settings, summaries, main),
        *(_draw_curves(settings, summaries, name) for name in ("mlm_loss", "mlm_accuracy", "sop_accuracy")),
    ]
    findings = [evaluate_claim(claim, settings, found) for claim in settings.claims]
    notes = [f"{label[:1].upper()}{label[1:]}: {note}" for label, note in labeled.items()]
    paper_tables = []
    for table in settings.paper_tables:
        columns = [Column(name, is_number=index > 0) for index, name in enumerate(table.columns)]
        paper_tables.append(Table(table.name, columns, list(map(_format_row, table.rows)), note=table.note))
    sections = [
        Section("Claims of the paper and results", [settings.question, *settings.notes, *notes], findings),
        Section("Variants", [intervals], tables=[_tabulate_variants(settings, summaries, main)]),
        Section("Charts", [curves], charts=[chart for chart in charts if chart is not None]),
        Section("Stability and overfitting", [stability], tables=[_tabulate_stability(settings, summaries)]),
        *([Section("Tables of the paper", tables=paper_tables)] if paper_tables else []),
        _describe_runs(plan, summaries, results),
    ]
    return Page(f"{settings.title} ({settings.paper})", _describe_scale(plan, results), sections)


def _label(settings: StudySettings, variant: str) -> str:
    return settings.variants[variant].label or variant


def _format_row(values: Sequence[str | float]) -> list[Cell]:
    return [Cell(value) if isinstance(value, str) else Cell.number(value, "g") for value in values]


def _describe_scale(plan: StudyPlan, results: Sequence[RunResult]) -> str:
    if not results:
        return "No run is finished yet."
    first = results[0]
    seconds = sum(result.seconds for result in results)
    num_seeds = plan.settings.num_seeds
    return (
        f"The paper's experiment at a small scale: {len(plan.settings.variants)} variants, "
        f"{num_seeds} seed{'' if num_seeds == 1 else 's'}; about {first.num_parameters:,} parameters, "
        f"{first.num_steps:,} steps and {first.num_tokens:,} tokens for the variant {first.variant}; "
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
        f"{len(results)} of {len(settings.variants) * settings.num_seeds} runs are finished, with {seeds}. "
        f"Started {plan.started}; threads per run: {threads}. Variants with the same seed saw the same "
        "examples in the same order, unless their settings of examples differ.",
        f"Recipe {settings.recipe}; the settings of each variant are in study.json. {versions}.",
    ]
    if plan.budget_seconds is not None:
        steps = ", ".join(f"{variant} {number:,}" for variant, number in plan.num_steps.items())
        lines.append(f"Steps that fit into the budget of {format_seconds(plan.budget_seconds)}: {steps}.")
    waiting = []
    for summary in summaries:
        lines += [f"Failed: {summary.variant}, seed {seed}: {why}" for seed, why in summary.failures.items()]
        done = summary.results.keys() | summary.failures.keys()
        waiting += [f"{summary.variant}, seed {seed}" for seed in settings.seeds if seed not in done]
    if waiting:
        lines.append(f"Not finished: {'; '.join(waiting)}.")
    return Section("How it was run", paragraphs=lines, code=plan.command)


def _tabulate_variants(settings: StudySettings, summaries: Summaries, main: str) -> Table:
    shown = [name for name in _QUALITY if any(summary.collect(name) for summary in summaries)]
    shown += [*settings.tasks, *(["average"] if len(settings.tasks) > 1 else [])]
    in_paper = {name for variant in settings.variants.values() for name in variant.paper}
    theirs = [name for name in FIGURES if name in in_paper]
    has_sizes = any(variant.paper_millions is not None for variant in settings.variants.values())
    base = next(summary for summary in summaries if summary.variant == settings.base)
    rows = []
    for summary in summaries:
        variant, results = settings.variants[summary.variant], list(summary.results.values())
        minutes = fmean(result.seconds / 60 for result in results) if results else None
        cost = summary.footprint
        step, forward = (cost.step_seconds, cost.inference_seconds) if cost else (None, None)
        row = {
            Column("variant"): Cell(_label(settings, summary.variant)),
            Column("parameters", True): Cell.number(results[0].num_parameters if results else None),
        }
        if has_sizes:
            row[Column("paper: million parameters", True)] = Cell.number(variant.paper_millions, "g")
        for name in shown:
            found = summary.estimate(name)
            row[Column(get_figure(name).title, True)] = found.cell if found else Cell("")
        difference, p_value = _format_difference(summary, base, main)
        row[Column("difference", True, f"{get_figure(main).title}, in points")] = difference
        row[Column("p", True, "paired t-test against the base")] = p_value
        for name in theirs:
            paper = Cell.number(variant.paper.get(name), ".1f")
            row[Column(f"paper: {get_figure(name).title}", True)] = paper
        for name, hint, value, spec in (
            ("minutes", "of one pretraining", minutes, ".1f"),
            ("step", "milliseconds at full depth and length, in a new process", step and 1e3 * step, ".0f"),
            (
                "forward",
                "milliseconds of a forward pass over the same batch",
                forward and 1e3 * forward,
                ".0f",
            ),
            ("memory", "peak of the same step, in MB", cost.peak_bytes / 1e6 if cost else None, ".0f"),
        ):
            row[Column(name, True, hint)] = Cell.number(value, spec)
        rows.append(row)
    return build_table("variants", rows, strong_rows=[summaries.index(base)])


def _format_difference(summary: VariantSummary, base: VariantSummary, figure: str) -> tuple[Cell, Cell]:
    found = compare_paired(summary.collect(figure), base=base.collect(figure))
    if found is None or summary is base:
        return Cell(""), Cell("")
    more = "" if found.low is None else f" ({found.low:+.2f} … {found.high:+.2f})"
    p_value = Cell("") if found.p_value is None else Cell(_format_p(found.p_value), found.p_value)
    return Cell.number(found.mean, "+.2f", low=found.low, high=found.high, more=more), p_value


def _format_p(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _tabulate_stability(settings: StudySettings, summaries: Summaries) -> Table:
    rows = []
    for summary in summaries:
        row = {Column("variant"): Cell(_label(settings, summary.variant))}
        for name in _STABILITY:
            found = summary.estimate(name)
            cell = Cell.number(found.mean, ".3f", low=found.low, high=found.high) if found else Cell("")
            row[Column(get_figure(name).title, True)] = cell
        loss = summary.estimate("mlm_loss")
        spread = Column("spread of the held-out loss", True, "between seeds")
        rows.append({**row, spread: Cell.number(loss.spread if loss else None, ".4f")})
    return build_table("stability", rows)


def _build_series(name: str, points: Iterable[tuple[float, Estimate]]) -> Series:
    found = list(points)
    return Series(
        name,
        [x for x, _ in found],
        [each.mean for _, each in found],
        [each.mean if each.low is None else each.low for _, each in found],
        [each.mean if each.high is None else each.high for _, each in found],
    )


def _draw_differences(settings: StudySettings, summaries: Summaries, figure: str) -> Chart | None:
    """Plot the difference of each variant from the base, here and in the paper."""
    base = next(summary for summary in summaries if summary.variant == settings.base)
    base_label, base_paper = _label(settings, base.variant), settings.variants[base.variant].paper.get(figure)
    others = [summary for summary in summaries if summary is not base and summary.collect(figure)]
    ours: list[tuple[float, Estimate]] = []
    theirs: dict[float, float] = {}
    for x, summary in enumerate(others):
        if found := compare_paired(summary.collect(figure), base=base.collect(figure)):
            ours.append((x, found))
        paper = settings.variants[summary.variant].paper.get(figure)
        if paper is not None and base_paper is not None:
            theirs[x] = paper - base_paper
    if not ours:
        return None
    series = [_build_series("here", ours)]
    if theirs:
        series.append(Series("the paper", list(theirs), list(theirs.values()), is_reference=True))
    has_intervals = any(each.low is not None for _, each in ours)
    title = f"Against {base_label}{', with 95% intervals' if has_intervals else ''}"
    y_label, caption = f"{get_figure(figure).title}, points", f"Differences from {base_label}."
    x_names, levels = [_label(settings, each.variant) for each in others], [Level(0.0, "no difference")]
    return Chart("differences", title, "", y_label, series, "points", x_names, levels, caption=caption)


def _draw_families(settings: StudySettings, summaries: Summaries, figure: str) -> Chart | None:
    """Plot a figure over the x of variants, such as hidden size, with a line for each family."""
    families: dict[str, list[tuple[float, Estimate]]] = defaultdict(list)
    for summary in summaries:
        variant, found = settings.variants[summary.variant], summary.estimate(figure)
        if variant.x is not None and found is not None:
            families[variant.family or "here"].append((variant.x, found))
    if not any(len(points) > 1 for points in families.values()):
        return None
    x_label = settings.x_label or (settings.x_from or "").replace("_", " ")
    y_label = get_figure(figure).title
    series = [
        _build_series(family, sorted(points, key=lambda point: point[0]))
        for family, points in families.items()
    ]
    xs = [x for each in series for x in each.xs]
    has_log_x, caption = min(xs) > 0 and max(xs) / min(xs) >= 4, f"{y_label} over {x_label}, by family."
    return Chart(
        "families", f"{y_label} by {x_label}", x_label, y_label, series, has_log_x=has_log_x, caption=caption
    )


def _draw_curves(settings: StudySettings, summaries: Summaries, figure: str) -> Chart | None:
    """Plot a figure during training, over steps or minutes: its mean and range over seeds."""
    is_timed, title = settings.equal == "time", get_figure(figure).title
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
    name, x_label = f"curve-{figure.replace('_', '-')}", "minutes of training" if is_timed else "step"
    y_label = f"{title}, %" if get_figure(figure).is_share else title
    caption = f"{title} of held-out text during training, a line for each variant."
    return Chart(name, f"Held out, {title}", x_label, y_label, series, caption=caption)


def evaluate_claim(
    claim: ClaimSettings, settings: StudySettings, summaries: Mapping[str, VariantSummary]
) -> Finding:
    """Evaluate a claim on the first of its figures that was measured."""
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
            return Finding(claim.text, theirs, ours, _decide(claim, figure, found))
    waiting = [_label(settings, name) for name in claim.variants if not summaries[name].results]
    if waiting:
        ours = f"not finished: {', '.join(waiting)}"
    else:
        hint = "; set tasks, as in tasks=[sst-2], and --task-data" if claim.by == ("average",) else ""
        ours = f"{' and '.join(get_figure(figure).title for figure in claim.by)}: not measured{hint}"
    return Finding(claim.text, theirs, ours, "not tested")


def _decide(claim: ClaimSettings, figure: str, found: Estimate) -> Outcome:
    """Compare the interval of the difference with 0, or with the margin."""
    if found.low is None or found.high is None:
        return "inconclusive"
    low, high = (found.low, found.high) if get_figure(figure).is_better_high else (-found.high, -found.low)
    margin = claim.margin if claim.is_equal else 0.0
    if claim.is_equal and -margin <= low and high <= margin:
        return "agrees"
    if low > margin:
        return "disagrees" if claim.is_equal else "agrees"
    return "disagrees" if high < -margin else "inconclusive"


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
    return text if get_figure(figure).is_better_high else f"{text}; lower is better"
