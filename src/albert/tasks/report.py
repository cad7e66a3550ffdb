"""Build the HTML report of an evaluation: scores, confusion matrix, calibration and the worst errors."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from albert.files import write_text
from albert.report.content import Card, Cell, Chart, Column, Page, Section, Series, Table
from albert.report.write import format_html
from albert.tasks.evaluate import Calibration, Evaluation
from albert.tasks.metrics.squad import ANSWER_NOTHING, ThresholdReport
from albert.tasks.task import ExampleResult

MAX_MATRIX = 30  # classes; with more, the most confused pairs are listed
NUM_CONFUSED = 40
NUM_WORST = 200
NUM_OF_EACH = 5  # errors of each pair of labels, so that each cell of the matrix links to some
MAX_ERRORS = 600
MAX_LABELS = 60  # labels offered by a filter
_MAX_CALIBRATED = 0.1  # distance from 1 of a temperature that still counts as calibrated


def write_report(path: Path, evaluation: Evaluation) -> None:
    """Write the report as one self-contained HTML file."""
    write_text(path, format_html(build_page(evaluation)))


def build_page(evaluation: Evaluation) -> Page:
    """Build the page, without sections that are empty."""
    models = evaluation.models
    name = f"ensemble of {len(models)} models" if len(models) > 1 else models[0]
    scored = f"{evaluation.num_scored:,} examples scored"
    if evaluation.num_scored != len(evaluation.examples):
        scored += f", of {len(evaluation.examples):,}"
    errors = _build_errors(evaluation)
    charts = evaluation.built.build_charts(evaluation.results)
    sections = [
        _build_scores(evaluation),
        _build_members(evaluation),
        _build_classes(evaluation),
        _build_confusion(evaluation, has_links=bool(errors.filters)),
        Section("Predicted and gold values", charts=charts) if charts else None,
        _build_calibration(evaluation.calibration),
        _build_threshold(evaluation.threshold),
        Section("Problems in the data", paragraphs=evaluation.problems) if evaluation.problems else None,
        errors,
    ]
    return Page(
        f"{evaluation.task}: {evaluation.split}",
        f"{name} · {evaluation.data} · {scored}",
        [section for section in sections if section is not None],
        headline=_format_headline(evaluation),
    )


def _format_headline(evaluation: Evaluation) -> str:
    if "score" not in evaluation.scores:
        return ""
    score = evaluation.intervals.get("score")
    interval = "" if score is None else f" ({score.level:.0%} interval {score.low:.2f} – {score.high:.2f})"
    return f"score {evaluation.scores['score']:.2f}{interval}"


def _build_scores(evaluation: Evaluation) -> Section | None:
    """List every metric with its interval; the main score is the headline."""
    rows = []
    for name, value in evaluation.scores.items():
        if name not in ("score", "threshold"):
            interval = evaluation.intervals.get(name)
            limits = "" if interval is None else f"{interval.low:.2f} – {interval.high:.2f}"
            rows.append([Cell(_format_metric(name)), Cell.number(value, ".2f"), Cell(limits)])
    level = next((f"{each.level:.0%} interval" for each in evaluation.intervals.values()), "interval")
    columns = [
        Column("metric"),
        Column("points", is_number=True),
        Column(level, is_number=True),
    ]
    return Section("Scores", tables=[Table("scores", columns, rows)]) if rows else None


def _build_members(evaluation: Evaluation) -> Section | None:
    """Compare the members of an ensemble with the ensemble."""
    members = evaluation.member_scores
    if len(members) < 2:
        return None
    known = {name for each in members for name in each.scores} - {"threshold"}
    names = [name for name in evaluation.scores if name in known]

    def build_row(title: str, scores: Mapping[str, float]) -> list[Cell]:
        return [Cell(title), *(Cell.number(scores.get(name), ".2f") for name in names)]

    rows = [build_row("ensemble", evaluation.scores)]
    rows += [
        build_row(each.name + ("" if each.is_chosen else " (not selected)"), each.scores) for each in members
    ]
    columns = [Column("model"), *(Column(_format_metric(name), is_number=True) for name in names)]
    note = ""
    if evaluation.selection is not None:
        chosen_on, number = evaluation.selection.chosen_on, evaluation.selection.num_chosen_on
        steps = ", then ".join(f"{name} ({score:.2f})" for name, score in evaluation.selection.steps)
        note = f"Selected on {chosen_on} ({number:,} examples, not in the scores): {steps}."
    return Section("Models", tables=[Table("models", columns, rows, strong_rows=[0], note=note)])


def _build_classes(evaluation: Evaluation) -> Section | None:
    if not evaluation.classes:
        return None
    columns = [
        Column(name, is_number=name != "class") for name in ("class", "precision", "recall", "F1", "examples")
    ]
    rows = [
        [
            Cell(str(each.label)),
            *(Cell.number(100 * value, ".1f") for value in (each.precision, each.recall, each.f1)),
            Cell.number(each.support),
        ]
        for each in evaluation.classes
    ]
    return Section("Classes", tables=[Table("classes", columns, rows)])


def _build_confusion(evaluation: Evaluation, *, has_links: bool) -> Section | None:
    """Show the confusion matrix, or for many classes the most confused pairs."""
    confusion = evaluation.confusion
    if confusion is None or not any(map(sum, confusion.counts)):
        return None
    labels = [str(label) for label in confusion.labels]
    if len(labels) > MAX_MATRIX:
        pairs = [
            (count, count / sum(counts), labels[gold], labels[predicted])
            for gold, counts in enumerate(confusion.counts)
            for predicted, count in enumerate(counts)
            if count and gold != predicted
        ]
        pairs.sort(key=lambda each: each[:2], reverse=True)
        columns = [
            Column("gold"),
            Column("predicted"),
            Column("examples", is_number=True),
            Column("share of the gold class", is_number=True),
        ]
        rows = [
            [Cell(gold), Cell(predicted), Cell.number(count), Cell.number(share, ".0%")]
            for count, share, gold, predicted in pairs[:NUM_CONFUSED]
        ]
        return Section("Most confused classes", tables=[Table("confusion", columns, rows)])

    def build_cell(gold: int, predicted: int) -> Cell:
        count, total = confusion.counts[gold][predicted], sum(confusion.counts[gold])
        if not count:
            return Cell("·", 0.0, heat=0.0)
        share, is_correct = count / total, gold == predicted
        heat = 0.08 + 0.92 * share  # a single example is visible
        text = f"{share:.0%} ({count:,})" if share >= 0.005 else f"<1% ({count:,})"
        keys = (labels[gold], labels[predicted]) if has_links and not is_correct else ()
        return Cell(text, float(count), heat=heat if is_correct else -heat, keys=keys)

    rows = [
        [
            Cell(label),
            Cell.number(sum(confusion.counts[gold])),
            *(build_cell(gold, other) for other in range(len(labels))),
        ]
        for gold, label in enumerate(labels)
    ]
    columns = [Column("gold ↓ predicted →"), Column("examples", is_number=True), *map(Column, labels)]
    paragraph = "Rows are gold labels, columns are predicted labels; each row adds up to 100%."
    paragraph += " Click a cell to see its errors." if has_links else ""
    return Section("Confusion matrix", paragraphs=[paragraph], tables=[Table("confusion", columns, rows)])


def _build_calibration(calibration: Calibration | None) -> Section | None:
    """Describe the calibration, with a reliability diagram."""
    if calibration is None:
        return None
    own, best = calibration.temperature, calibration.best_temperature
    if calibration.is_tuned_here:
        state = (
            f"The temperature{' of each model' if own is None else ''} was chosen on these examples, so the "
            "figures below are cross-fitted: each half of the examples is measured at a temperature chosen "
            "on the other half."
        )
    else:
        state = "The probabilities are well calibrated."
        if abs(best - 1) > _MAX_CALIBRATED:
            which = "overconfident" if best > 1 else "underconfident"
            state = f"The model is {which}: a further temperature of {best:.2f} would calibrate it."
        used = "the temperature of each model" if own is None else f"a temperature of {own:.3g}"
        state += f" Probabilities are computed at {used}."
    figures = (
        f"Expected calibration error: {100 * calibration.ece:.1f} points. Mean negative log-likelihood of "
        f"the gold labels: {calibration.loss:.3f}."
    )
    columns = [
        Column("confidence"),
        *(Column(name, is_number=True) for name in ("examples", "mean confidence", "accuracy")),
    ]
    rows = [
        [
            Cell(f"{each.low:.0%} – {each.high:.0%}", each.low),
            Cell.number(each.num_answers),
            Cell.number(each.confidence, ".1%"),
            Cell.number(each.accuracy, ".1%"),
        ]
        for each in calibration.bins
    ]
    chart = Chart(
        "reliability",
        "Accuracy by confidence",
        "mean confidence, %",
        "accuracy, %",
        [
            Series(
                "predictions",
                [100 * each.confidence for each in calibration.bins],
                [100 * each.accuracy for each in calibration.bins],
            )
        ],
        has_diagonal=True,
        caption="On the line y = x the model is perfectly calibrated; below it, the model is overconfident.",
    )
    table = Table("calibration", columns, rows)
    return Section("Calibration", paragraphs=[state, figures], tables=[table], charts=[chart])


def _build_threshold(threshold: ThresholdReport | None) -> Section | None:
    """Describe the no-answer threshold, and the scores at the best one."""
    if threshold is None:
        return None
    best = threshold.best
    rule = (
        "All questions are left unanswered"
        if threshold.threshold == ANSWER_NOTHING
        else f"Questions with null odds above {threshold.threshold:.3f} are left unanswered"
    )
    parts = [
        f"{rule} (threshold: {threshold.source}).",
        f"At the best threshold for these questions, exact match is {best.best_exact:.2f} and F1 "
        f"{best.best_f1:.2f}, which is optimistic, because it is chosen on the same questions.",
    ]
    if threshold.elsewhere is not None:
        scores = threshold.elsewhere.scores.overall
        parts.append(
            f"With a threshold chosen on {threshold.num_chosen_on:,} of them and scored on the other "
            f"{threshold.num_reported:,}: exact match {scores.exact:.2f}, F1 {scores.f1:.2f}."
        )
    return Section("Questions without an answer", paragraphs=parts)


def _build_errors(evaluation: Evaluation) -> Section:
    """Show the worst errors and the worst of each confused pair of labels as cards."""
    wrong = sorted((each for each in evaluation.results if not each.is_correct), key=lambda each: -each.loss)
    if not wrong:
        return Section("Errors", paragraphs=[f"None of {evaluation.num_scored:,} predictions is wrong."])
    names = {*evaluation.config.labels, *(name for each in wrong for name in (each.gold, each.predicted))}
    has_labels = evaluation.built.has_label_filters and len(names) <= MAX_LABELS
    seen: Counter[tuple[str, str]] = Counter()
    shown: list[ExampleResult] = []
    for rank, each in enumerate(wrong):
        pair = (each.gold, each.predicted)
        if rank < NUM_WORST or (has_labels and seen[pair] < NUM_OF_EACH and len(shown) < MAX_ERRORS):
            seen[pair] += 1
            shown.append(each)
    summary = f"{len(wrong):,} of {evaluation.num_scored:,} predictions are wrong"
    if len(shown) < len(wrong):
        summary += f"; the {len(shown):,} worst are shown"
        summary += ", with some of each pair of labels" if has_labels else ""
    cards = []
    for rank, each in enumerate(shown, start=1):
        confidence = "" if each.confidence is None else f" (confidence {each.confidence:.1%})"
        cards.append(
            Card(
                [*each.texts.items(), ("gold", each.gold), ("predicted", f"{each.predicted}{confidence}")],
                note=f"{rank}. · loss {each.loss:.2f} · id {each.id}",
                keys=(each.gold, each.predicted) if has_labels else (),
            )
        )
    filters = ("gold", "predicted") if has_labels else ()
    return Section(
        "Errors, worst first",
        paragraphs=[f"{summary}. {evaluation.built.error_order}"],
        cards=cards,
        filters=filters,
    )


def _format_metric(name: str) -> str:
    return " ".join("F1" if word == "f1" else word for word in name.split("_"))
