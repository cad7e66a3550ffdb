"""How sure a model is comes in with how right it is; what to make of it goes out, in words and a picture."""

from albert.report.html_tables import build_table
from albert.report.markup import Html, section, tag
from albert.tasks.evaluation_result import Calibration, Evaluation, ThresholdReport
from albert.tasks.metrics.calibration import ReliabilityBin
from albert.tasks.metrics.squad import ANSWER_NOTHING
from albert.tasks.report.plots import draw_reliability, draw_scatter

_HONEST = 0.1  # how far from 1 a temperature may be that is called right


def show_calibration(calibration: Calibration | None) -> Html:
    """Whether probabilities can be taken at their word."""
    if calibration is None:
        return Html("")
    own = calibration.temperature
    made = "each model's own temperature" if own is None else f"the temperature {own:.3g}"
    told = (
        f"Confidence and accuracy lie {100 * calibration.ece:.1f} points apart (expected calibration error); "
        f"the mean of -log p of what is right is {calibration.loss:.3f}. "
    ) + (
        f"That is of halves, each at {_tell_chosen(calibration)} chosen on the other."
        if calibration.is_tuned_here
        else f"Probabilities are at {made}."
    )
    if not calibration.bins:
        return section("How honest the probabilities are", tag("p", _judge(calibration)), tag("p", told))
    rows = [
        tag(
            "tr",
            tag("th", f"{each.low:.0%} – {each.high:.0%}", scope="row"),
            *(tag("td", cell, class_="number") for cell in _tell_bin(each)),
        )
        for each in calibration.bins
    ]
    table = build_table(("sure to", "answers", "sure, mean", "right"), rows, is_numeric=True)
    key = "Bars: how many are right. Red marks: how sure the model was. Below: how many answers."
    words = tag("div", tag("p", _judge(calibration)), tag("p", told), tag("p", key, class_="soft"), table)
    plots = tag("div", draw_reliability(calibration.bins), words, class_="plots")
    return section("How honest the probabilities are", plots)


def _tell_bin(each: ReliabilityBin) -> tuple[str, str, str]:
    return f"{each.num_answers:,}", f"{each.confidence:.1%}", f"{each.accuracy:.1%}"


def _tell_chosen(calibration: Calibration) -> str:
    return "a temperature" if calibration.temperature is not None else "a temperature for each model"


def _judge(calibration: Calibration) -> str:
    best = calibration.best_temperature
    if calibration.is_tuned_here and calibration.temperature is None:
        return (
            "Temperatures of these models were chosen on these very examples, which say nothing of whether "
            "they are right."
        )
    if calibration.is_tuned_here:
        return "The temperature was chosen on these very examples, which say nothing of whether it is right."
    if abs(best - 1) <= _HONEST:
        return "The probabilities can be taken at their word."
    if best > 1:
        return f"The model is surer than it should be: a further temperature of {best:.2f} would mend that."
    return f"The model is less sure than it may be: a further temperature of {best:.2f} would mend that."


def show_threshold(threshold: ThresholdReport | None) -> Html:
    """When questions are left unanswered, and what another threshold would give."""
    if threshold is None:
        return Html("")
    best = threshold.best
    parts = [
        f"{_tell_threshold(threshold.threshold)} ({threshold.source}).",
        f"The best threshold for these very questions would give an exact match of {best.best_exact:.2f} and "
        f"an F1 of {best.best_f1:.2f}, which flatters.",
    ]
    if threshold.elsewhere is not None:
        scores = threshold.elsewhere.scores.overall
        parts.append(
            f"Chosen on {threshold.num_chosen_on:,} of them and scored on the other "
            f"{threshold.num_reported:,}: exact match {scores.exact:.2f}, F1 {scores.f1:.2f}."
        )
    return section("Questions without an answer", *(tag("p", part) for part in parts))


def _tell_threshold(threshold: float) -> str:
    if threshold == ANSWER_NOTHING:
        return "Every question is left unanswered: no answer was worth giving"
    return f"A question whose odds for no answer lie above {threshold:.3f} is left unanswered"


def show_numbers(evaluation: Evaluation) -> Html:
    """Given numbers by right ones."""
    facts = evaluation.facts
    if not evaluation.verdicts or (facts.label_kind != "number" and facts.kind != "embedding"):
        return Html("")
    golds = [float(verdict.gold) for verdict in evaluation.verdicts]
    given = [float(verdict.given) for verdict in evaluation.verdicts]
    plots = tag("div", draw_scatter(golds, given, is_one_scale=facts.kind == "texts"), class_="plots")
    return section("Right and given numbers", plots)
