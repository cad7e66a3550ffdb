"""Print an evaluation on a terminal."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from albert.tasks.evaluate import Calibration, Evaluation
    from albert.tasks.exit_curve import ExitCurve
    from albert.tasks.metrics.squad import ThresholdReport

_MAX_LABELS = 12  # in a confusion matrix; the report has larger ones


def render_evaluation(console: Any, found: "Evaluation") -> None:
    """Print the scores with their intervals, then members, classes, confusions, calibration and threshold."""
    of = "" if found.num_scored in (0, len(found.examples)) else f"{found.num_scored:,} of "
    models = found.models[0] if len(found.models) == 1 else f"{len(found.models)} models"
    console.print(f"{found.task} on {found.split}: {of}{len(found.examples):,} examples, {models}")
    if not found.scores:
        console.print("no labels, so no scores")
        return
    # The threshold and its search are printed below, and a score that is a metric is printed once.
    named = [value for name, value in found.scores.items() if name != "score"]
    rows = [
        (name.replace("_", " "), f"{value:.2f}", _format_interval(found, name))
        for name, value in found.scores.items()
        if name not in ("best_exact", "best_f1", "threshold") and not (name == "score" and value in named)
    ]
    _print_table(console, ("", "value", "95% interval"), rows)
    if found.selection is not None:
        steps = ", ".join(f"{name} ({score:.2f})" for name, score in found.selection.steps)
        console.print(
            f"members selected on {found.selection.chosen_on} ({found.selection.num_chosen_on:,} examples), "
            f"with the score after each: {steps}"
        )
    if found.member_scores:
        members = [
            (member.name, "yes" if member.is_chosen else "no", f"{member.scores['score']:.2f}")
            for member in found.member_scores
        ]
        _print_table(console, ("member", "selected", "score"), members)
    if found.classes:
        classes = [
            (str(each.label), *(f"{100 * value:.2f}" for value in (each.precision, each.recall, each.f1)),
             f"{each.support:,}")
            for each in found.classes
        ]  # fmt: skip
        shown = classes[: 2 * _MAX_LABELS]
        _print_table(console, ("class", "precision", "recall", "f1", "examples"), shown)
        if len(classes) > len(shown):
            console.print(f"and {len(classes) - len(shown)} more classes")
    if found.confusion is not None and len(found.confusion.labels) <= _MAX_LABELS:
        labels = [*map(str, found.confusion.labels)]
        counts = zip(labels, found.confusion.counts, strict=True)
        rows_of_counts = [(label, *(f"{count:,}" for count in row)) for label, row in counts]
        _print_table(console, ("gold ↓ predicted →", *labels), rows_of_counts)
    if found.calibration is not None:
        console.print(_describe_calibration(found.calibration))
    if found.threshold is not None:
        _print_threshold(console, found.threshold)


def render_exits(console: Any, curve: "ExitCurve") -> None:
    """Print the score and the speed of every depth and every patience."""
    rows = [
        (str(point.depth), "–" if point.patience is None else str(point.patience),
         f"{point.score:.2f}", f"{point.mean_layers:.2f}", f"{point.speed:.2f}")
        for point in (*curve.depths, *curve.patiences)
    ]  # fmt: skip
    _print_table(console, ("layers", "patience", "score", "mean layers", "speedup"), rows)
    chosen = curve.choose()
    console.print(
        "nothing faster is within half a point of the score with all layers"
        if chosen is None
        else f"{chosen.option} is {chosen.speed:.2f} times as fast, within half a point of all layers"
    )


def _print_table(console: Any, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.table import Table

    table = Table(*head)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _format_interval(found: "Evaluation", name: str) -> str:
    interval = found.intervals.get(name)
    return "–" if interval is None else f"{interval.low:.2f} – {interval.high:.2f}"


def _describe_calibration(found: "Calibration") -> str:
    error = f"calibration error {100 * found.ece:.2f} points"
    if found.is_tuned_here:  # the temperature was chosen on these examples, so it is tested on halves
        chosen = "a temperature" if found.temperature is not None else "a temperature for each model"
        return f"{error}, of halves, each at {chosen} chosen on the other"
    used = "each model's own" if found.temperature is None else f"{found.temperature:.3f}"
    return f"{error} at temperature {used}; best on these examples: {found.best_temperature:.3f} times that"


def _print_threshold(console: Any, found: "ThresholdReport") -> None:
    from albert.tasks.metrics.scores import format_score
    from albert.tasks.metrics.squad import ANSWER_NOTHING

    is_silent = found.threshold == ANSWER_NOTHING
    rule = "nothing is answered" if is_silent else f"no answer where its odds are above {found.threshold:.4g}"
    console.print(f"{rule}: {found.source}")
    if found.elsewhere is not None:
        scores = found.elsewhere.scores.overall
        chosen = format_score(found.elsewhere.threshold, ".4g")
        console.print(
            f"chosen on {found.num_chosen_on:,} questions ({chosen}) and scored on "
            f"the other {found.num_reported:,}: exact {scores.exact:.2f}, f1 {scores.f1:.2f}"
        )
    best = found.best
    console.print(
        f"best threshold in hindsight (official search): exact {best.best_exact:.2f} at "
        f"{best.best_exact_thresh:.4g}, f1 {best.best_f1:.2f} at {best.best_f1_thresh:.4g}"
    )
