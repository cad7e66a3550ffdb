"""The arms of a study and their results come in; charts of differences, curves and dials go out."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from albert.report.content import Chart, Level, Series
from albert.study.arms.figures import name_figure
from albert.study.arms.folder import StudyPlan
from albert.study.arms.plan import StudySettings
from albert.study.arms.results import ArmSummary, is_share
from albert.study.arms.statistics import compare_paired, estimate_mean


def draw_charts(plan: StudyPlan, summaries: Sequence[ArmSummary]) -> list[Chart]:
    """What there is enough of to be drawn."""
    settings = plan.settings
    judged = "average" if settings.tasks else "mlm_accuracy"
    drawn = [
        _draw_differences(settings, summaries, judged),
        _draw_dial(settings, summaries, judged),
        _draw_curves(settings, summaries, "mlm_loss"),
        _draw_curves(settings, summaries, "mlm_accuracy"),
        _draw_curves(settings, summaries, "sop_accuracy"),
        _draw_questions(settings, summaries),
    ]
    return [chart for chart in drawn if chart is not None]


def _name(settings: StudySettings, arm: str) -> str:
    return settings.arms[arm].label or arm


def _draw_differences(settings: StudySettings, summaries: Sequence[ArmSummary], figure: str) -> Chart | None:
    """Every arm against the base: ours with intervals, and the paper's on the same scale of points."""
    base = next(summary for summary in summaries if summary.arm == settings.base)
    others = [summary for summary in summaries if summary.arm != settings.base and summary.collect(figure)]
    found = [compare_paired(each.collect(figure), base=base.collect(figure)) for each in others]
    ours = [(x, each) for x, each in enumerate(found) if each is not None]
    if not ours:
        return None
    series = [
        Series(
            "here",
            [float(x) for x, _ in ours],
            [each.difference for _, each in ours],
            [each.difference if each.low is None else each.low for _, each in ours],
            [each.difference if each.high is None else each.high for _, each in ours],
        )
    ]
    known = settings.arms[settings.base].paper.get(figure)
    theirs = [(x, settings.arms[each.arm].paper.get(figure)) for x, each in enumerate(others)]
    pairs = [(float(x), value - known) for x, value in theirs if value is not None and known is not None]
    if pairs:
        series.append(Series("the paper", [x for x, _ in pairs], [y for _, y in pairs], is_reference=True))
    reach = ", with 95% intervals" if any(each.low is not None for _, each in ours) else ""
    return Chart(
        "differences",
        f"Against {_name(settings, settings.base)}{reach}",
        "",
        f"{name_figure(figure)}, points",
        series,
        kind="points",
        x_names=[_name(settings, each.arm) for each in others],
        levels=[Level(0.0, "no difference")],
        told=f"The difference of each arm from {_name(settings, settings.base)} in points.",
    )


def _draw_dial(settings: StudySettings, summaries: Sequence[ArmSummary], figure: str) -> Chart | None:
    """Where arms have a place on an axis, a line for each family: width, depth, data."""
    families: dict[str, list[tuple[float, ArmSummary]]] = defaultdict(list)
    for summary in summaries:
        arm = settings.arms[summary.arm]
        if arm.x is not None and summary.collect(figure):
            families[arm.family or "here"].append((arm.x, summary))
    series = []
    for family, unordered in families.items():
        members = sorted(unordered, key=lambda each: each[0])  # an arm may have been added later
        estimates = [estimate_mean(list(each.collect(figure).values())) for _, each in members]
        series.append(
            Series(
                family,
                [x for x, _ in members],
                [each.mean for each in estimates],
                [each.mean if each.low is None else each.low for each in estimates],
                [each.mean if each.high is None else each.high for each in estimates],
            )
        )
    if not any(len(each.xs) > 1 for each in series):
        return None
    x_label = settings.x_label or (settings.x_from or "").replace("_", " ")
    return Chart(
        "dial",
        f"{name_figure(figure)} by {x_label}",
        x_label,
        name_figure(figure),
        series,
        has_log_x=_spans_octaves(series),
        told=f"{name_figure(figure)} over {x_label}, a line for each family.",
    )


def _spans_octaves(series: Sequence[Series]) -> bool:
    xs = [x for each in series for x in each.xs]
    return min(xs) > 0 and max(xs) / min(xs) >= 4


def _draw_curves(settings: StudySettings, summaries: Sequence[ArmSummary], figure: str) -> Chart | None:
    """A figure on the way, averaged over seeds, between the lowest and the highest of them.

    Over steps; over minutes where arms have equal time, because their steps are not the same then.
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
                    _name(settings, summary.arm),
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


def _draw_questions(settings: StudySettings, summaries: Sequence[ArmSummary]) -> Chart | None:
    """Table 5 as a picture: every arm asked both sentence questions."""
    done = [summary for summary in summaries if summary.collect("sop_accuracy")]
    if len({settings.arms[each.arm].pretrain.get("examples", {}).get("objective") for each in summaries}) < 2:
        return None
    series = []
    for figure in ("sop_accuracy", "nsp_accuracy", "probe_sop", "probe_nsp"):
        found = [(x, each.collect(figure)) for x, each in enumerate(summaries)]
        rows = [(float(x), estimate_mean(list(values.values()))) for x, values in found if values]
        if rows:
            series.append(
                Series(
                    name_figure(figure),
                    [x for x, _ in rows],
                    [each.mean for _, each in rows],
                    [each.mean if each.low is None else each.low for _, each in rows],
                    [each.mean if each.high is None else each.high for _, each in rows],
                )
            )
    if not done or not series:
        return None
    return Chart(
        "questions",
        "What each model says when it is asked both questions",
        "",
        "right, %",
        series,
        kind="points",
        x_names=[_name(settings, each.arm) for each in summaries],
        levels=[Level(50.0, "chance")],
        told="Sentence order and next sentence accuracy of every arm.",
    )
