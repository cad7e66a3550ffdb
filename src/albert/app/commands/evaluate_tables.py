"""An evaluation comes in; the tables that a person reads on a terminal go out."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from albert.tasks.evaluation_result import Calibration, Evaluation, ThresholdReport
    from albert.tasks.exit_curve import ExitCurve

TOLD_BELOW = ("best_exact", "best_f1", "threshold")
MAX_SHOWN = 12  # classes in a matrix; more than this is for the page


def render_evaluation(console: Any, found: "Evaluation") -> None:
    """The scores with their intervals, then what lies behind them."""
    of = "" if found.num_scored in (0, len(found.examples)) else f"{found.num_scored:,} of "
    models = found.models[0] if len(found.models) == 1 else f"{len(found.models)} models"
    console.print(
        f"{found.task} on {found.split}: {of}{len(found.examples):,} examples, {models}", markup=False
    )
    if not found.scores:
        console.print("no labels, so no scores")
        return
    _render_scores(console, found)
    _render_members(console, found)
    if found.classes:
        _render_classes(console, found)
    if found.confusion is not None and len(found.confusion.labels) <= MAX_SHOWN:
        _render_confusion(console, found)
    if found.calibration is not None:
        console.print(_tell_calibration(found.calibration))
    if found.threshold is not None:
        _render_threshold(console, found.threshold)


def _render_scores(console: Any, found: "Evaluation") -> None:
    from rich.table import Table

    table = Table("", "value", "95% interval")
    named = [value for name, value in found.scores.items() if name != "score"]
    for name, value in found.scores.items():
        # The threshold and its search have lines of their own, and a score that is a metric has its row.
        if name in TOLD_BELOW or (name == "score" and value in named):
            continue
        interval = found.intervals.get(name)
        limits = "–" if interval is None else f"{interval.low:.2f} – {interval.high:.2f}"
        table.add_row(_name(name), f"{value:.2f}", limits)
    console.print(table)


def _render_members(console: Any, found: "Evaluation") -> None:
    from rich.table import Table

    if found.selection is not None:
        steps = ", ".join(f"{name} ({score:.2f})" for name, score in found.selection.steps)
        console.print(
            f"members chosen on {found.selection.chosen_on} ({found.selection.num_chosen_on:,} examples), "
            f"each with the score by then: {steps}",
            markup=False,
        )
    if not found.member_scores:
        return
    table = Table("member", "chosen", "score")
    for member in found.member_scores:
        table.add_row(member.name, "yes" if member.is_chosen else "no", f"{member.scores['score']:.2f}")
    console.print(table)


def _render_classes(console: Any, found: "Evaluation") -> None:
    from rich.table import Table

    table = Table("class", "precision", "recall", "f1", "examples")
    for each in found.classes[: 2 * MAX_SHOWN]:
        figures = (f"{100 * value:.2f}" for value in (each.precision, each.recall, each.f1))
        table.add_row(str(each.label), *figures, f"{each.support:,}")
    console.print(table)
    if len(found.classes) > 2 * MAX_SHOWN:
        console.print(f"and {len(found.classes) - 2 * MAX_SHOWN} more classes")


def _tell_calibration(found: "Calibration") -> str:
    error = f"calibration error {100 * found.ece:.2f} points"
    if found.is_tuned_here:  # on these very examples, which say nothing of whether it is right
        chosen = "a temperature" if found.temperature is not None else "a temperature for each model"
        return f"{error}, of halves, each at {chosen} chosen on the other"
    used = "each model's own" if found.temperature is None else f"{found.temperature:.3f}"
    return f"{error} at temperature {used}; these examples would want {found.best_temperature:.3f} times that"


def _render_confusion(console: Any, found: "Evaluation") -> None:
    from rich.table import Table

    assert found.confusion is not None
    table = Table("right ↓ given →", *(str(label) for label in found.confusion.labels))
    for label, counts in zip(found.confusion.labels, found.confusion.counts, strict=True):
        table.add_row(str(label), *(f"{count:,}" for count in counts))
    console.print(table)


def _render_threshold(console: Any, found: "ThresholdReport") -> None:
    from albert.tasks.metrics.squad import ANSWER_NOTHING
    from albert.tasks.metrics.task_score import format_figure

    is_silent = found.threshold == ANSWER_NOTHING
    told = "nothing is answered" if is_silent else f"no answer where its odds are above {found.threshold:.4g}"
    console.print(f"{told}: {found.source}")
    if found.elsewhere is not None:
        scores = found.elsewhere.scores.overall
        chosen = format_figure(found.elsewhere.threshold, ".4g")
        console.print(
            f"chosen on {found.num_chosen_on:,} questions ({chosen}) and scored on "
            f"the other {found.num_reported:,}: exact {scores.exact:.2f}, f1 {scores.f1:.2f}"
        )
    best = found.best
    console.print(
        f"the official search over all questions, which flatters: exact {best.best_exact:.2f} at "
        f"{best.best_exact_thresh:.4g}, f1 {best.best_f1:.2f} at {best.best_f1_thresh:.4g}"
    )


def render_exits(console: Any, curve: "ExitCurve") -> None:
    """Every depth and every patience: what it scores, and how fast it is."""
    from rich.table import Table

    table = Table("layers", "patience", "score", "layers in the mean", "times as fast")
    for point in (*curve.depths, *curve.patiences):
        patience = "–" if point.patience is None else str(point.patience)
        figures = (f"{point.score:.2f}", f"{point.mean_layers:.2f}", f"{point.speed:.2f}")
        table.add_row(str(point.depth), patience, *figures)
    console.print(table)
    chosen = curve.choose()
    console.print(
        "nothing faster comes within half a point of all layers' score"
        if chosen is None
        else f"{chosen.option} is {chosen.speed:.2f} times as fast, within half a point of all layers' score"
    )


def _name(metric: str) -> str:
    return metric.replace("_", " ")
